"""Why there was an election is asked of its winner; until then this node's own guess stands."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from eventually import eventually

from raftflow.cluster import elections as module
from raftflow.cluster.consensus.channel import Handler, PeerError, PeerUnavailable
from raftflow.cluster.consensus.types import Election, Role
from raftflow.cluster.elections import KEPT, METHOD, Elections


class Node:
    """Consensus of n1: what it saw, and what the others answer."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.leader: str | None = None
        self.seen: list[Election] = []
        self.answers: list[bytes | Exception] = []
        self.asked: list[tuple[str, Any]] = []
        self.handler: Handler | None = None
        self.elections = Elections(
            consensus=self,  # type: ignore[arg-type]
            node_id="n1",
            monotonic=lambda: self.now_s,
        )

    @property
    def channel(self) -> Node:
        return self

    def register(self, method: str, handler: Handler) -> None:
        assert method == METHOD
        self.handler = handler

    def status(self) -> Any:
        return SimpleNamespace(elections=tuple(self.seen))

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        self.asked.append((peer, json.loads(payload)))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sees(self, term: int, leader: str | None, reason: str = "guess") -> None:
        self.now_s += 1
        self.leader = leader
        self.seen.append(Election(self.now_s, term, leader, reason))
        self.elections.on_role(Role.FOLLOWER, term, leader)


SAID = json.dumps({"reason": "no word from n3 for 620 ms", "ago_ms": 400}).encode()


async def test_the_winner_is_asked_why_and_when() -> None:
    node = Node()
    node.answers = [SAID]
    node.sees(4, None)
    node.sees(5, "n2")
    assert node.elections.all()[-1].reason == "guess"
    assert node.elections.led_since_s == node.now_s
    await eventually(lambda: node.elections.all()[-1].reason != "guess")
    assert node.asked == [("n2", {"term": 5})]
    assert node.elections.all()[-1] == Election(
        node.now_s - 0.4, 5, "n2", "no word from n3 for 620 ms"
    )
    assert node.elections.led_since_s == node.now_s - 0.4


async def test_one_that_is_not_there_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ASK_AT_S", (0, 0, 0))
    node = Node()
    node.answers = [PeerUnavailable("n2", sent=False), SAID]
    node.sees(5, "n2")
    await eventually(lambda: node.elections.all()[-1].reason != "guess")


@pytest.mark.parametrize("answer", [PeerError("UNKNOWN_METHOD", ""), b"[]", b"{}", b"\xff"])
async def test_one_that_cannot_say_leaves_the_guess(answer: bytes | Exception) -> None:
    node = Node()
    node.answers = [answer]
    node.sees(5, "n2")
    await eventually(lambda: not node.answers)
    await asyncio.sleep(0)
    assert node.elections.all()[-1].reason == "guess"


async def test_nobody_asks_itself_and_it_tells_the_others() -> None:
    node = Node()
    node.sees(5, "n1", "the connection to n2 was lost")
    await asyncio.sleep(0)
    assert node.asked == []
    node.now_s += 2
    assert node.handler is not None
    told = json.loads(await node.handler("n3", b'{"term": 5}'))
    assert told == {"reason": "the connection to n2 was lost", "ago_ms": 2_000}
    for question in (b'{"term": 4}', b"[]", b"x"):
        with pytest.raises(PeerError):
            await node.handler("n3", question)


async def test_a_change_that_is_none_of_leadership_is_none() -> None:
    node = Node()
    node.sees(5, "n1")
    node.elections.on_role(Role.FOLLOWER, 6, "n1")
    assert len(node.elections.all()) == 1


async def test_without_a_leader_nobody_leads_since_any_time() -> None:
    node = Node()
    assert node.elections.led_since_s is None
    node.sees(5, "n1")
    node.sees(5, None)
    assert node.elections.led_since_s is None


async def test_so_many_are_kept() -> None:
    node = Node()
    for term in range(KEPT + 5):
        node.sees(term, "n1")
    assert [each.term for each in node.elections.all()] == list(range(5, KEPT + 5))
