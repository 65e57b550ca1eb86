"""Who is at the other end: the first frame each side sends, and the rules it must meet.

JSON, so that a node of any release can read enough of it to say why it refuses.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

PROTOCOL_VERSION = 1
MAX_HELLO_BYTES = 4096
_MAX_TEXT = 512
STALE_DATA = "stale_data"
NOT_A_MEMBER = "not_a_member"
WRONG_CLUSTER = "wrong_cluster"
WRONG_DIRECTION = "wrong_direction"
_CLUSTER_IDS = "unless set, it is derived from peers, which must be the same on every node"
# What releases before 0.3 do not say.
_OPTIONAL = frozenset({"configuration", "boots", "seen_incarnation", "seen_boots", "seen_boot_id"})


class Purpose(StrEnum):
    """Raft messages and everything else never share a connection: nothing may delay a heartbeat."""

    RAFT = "raft"
    CHANNEL = "channel"


class HandshakeError(Exception):
    """The other side is not the peer we must talk to."""

    def __init__(
        self, reason: str, detail: str, *, told_by_peer: bool = False, configuration: int = 0
    ) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.told_by_peer = told_by_peer
        # The index as of which that is so, where it is about who belongs to the cluster.
        self.configuration = configuration


@dataclass(frozen=True, slots=True)
class Boot:
    """One start of a process on one disk."""

    incarnation: str
    boots: int
    boot_id: str

    def outdates(self, other: Boot) -> bool:
        """Whether `other`, of the same disk, must be a copy made before this start."""
        return (
            self.incarnation == other.incarnation
            and self.boot_id != other.boot_id
            and 0 < other.boots <= self.boots
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    protocol: int = PROTOCOL_VERSION
    cluster_id: str
    node_id: str
    incarnation: str
    boot_id: str
    feature_level: int
    version: str
    http: str
    grpc: str
    raft: str
    metrics: str
    purpose: str = ""
    target: str = ""
    # The index of the newest configuration that the speaker knows to be committed.
    configuration: int = 0
    # How often the sender's directory was
    # started, and the newest start of the receiver's that the sender has heard of.
    boots: int = 0
    seen_incarnation: str = ""
    seen_boots: int = 0
    seen_boot_id: str = ""

    def to(self, target: str, purpose: Purpose, seen: Boot | None = None) -> Hello:
        return replace(
            self,
            target=target,
            purpose=purpose.value,
            seen_incarnation=seen.incarnation if seen else "",
            seen_boots=seen.boots if seen else 0,
            seen_boot_id=seen.boot_id if seen else "",
        )

    @property
    def boot(self) -> Boot:
        return Boot(self.incarnation, self.boots, self.boot_id)

    @property
    def seen(self) -> Boot:
        return Boot(self.seen_incarnation, self.seen_boots, self.seen_boot_id)


def encode(hello: Hello) -> bytes:
    return json.dumps(asdict(hello), separators=(",", ":")).encode()


def encode_refusal(error: HandshakeError) -> bytes:
    """The name of a cluster is what its nodes prove to each other: no stranger is told it."""
    other = f"this node is of another cluster; {_CLUSTER_IDS}"
    detail = other if error.reason == WRONG_CLUSTER else error.detail
    refusal = {"refused": error.reason, "detail": detail}
    return json.dumps(refusal | {"configuration": error.configuration}).encode()


def decode(payload: bytes) -> Hello:
    """Parse a hello. Unknown fields are a later release's business; missing ones are not."""
    try:
        fields = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise HandshakeError("malformed_hello", "not JSON") from error
    if not isinstance(fields, dict):
        raise HandshakeError("malformed_hello", "not a JSON object")
    if "refused" in fields:
        reason, detail = fields["refused"], fields.get("detail", "")
        as_of = fields.get("configuration", 0)
        raise HandshakeError(
            str(reason)[:64],
            str(detail)[:_MAX_TEXT],
            told_by_peer=True,
            configuration=as_of if type(as_of) is int else 0,
        )
    protocol = fields.get("protocol")
    if protocol != PROTOCOL_VERSION:
        raise HandshakeError(
            "wrong_protocol", f"peer speaks {protocol!r:.40}, this node {PROTOCOL_VERSION}"
        )
    values: dict[str, str | int] = {}
    for name, kind in Hello.__annotations__.items():
        if name in _OPTIONAL and name not in fields:
            continue
        value = fields.get(name)
        wanted = int if kind == "int" else str
        if type(value) is not wanted or (isinstance(value, str) and len(value) > _MAX_TEXT):
            raise HandshakeError("malformed_hello", f"field {name!r} is missing or not {kind}")
        values[name] = value
    return Hello(**values)  # type: ignore[arg-type]


def check_answer(answer: Hello, *, mine: Hello) -> None:
    """The dialling side: the answer must come from the node that was called, for that purpose."""
    _check_cluster(answer, mine=mine)
    if answer.node_id != mine.target:
        raise HandshakeError("wrong_node", f"called {mine.target!r}, reached {answer.node_id!r}")
    if answer.target != mine.node_id or answer.purpose != mine.purpose:
        raise HandshakeError("malformed_hello", "the answer is not for this call")


def check_call(call: Hello, *, mine: Hello, peers: frozenset[str]) -> None:
    """The accepting side. Whoever knows of newer members than this node does may be one."""
    _check_cluster(call, mine=mine)
    if call.node_id == mine.node_id:
        raise HandshakeError("duplicate_node_id", f"{call.node_id!r} is this node's own id")
    known = call.node_id in peers
    if not known and call.configuration <= mine.configuration:
        raise HandshakeError(
            NOT_A_MEMBER,
            f"{call.node_id!r} does not belong to this cluster as of entry {mine.configuration};"
            " `raftflow node add` adds it",
            configuration=mine.configuration,
        )
    if call.target != mine.node_id:
        raise HandshakeError("wrong_node", f"called {call.target!r}, this is {mine.node_id!r}")
    if call.purpose not in set(Purpose):
        raise HandshakeError("malformed_hello", f"unknown purpose {call.purpose!r:.40}")
    if known and call.node_id > mine.node_id:
        # The lower id dials: two connections for one purpose would need a tie-break.
        raise HandshakeError(WRONG_DIRECTION, f"{mine.node_id!r} dials {call.node_id!r}")


def check_own_data(theirs: Hello, *, mine: Hello) -> None:
    """Whether the other side has seen a later start of this very disk: then this is an old copy."""
    if theirs.seen.outdates(mine.boot):
        raise HandshakeError(STALE_DATA, outdated(mine.node_id, theirs.seen, mine.boot))


def outdated(node_id: str, seen: Boot, comes: Boot) -> str:
    return (
        f"{node_id!r} comes with start {comes.boots} of its data, but start {seen.boots} was seen:"
        " an old copy, which must not vote"
    )


def _check_cluster(hello: Hello, *, mine: Hello) -> None:
    if hello.cluster_id != mine.cluster_id:
        raise HandshakeError(
            WRONG_CLUSTER,
            f"peer is of {hello.cluster_id!r}, this node of {mine.cluster_id!r}; {_CLUSTER_IDS}",
        )
