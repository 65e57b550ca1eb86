from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from raftflow.cluster.consensus import handshake
from raftflow.cluster.consensus.handshake import Boot, HandshakeError, Hello, Purpose

N1 = Hello(
    cluster_id="shop",
    node_id="n1",
    incarnation="i1",
    boot_id="b1",
    feature_level=1,
    version="0.1.0",
    http="h:1",
    grpc="g:1",
    raft="r:1",
    metrics="m:1",
)
N2 = replace(N1, node_id="n2")
PEERS = frozenset({"n1", "n3"})


def test_what_is_said_is_what_is_heard() -> None:
    hello = N1.to("n2", Purpose.RAFT)
    assert handshake.decode(handshake.encode(hello)) == hello
    assert len(handshake.encode(hello)) < handshake.MAX_HELLO_BYTES


def test_an_earlier_release_says_less() -> None:
    fields = asdict(N1)
    for name in ("boots", "seen_incarnation", "seen_boots", "seen_boot_id"):
        del fields[name]
    assert handshake.decode(json.dumps(fields).encode()) == N1


def test_who_hears_of_a_later_start_of_its_own_disk_is_an_old_copy() -> None:
    mine = replace(N2, boots=4)
    for seen, fine in ((Boot("i1", 3, "x"), True), (Boot("i1", 4, "b1"), True),
                       (Boot("i1", 4, "x"), False), (Boot("i1", 5, "x"), False),
                       (Boot("i9", 9, "x"), True)):  # fmt: skip
        call = N1.to("n2", Purpose.RAFT, seen)
        if fine:
            handshake.check_own_data(call, mine=mine)
            continue
        with pytest.raises(HandshakeError) as caught:
            handshake.check_own_data(call, mine=mine)
        assert caught.value.reason == "stale_data"


def test_a_later_release_may_say_more() -> None:
    fields = asdict(N1) | {"compression": ["zstd"]}
    assert handshake.decode(json.dumps(fields).encode()) == N1


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x80\x04.", b"[]", b"7", b"{}", b"[" * 5_000, b'{"protocol": 1}', b"\xff\xfe"],
)
def test_nonsense_is_refused(payload: bytes) -> None:
    with pytest.raises(HandshakeError):
        handshake.decode(payload)


@pytest.mark.parametrize("field", sorted(asdict(N1)))
@pytest.mark.parametrize("value", [None, [], {}, True, "x" * 600])
def test_every_field_has_its_type(field: str, value: object) -> None:
    with pytest.raises(HandshakeError):
        handshake.decode(json.dumps(asdict(N1) | {field: value}).encode())


def test_a_refusal_reaches_the_caller() -> None:
    refusal = handshake.encode_refusal(HandshakeError("wrong_node", "because"))
    with pytest.raises(HandshakeError, match="because") as caught:
        handshake.decode(refusal)
    assert caught.value.told_by_peer


def test_a_good_call_and_its_answer() -> None:
    call = N1.to("n2", Purpose.CHANNEL)
    handshake.check_call(call, mine=N2, peers=PEERS)
    handshake.check_answer(N2.to("n1", Purpose.CHANNEL), mine=call)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cluster_id": "other"}, "wrong_cluster"),
        ({"node_id": "n2"}, "duplicate_node_id"),
        ({"node_id": "n0"}, "not_a_member"),
        ({"node_id": "n3"}, "wrong_direction"),
        ({"target": "n3"}, "wrong_node"),
        ({"purpose": "gossip"}, "malformed_hello"),
    ],
)
def test_bad_calls(change: dict[str, str], reason: str) -> None:
    call = replace(N1.to("n2", Purpose.RAFT), **change)  # type: ignore[arg-type]
    with pytest.raises(HandshakeError) as caught:
        handshake.check_call(call, mine=N2, peers=PEERS)
    assert caught.value.reason == reason
    assert (reason == "wrong_cluster") == ("derived from peers" in str(caught.value))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cluster_id": "other"}, "wrong_cluster"),
        ({"node_id": "n3"}, "wrong_node"),
        ({"target": "n3"}, "malformed_hello"),
        ({"purpose": "channel"}, "malformed_hello"),
    ],
)
def test_bad_answers(change: dict[str, str], reason: str) -> None:
    answer = replace(N2.to("n1", Purpose.RAFT), **change)  # type: ignore[arg-type]
    with pytest.raises(HandshakeError) as caught:
        handshake.check_answer(answer, mine=N1.to("n2", Purpose.RAFT))
    assert caught.value.reason == reason


def test_who_knows_newer_members_than_we_do_may_be_one() -> None:
    mine = replace(N2, configuration=7)
    stranger = replace(N1, node_id="n9").to("n2", Purpose.RAFT)
    for known, welcome in ((0, False), (7, False), (8, True)):
        call = replace(stranger, configuration=known)
        if welcome:
            handshake.check_call(call, mine=mine, peers=PEERS)  # also against the direction
            continue
        with pytest.raises(HandshakeError, match="as of entry 7") as caught:
            handshake.check_call(call, mine=mine, peers=PEERS)
        assert caught.value.reason == "not_a_member"
        with pytest.raises(HandshakeError) as told:
            handshake.decode(handshake.encode_refusal(caught.value))
        assert told.value.configuration == 7


def test_a_release_before_members_changed_says_nothing_of_them() -> None:
    fields = asdict(N1)
    del fields["configuration"]
    assert handshake.decode(json.dumps(fields).encode()).configuration == 0
