"""Whatever a peer's connection brings: it is a message, or the connection is closed; and from whom
is no member, no message does anything."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from accepted import CHANNEL, FORGED_BY_MEMBER, FRAME, HELLO, MEMBERS, MESSAGE
from crash_disk import CrashDisk
from hypothesis import given
from hypothesis import strategies as st
from mutations import bent, fuzzed
from proto_strategies import Taste, messages
from pysyncobj.node import Node as RaftNode
from pysyncobj.transport import Transport

from raftflow.cluster.clock import LogClock
from raftflow.cluster.consensus import channel, framing, handshake, membership, wire
from raftflow.cluster.consensus.core import Core
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import Timing
from raftflow.proto.raftflow.internal.v1 import peer_pb2
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry

TASTE = Taste(words={"snapshot_id": ["9-2-1"], "sha256": ["ab"]}, aim=lambda _message, _n: None)
TAME = Taste(words=TASTE.words, aim=TASTE.aim, tame=True)
THREE = Configuration(members=tuple(Member(id=f"n{n}", raft=f"h{n}:1") for n in (1, 2, 3)))


def plausible() -> list[bytes]:
    """One of each kind, of the kind that a leader or candidate of term 5 sends."""
    kinds = {
        "append": {"prev_index": 8, "prev_term": 2, "commit_index": 8, "round": 3},
        "append_reply": {"success": True, "next_index": 9, "received": 8},
        "vote": {"last_index": 99, "last_term": 4},
        "pre_vote": {"last_index": 99, "last_term": 4},
        "pre_vote_reply": {"asked_term": 3, "granted": True},
        "read": {"id": 7},
        "read_reply": {"id": 7, "index": 8},
        "snapshot_offer": {
            "snapshot_id": "9-2-1",
            "index": 9,
            "index_term": 2,
            "size": 10,
            "sha256": "ab",
        },
        "vote_reply": {},
        "timeout_now": {},
    }
    made = []
    for term in (1, 2, 3, 5, 9):
        for kind, fields in kinds.items():
            packed = peer_pb2.PeerMessage(term=term)
            getattr(packed, kind).SetInParent()
            for name, value in fields.items():
                setattr(getattr(packed, kind), name, value)
            made.append(packed.SerializeToString())
    entry = peer_pb2.PeerMessage(term=5)
    entry.append.prev_index, entry.append.prev_term = 8, 2
    entry.append.entries.add(term=5, payload=b"\0more")
    return [*made, entry.SerializeToString()]


CORPUS = plausible()
PEER_MESSAGES = st.one_of(
    st.sampled_from(CORPUS),
    bent(CORPUS),
    messages(peer_pb2.PeerMessage.DESCRIPTOR, TAME).map(lambda m: bytes(m.SerializeToString())),
    messages(peer_pb2.PeerMessage.DESCRIPTOR, TASTE).map(lambda m: bytes(m.SerializeToString())),
)


@fuzzed()
@given(PEER_MESSAGES)
def test_what_decodes_is_a_message_that_encodes_again(data: bytes) -> None:
    try:
        message = wire.decode(data)
    except MESSAGE:
        return
    assert wire.decode(wire.encode(message)) == message


@fuzzed()
@given(bent([membership.encode(THREE)]))
def test_a_bent_configuration_is_refused_or_whole(data: bytes) -> None:
    try:
        found = membership.decode(data)
    except MEMBERS:
        return
    assert membership.decode(membership.encode(found)) == found


@fuzzed()
@given(st.data())
def test_a_stream_of_bytes_gives_frames_or_ends(data: st.DataObject) -> None:
    whole = [framing.header(payload) + payload for payload in CORPUS[:20]] + [framing.KEEPALIVE]
    reader = framing.FrameReader(max_bytes=1 << 20)
    try:
        for _ in range(data.draw(st.integers(1, 8))):
            for payload in reader.feed(data.draw(st.sampled_from(whole) | bent(whole))):
                assert 0 < len(payload) <= 1 << 20
    except FRAME:
        pass


HELLO_FIELDS = {
    "protocol": 1,
    "cluster_id": "c",
    "node_id": "n1",
    "incarnation": "i",
    "boot_id": "b",
    "feature_level": 3,
    "version": "0.3.0",
    "http": "h:1",
    "grpc": "h:2",
    "raft": "h:3",
    "metrics": "h:4",
    "purpose": "raft",
    "target": "n2",
    "configuration": 4,
    "boots": 3,
}
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=600),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@fuzzed()
@given(st.data())
def test_a_hello_is_read_or_refused_with_a_reason(data: st.DataObject) -> None:
    fields: dict[str, Any] = dict(HELLO_FIELDS)
    for name in data.draw(st.lists(st.sampled_from([*sorted(fields), "refused", "x"]), max_size=3)):
        if data.draw(st.booleans()):
            fields[name] = data.draw(JSON)
        else:
            fields.pop(name, None)
    good = json.dumps(HELLO_FIELDS).encode()
    payload = data.draw(st.sampled_from([json.dumps(fields).encode()]) | bent([good]))
    mine = handshake.decode(good)
    try:
        hello = handshake.decode(payload)
        handshake.check_call(hello, mine=mine, peers=frozenset({"n1", "n3"}))
    except HELLO as error:
        refusal = handshake.encode_refusal(error)
    else:
        refusal = b""
    assert len(refusal) <= handshake.MAX_HELLO_BYTES


@fuzzed()
@given(bent([bytes([n]) + bytes(8) + bytes([4, 0]) + b"demandxyz" for n in range(6)]))
def test_a_channel_frame_is_read_or_refused(frame: bytes) -> None:
    try:
        channel._decode(frame)
    except CHANNEL:
        pass


@fuzzed()
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-(1 << 63), (1 << 63) - 1))))
def test_log_time_goes_on_whatever_clocks_peers_tell(samples: list[tuple[str, int]]) -> None:
    clock = LogClock(voters=3)
    last = clock.stamp_ms(0) if hasattr(clock, "stamp_ms") else 0
    for peer, wall_ms in samples:
        clock.observe(peer, wall_ms)
        assert isinstance(clock.skew_ms(), int)
    assert last >= 0


# ---- a core -----------------------------------------------------------------------------------


class Died(Exception):
    """The process would have ended."""


class Silent(Transport):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(None, None, [])

    def send(self, node: RaftNode, message: Any) -> bool:
        return True


class Surroundings:
    """Callbacks of a core that is told things."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def fatal(self, error: BaseException) -> NoReturn:
        raise Died from error

    def __getattr__(self, name: str) -> Any:
        def tell(*_arguments: object) -> None:
            self.told.append(name)

        return tell


