"""The nonce of a task's token: unique, and for a caller who named its poll it says to which.

So a token tells every leader to whom a task went, without a row of its own, and what never reached
its caller goes back when the caller asks again.
"""

from __future__ import annotations

import secrets

from raftflow.engine.ids import parse_token
from raftflow.proto.raftflow.internal.v1 import node_pb2

_MARK = "~"


def nonce_for(poll: node_pb2.Poll) -> str:
    """The nonce of the tokens that this poll gets."""
    unique = secrets.token_hex(8)
    if not poll.request_id:
        return unique
    # A dot would end the nonce.
    return _MARK.join((poll.request_id, poll.poll_id.replace(".", "-"), unique))


def granted_poll(token: str) -> tuple[str, str]:
    """Request id and poll id that `nonce_for` wrote into a token; empty when it had none."""
    parts = parse_token(token)
    named = [] if parts is None else parts.nonce.split(_MARK)
    return (named[0], named[1].replace("-", ".")) if len(named) == 3 else ("", "")
