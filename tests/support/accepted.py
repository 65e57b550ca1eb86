"""What may be raised by bytes that are not what we wrote: all of it, in one place.

Each fuzz test names its row. Anything else that escapes is a bug.
"""

from __future__ import annotations

from raftflow.cluster.codec import UndecodableEntry
from raftflow.cluster.consensus.framing import FrameError
from raftflow.cluster.consensus.handshake import HandshakeError
from raftflow.cluster.consensus.membership import MembershipError
from raftflow.cluster.consensus.types import ConsensusBroken
from raftflow.cluster.consensus.wire import WireError
from raftflow.cluster.store import CopyRefused, CorruptRecord
from raftflow.cluster.store.errors import StoreDamaged, StoreError, StoreIOError, StoreTooNew
from raftflow.raftlog.errors import JournalDamaged

LOG = (JournalDamaged,)  # the start is refused, naming file, offset and remedy (or peers repair it)
ENTRY = (UndecodableEntry,)  # the node stops: a later release wrote it
ROW = (CorruptRecord,)  # that run alone is UNKNOWN; its history answers DATA_LOSS
# Rule 8: the node stops, naming the file. Of damaged pages SQLite says now CORRUPT, now IOERR, and
# where they held the schema, that a table is not there (a plain StoreError).
STATE = (*ROW, StoreDamaged, StoreTooNew, StoreIOError, StoreError)
COPY = (CopyRefused,)  # nothing has changed; the copy is fetched again
FRAME = (FrameError,)  # the connection is closed
HELLO = (HandshakeError,)  # and the reason is told
MESSAGE = (WireError,)  # the connection is closed
MEMBERS = (MembershipError,)
CHANNEL = (ValueError,)  # the connection is closed (`PeerChannel.link_frame`)
# A member that breaks Raft's rules: the process ends rather than go on from what may be wrong.
FORGED_BY_MEMBER = (ConsensusBroken,)
