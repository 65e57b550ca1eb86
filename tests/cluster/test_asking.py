"""Whoever asks another member gets an answer, or a reason in words."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from raftflow.cluster.asking import Untold, ask, reading
from raftflow.cluster.consensus.channel import Handler, PeerError, PeerTimeout, PeerUnavailable


@dataclass
class Wire:
    answer: bytes | Exception

    def register(self, method: str, handler: Handler) -> None:
        raise AssertionError

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        assert (peer, method, payload, timeout_ms) == ("n2", "age", b"of n2", 300)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def age(answer: bytes | Exception) -> int:
    return await ask(
        Wire(answer),
        "n2",
        "age",
        b"of n2",
        read=lambda told: int(json.loads(told)["age"]),
        timeout_ms=300,
    )


async def test_what_was_answered() -> None:
    assert await age(b'{"age": 7}') == 7


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (PeerUnavailable("n2", sent=False), "not connected"),
        (PeerTimeout(), "no answer within 300 ms"),
        (PeerError("UNKNOWN_METHOD", "no handler"), "of a release before 0.5, which does not tell"),
        (PeerError("OVERLOADED", "1 calls are served"), "1 calls are served"),
        (b"{", "its answer cannot be read"),
        (b"{}", "its answer cannot be read"),
        (b"[]", "its answer cannot be read"),
        (b'{"age": null}', "its answer cannot be read"),
        (b"[" * 100_000, "its answer cannot be read"),
    ],
)
async def test_why_there_is_no_answer(answer: bytes | Exception, why: str) -> None:
    with pytest.raises(Untold) as untold:
        await age(answer)
    assert str(untold.value) == why


def test_a_question_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(PeerError, match="age: ") as refused, reading("age"):
        json.loads("{")
    assert refused.value.code == "BAD_REQUEST"
