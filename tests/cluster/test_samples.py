"""The last hour in figures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from raftflow.cluster.consensus.channel import Handler, PeerError, PeerUnavailable
from raftflow.cluster.samples import KEPT, METHOD, Samples

SERIES = {
    "commits",
    "commit_p50_ms",
    "commit_p99_ms",
    "requests",
    "activity_queue",
    "workflow_queue",
    "leases",
    "open_runs",
    "fsync_p99_ms",
    "loop_lag_ms",
}


class Node:
    """n1 and what it can read; n2 leads unless this node does."""

    def __init__(self, *, leads: bool = True) -> None:
        self.now_s = 0.0
        self.requests = 100
        self.leader: str | None = "n1" if leads else "n2"
        self.answer: bytes | Exception = b"{}"
        self.handler: Handler | None = None
        self.samples = Samples(
            consensus=self, node_id="n1", source=self, monotonic=lambda: self.now_s
        )

    @property
    def channel(self) -> Node:
        return self

    def register(self, method: str, handler: Handler) -> None:
        assert method == METHOD
        self.handler = handler

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        assert peer == "n2"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def requests_total(self) -> int:
        return self.requests

    def open_runs(self) -> int:
        return 7

    def loop_lag_ms(self) -> float:
        return 1.26

    def queues(self) -> tuple[int, int, int] | None:
        return (3, 2, 1) if self.leader == "n1" else None

    async def sample(self, *, after_s: float = 5.0) -> dict[str, Any]:
        self.now_s += after_s
        await self.samples.take()
        return {name: values[-1] for name, values in self.samples.last(60)[1].items()}


async def test_a_sample_is_what_happened_since_the_last() -> None:
    node = Node()
    node.samples.applied(4)
    node.samples.applied(1)
    node.samples.flushed(0.001)
    node.samples.committed(0.004)
    node.requests += 6
    assert await node.sample() == {
        "commits": 5,
        "requests": 6,
        "open_runs": 7,
        "fsync_p99_ms": pytest.approx(1, rel=0.06),
        "loop_lag_ms": 1.3,
        "commit_p50_ms": pytest.approx(4, rel=0.06),
        "commit_p99_ms": pytest.approx(4, rel=0.06),
        "activity_queue": 3,
        "workflow_queue": 2,
        "leases": 1,
    }
    quiet = await node.sample()
    assert (quiet["commits"], quiet["requests"]) == (0, 0)
    assert (quiet["fsync_p99_ms"], quiet["commit_p50_ms"]) == (None, None)


async def test_what_the_leader_knows_the_others_ask_it_for() -> None:
    leader, follower = Node(), Node(leads=False)
    leader.samples.committed(0.002)
    told = await leader.sample()
    assert leader.handler is not None
    follower.answer = await leader.handler("n1", b"")
    seen = await follower.sample()
    names = ("commit_p50_ms", "commit_p99_ms", "activity_queue", "workflow_queue", "leases")
    assert [seen[name] for name in names] == [told[name] for name in names]
    assert follower.handler is not None
    with pytest.raises(PeerError, match="NOT_LEADER"):
        await follower.handler("n3", b"")


@pytest.mark.parametrize(
    "answer",
    [PeerUnavailable("n2", sent=False), PeerError("UNKNOWN_METHOD", ""), b"[]", b'{"leases":"x"}'],
)
async def test_without_its_word_they_are_unknown(answer: bytes | Exception) -> None:
    node = Node(leads=False)
    node.answer = answer
    seen = await node.sample()
    assert (seen["leases"], seen["activity_queue"], seen["open_runs"]) == (None, None, 7)
    node.leader = None
    assert (await node.sample())["leases"] is None


async def test_samples_that_were_missed_are_empty() -> None:
    node = Node()
    await node.sample()
    await node.sample(after_s=17)
    _, series = node.samples.last(60)
    assert series["open_runs"] == [7, None, None, 7]
    assert {len(values) for values in series.values()} == {4}
    assert set(series) == SERIES


async def test_when_the_first_was_taken() -> None:
    node = Node()
    for _ in range(3):
        await node.sample()
    node.now_s += 1
    assert node.samples.last(60)[0] == 11_000
    assert Node().samples.last(60) == (0, {name: [] for name in SERIES})


async def test_an_hour_is_kept_and_less_is_told() -> None:
    node = Node()
    await node.sample()
    await node.sample(after_s=100_000)  # a long standstill is not stored either
    for _ in range(10):
        await node.sample()
    assert len(node.samples.last(60)[1]["commits"]) == KEPT
    ago_ms, series = node.samples.last(1)
    assert len(series["commits"]) == 12
    assert ago_ms == 55_000
    assert json.dumps(series)
