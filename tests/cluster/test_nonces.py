"""A token tells whom it was granted to."""

from raftflow.cluster.nonces import granted_poll, nonce_for
from raftflow.engine.ids import TokenParts, format_token
from raftflow.proto.raftflow.internal.v1 import node_pb2


def polled(request_id: str, poll_id: str) -> node_pb2.Poll:
    return node_pb2.Poll(poll_id=poll_id, request_id=request_id)


def token_for(poll: node_pb2.Poll) -> str:
    return format_token(TokenParts("default", "r", 1, nonce_for(poll)))


def test_a_token_tells_whom_it_was_granted_to() -> None:
    poll = polled("9f-A_b", "0123abcd.7")
    token = token_for(poll)
    assert granted_poll(token) == ("9f-A_b", "0123abcd.7")
    assert token != token_for(poll)
    assert granted_poll(token_for(polled("", "0123abcd.7"))) == ("", "")
    assert granted_poll("nonsense") == ("", "")