def follower() -> tuple[Core, Journal, HardState, Surroundings]:
    """n1 of three, in term 3, with eight entries of term 2."""
    disk, around = CrashDisk(), Surroundings()
    hard_state = HardState.open("/raft", disk)
    hard_state.store(3, None)
    journal = Journal.open("/raft", disk=disk)
    journal.append([LogEntry(n, 2, b"\0%d" % n) for n in range(1, 9)])
    journal.flush()
    core = Core(
        node_id="n1",
        incarnation="i1",
        configuration=THREE,
        configuration_index=0,
        journal=journal,
        hard_state=hard_state,
        transport=Silent(),
        applied_index=0,
        applied_term=0,
        callbacks=around,  # type: ignore[arg-type]
        timing=Timing(heartbeat_ms=10_000, election_min_ms=100_000, election_max_ms=200_000),
        first_seen={},
    )
    return core, journal, hard_state, around


# From whoever stands for election or was elected, also by members that are not known here yet.
LEADERS = {"append_entries", "request_vote"}


def deliver(core: Core, sender: str, data: bytes, *, but: Collection[str] = ()) -> None:
    try:
        message = wire.decode(data)
    except MESSAGE:
        return
    if message["type"] not in but:
        core._SyncObj__transport._onMessageReceived(RaftNode(sender), message)


@fuzzed()
@given(st.lists(PEER_MESSAGES, max_size=12), st.sampled_from(["n4", "", "n1"]))
def test_whoever_is_no_member_changes_nothing(sent: Sequence[bytes], sender: str) -> None:
    """Raft takes entries of a leader, and votes for a candidate, that it does not know as a member
    (it may be behind): who may connect at all is the handshake's to say. Votes given,
    acknowledgements and the rest count nowhere;
    a newer term is believed from anyone, since terms only make leaders step down."""
    core, journal, hard_state, around = follower()

    def state() -> tuple[object, ...]:
        log = (journal.last_index, journal.last_term)
        return (*log, hard_state.voted_for, core.role, core.commit_index)

    before = state()
    for data in sent:
        deliver(core, sender, data, but=LEADERS)
        core.tick()
        assert state() == before
    assert set(around.told) <= {"on_role"}


@fuzzed()
@given(st.lists(PEER_MESSAGES, max_size=12))
def test_a_member_that_lies_ends_the_process_at_worst(sent: Sequence[bytes]) -> None:
    core, journal, hard_state, _ = follower()
    committed = 0
    for data in sent:
        term = hard_state.term
        try:
            deliver(core, "n2", data)
            core.tick()
        except Died as died:
            if isinstance(died.__cause__, FORGED_BY_MEMBER):
                return
            raise
        assert hard_state.term >= term
        assert core.commit_index >= committed
        committed = core.commit_index
        assert committed <= journal.last_index


def test_the_corpus_is_not_vacuous() -> None:
    """From a member such messages do change things."""
    core, _, hard_state, _ = follower()
    deliver(core, "n2", CORPUS[-1])
    assert hard_state.term == 5
    assert core.leader == "n2"
