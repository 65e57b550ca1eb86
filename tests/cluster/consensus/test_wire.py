from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.consensus.types import SnapshotManifest
from raftflow.cluster.consensus.wire import LIMIT, WireError, decode, encode
from raftflow.proto.raftflow.internal.v1 import peer_pb2 as pb
from raftflow.raftlog.journal import LogEntry

MANIFEST = SnapshotManifest(index=7, term=2, size=10, sha256="ab", snapshot_id="a-7")
MESSAGES: list[dict[str, Any]] = [
    {
        "type": "append_entries",
        "term": 3,
        "prevLogIdx": 4,
        "prevLogTerm": 2,
        "commit_index": 4,
        "round": 9,
        "entries": [LogEntry(5, 2, b"\0x"), LogEntry(6, 3, b"\1")],
    },
    {
        "type": "append_entries",
        "term": 1,
        "prevLogIdx": 0,
        "prevLogTerm": 0,
        "commit_index": 0,
        "round": 0,
        "entries": [],
    },
    {"type": "append_entries", "term": 3, "serialized": MANIFEST, "round": 1},
    {
        "type": "next_node_idx",
        "term": 3,
        "success": True,
        "next_node_idx": 5,
        "received": 6,
        "rejected": 0,
        "hint_term": 0,
        "round": 2,
    },
    {"type": "request_vote", "term": 3, "last_log_index": 5, "last_log_term": 2},
    {"type": "response_vote", "term": 3},
    {"type": "pre_vote", "term": 3, "last_log_index": 0, "last_log_term": 0},
    {"type": "pre_vote_reply", "term": 0, "asked_term": 1, "granted": True},
    {"type": "read_reply", "term": 0, "id": 7, "index": 0},
    {"type": "timeout_now", "term": 3},
    {"type": "read_request", "term": 3, "id": 77},
    {"type": "read_reply", "term": 3, "id": 77, "index": 0},
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message["type"])
def test_what_is_sent_arrives(message: dict[str, Any]) -> None:
    assert decode(encode(message)) == message


def bad(**fields: Any) -> pb.PeerMessage:
    return pb.PeerMessage(**{"term": 3, **fields})


@pytest.mark.parametrize(
    "message",
    [
        pb.PeerMessage(term=1),
        bad(term=0, timeout_now=pb.TimeoutNow()),
        bad(term=LIMIT, timeout_now=pb.TimeoutNow()),
        bad(append=pb.AppendEntries(prev_index=LIMIT)),
        bad(append=pb.AppendEntries(prev_index=1, prev_term=4)),
        bad(append=pb.AppendEntries(entries=[pb.PeerEntry(term=4, payload=b"x")])),
        bad(append=pb.AppendEntries(prev_term=2, entries=[pb.PeerEntry(term=1, payload=b"x")])),
        bad(append=pb.AppendEntries(entries=[pb.PeerEntry(term=1)])),
        bad(append_reply=pb.AppendReply()),
        bad(vote=pb.RequestVote(last_term=3)),
        bad(pre_vote_reply=pb.PreVoteReply()),
        bad(read=pb.ReadRequest()),
        bad(snapshot_offer=pb.SnapshotOffer(snapshot_id="x")),
        bad(snapshot_offer=pb.SnapshotOffer(index=1)),
        bad(snapshot_offer=pb.SnapshotOffer(index=1, snapshot_id="x" * 200)),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(message: pb.PeerMessage) -> None:
    with pytest.raises(WireError):
        decode(message.SerializeToString())


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    try:
        message = decode(data)
    except WireError:
        return
    assert decode(encode(message)) == message
