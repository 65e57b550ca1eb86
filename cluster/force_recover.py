"""`raftflow force-recover`: a stopped node goes on alone when a majority of its cluster is lost.

It becomes the only voter of another cluster that begins with everything the node holds: its last
entries too, whether they were acknowledged or not. What only the others held is lost, and nothing
can tell what that was. The new cluster has an id of its own, because the old majority cannot be
told that it is deposed: should its disks come back, its nodes must not be able to say a word to
this one. Nor may another survivor that was made to go on alone by mistake: two that each decided
alone would meet under one name, with two logs. So the id is of this very disk.

The decree is an entry of the log, in a term of its own, as if this node had been elected alone. So
the others, when they join anew, read there how it came that this node decides alone.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from raftflow.cluster import damage
from raftflow.cluster.consensus.configurations import CONFIGURATION, Configurations, Held
from raftflow.cluster.consensus.identity import (
    DirectoryLock,
    Identity,
    IdentityError,
    read_identity,
    write_identity,
)
from raftflow.cluster.consensus.ledger import FILE as PEERS
from raftflow.cluster.consensus.membership import Configuration, Member, encode
from raftflow.cluster.consensus.membership_file import FILE as MEMBERSHIP
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.consensus.outcast import REMOVED
from raftflow.cluster.durable import replace_durably, sync_directory
from raftflow.cluster.store import AppliedState
from raftflow.cluster.store.connection import connect
from raftflow.cluster.store.readers import applied_state
from raftflow.raftlog import abstaining
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.hardstate import FILE as HARDSTATE
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry

RAFT = "raft"
# What was there before, kept beside the new: small files that say who votes and who has.
KEPT = "before-recovery-"
_RECOVERED = re.compile(r"(.+)-r(\d+)(?:\.[0-9a-f]{6})?")
_LONGEST_ID = 64
_READ_BYTES = 1 << 20


class Refused(Exception):
    """This directory cannot go on alone; says why and what can be done instead."""


@dataclass(frozen=True, slots=True)
class Survivor:
    """What the directory of a stopped node holds."""

    directory: Path
    identity: Identity
    configuration: Configuration
    applied: AppliedState
    last_index: int
    last_term: int
    term: int
    lost_end: bool  # entries that it acknowledged may be missing

    @property
    def others(self) -> list[str]:
        own = self.identity.node_id
        return [each.id for each in self.configuration.members if each.id != own]


def another_id(identity: Identity) -> str:
    """`shop`, `shop-r1.5f2c0a`, `shop-r2.91be47`: the same as often as one asks for one disk."""
    again = _RECOVERED.fullmatch(identity.cluster_id)
    name, times = (again[1], int(again[2])) if again else (identity.cluster_id, 0)
    disk = hashlib.sha256(identity.incarnation.encode()).hexdigest()[:6]
    behind = f"-r{times + 1}.{disk}"
    return name[: _LONGEST_ID - len(behind)] + behind


def survey(directory: Path) -> Survivor:
    """Look, and change nothing that a start would not. Raises Refused, IdentityError, and what is
    wrong with the files."""
    if not directory.is_dir():
        raise IdentityError(f"{directory} is no directory")
    with closing(_Locked(directory)):
        return _survey(directory)


def recover(survivor: Survivor, cluster_id: str) -> Path:
    """Make it so; returns where the files that were replaced are. Interrupted, it is safe to
    repeat: until `node.json` names the new disk this one counts in nothing."""
    directory = survivor.directory
    with closing(_Locked(directory)):
        if _survey(directory) != survivor:
            raise Refused(f"{directory} has changed meanwhile: a node ran there. Look again")
        kept = _keep(directory)
        own = survivor.configuration.find(survivor.identity.node_id)
        assert own is not None
        member = Member(own.id, own.raft, incarnation=secrets.token_hex(16))
        level = survivor.configuration.feature_level
        _decree(directory / RAFT, Configuration((member,), level), survivor)
        write_identity(
            str(directory),
            Identity(
                format=survivor.identity.format,
                cluster_id=cluster_id,
                node_id=own.id,
                incarnation=member.incarnation,
            ),
        )
        for gone in (directory / PEERS, directory / RAFT / abstaining.FILE):
            gone.unlink(missing_ok=True)
        sync_directory(str(directory / RAFT))
        sync_directory(str(directory))
        return kept


def _survey(directory: Path) -> Survivor:
    identity = read_identity(str(directory))
    if identity is None:
        raise IdentityError(f"{directory} has no node.json: it is no node's data directory")
    raft, disk = directory / RAFT, OsDisk()
    if (raft / REMOVED).exists():
        raise Refused(
            f"{identity.node_id} was removed from its cluster: what it holds is older than what"
            " the members decided without it. Take another survivor, or a backup"
        )
    if noted := damage.noted(directory):
        raise Refused(
            f"{directory} is damaged ({'; '.join(noted.values())}). Take another survivor, or a"
            " backup (`raftflow backup restore`)"
        )
    applied = _applied(directory)
    hard_state = HardState.open(str(raft), disk, may_be_new=False)
    held = MembershipFile.open(str(raft), disk).held
    if held is None:
        raise Refused(f"{raft} does not say who belongs to the cluster: it was never in one")
    with closing(Journal.open(str(raft), disk=disk)) as journal:
        if applied.index < journal.prev_index or not journal.first_index:
            raise Refused(
                f"{directory} lacks state or log: entries before {journal.prev_index + 1} are"
                f" nowhere in it, its state ends at {applied.index}. Take another survivor, or a"
                " backup (`raftflow backup restore`)"
            )
        anew = _begins_anew(journal, applied)
        configuration = held.configuration if anew else _newest(journal, held)
        if configuration.find(identity.node_id) is None:
            raise Refused(f"{identity.node_id} is no member of its cluster any more")
        return Survivor(
            directory,
            identity,
            configuration,
            applied,
            applied.index if anew else journal.last_index,
            applied.term if anew else journal.last_term,
            hard_state.term,
            abstaining.marked(disk, str(raft)),
        )


def _begins_anew(journal: Journal, applied: AppliedState) -> bool:
    """As a start would find it: a copy was installed, or the state was on disk before the log."""
    return applied.index > journal.last_index or journal.term(applied.index) != applied.term


def _newest(journal: Journal, held: Held) -> Configuration:
    """In force when the node ended: committed or not."""
    found = Configurations(held.index, held.configuration)
    start = max(held.index, journal.prev_index) + 1
    while start <= journal.last_index:
        entries = journal.entries(start, journal.last_index + 1, _READ_BYTES)
        found.append(entries)
        start = entries[-1].index + 1
    return found.newest.configuration


def _applied(directory: Path) -> AppliedState:
    path = directory / "state.db"
    if not path.exists():
        raise Refused(f"{path} is missing: take another survivor, or a backup")
    with closing(connect(str(path))) as db:
        return applied_state(db)


def _keep(directory: Path) -> Path:
    kept = directory / f"{KEPT}{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    kept.mkdir()
    raft = directory / RAFT
    names = [raft / name for name in (MEMBERSHIP, HARDSTATE, abstaining.FILE)]
    for path in (directory / "node.json", directory / PEERS, *names):
        if path.exists():
            replace_durably(str(kept / path.name), path.read_bytes())
    sync_directory(str(directory))
    return kept


def _decree(raft: Path, configuration: Configuration, survivor: Survivor) -> None:
    """The entry, and then what names it as committed: the log alone decides nothing yet."""
    disk, term = OsDisk(), survivor.term + 1
    hard_state = HardState.open(str(raft), disk, may_be_new=False)
    hard_state.store(term, survivor.identity.node_id)
    with closing(Journal.open(str(raft), disk=disk)) as journal:
        if _begins_anew(journal, survivor.applied):
            journal.reset(survivor.applied.index, survivor.applied.term)
        index = journal.last_index + 1
        journal.append([LogEntry(index, term, CONFIGURATION + encode(configuration))])
        journal.flush()
    MembershipFile.open(str(raft), disk).store(Held(index, configuration))


class _Locked:
    def __init__(self, directory: Path) -> None:
        self._lock = DirectoryLock(str(directory))

    def close(self) -> None:
        self._lock.release()
