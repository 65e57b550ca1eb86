"""The last hour in figures: a sample every five seconds, kept in memory.

What only the leader knows (what is queued and leased, how long commits take) the others ask it for,
so that every node has the whole picture, also across a change of leader. Nothing is scanned: a
sample reads counters that are there anyway.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

from raftflow.cluster.asking import Channel, Untold, ask
from raftflow.cluster.consensus.channel import PeerError
from raftflow.cluster.durations import Tally

METHOD = "samples.leading"
EVERY_MS = 5_000
KEPT = 720
_ANSWER_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSample:
    """What the leader alone knows."""

    commit_p50_ms: float | None = None
    commit_p99_ms: float | None = None
    activity_queue: int | None = None
    workflow_queue: int | None = None
    leases: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSample:
    """What each node knows of itself. ``commits`` are commands of the log that it applied, and
    ``requests`` calls that it answered, since the sample before."""

    commits: int | None = None
    requests: int | None = None
    open_runs: int | None = None
    fsync_p99_ms: float | None = None
    loop_lag_ms: float | None = None


Sample = tuple[OwnSample, LeaderSample]
NOTHING: Sample = (OwnSample(), LeaderSample())


class Source(Protocol):
    """What there is to read at the moment."""

    def requests_total(self) -> int: ...

    def open_runs(self) -> int: ...

    def loop_lag_ms(self) -> float: ...

    def queues(self) -> tuple[int, int, int] | None:
        """Activity tasks and workflow tasks queued, leases; None when this node does not lead."""
        ...


class Consensus(Protocol):
    @property
    def leader(self) -> str | None: ...

    @property
    def channel(self) -> Channel: ...


class Samples:
    def __init__(
        self,
        *,
        consensus: Consensus,
        node_id: str,
        source: Source,
        every_ms: int = EVERY_MS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consensus = consensus
        self._node_id = node_id
        self._source = source
        self.every_ms = every_ms
        self._monotonic = monotonic
        self._ring: deque[Sample] = deque(maxlen=KEPT)
        self._begun_s = monotonic()
        self._number = 0  # of the newest sample, counted from the beginning
        self._commits = 0
        self._requests = source.requests_total()
        self._fsync = Tally()
        self._commit = Tally()
        consensus.channel.register(METHOD, self._on_asked)

    # ---- what happens ---------------------------------------------------------------------------

    def applied(self, commands: int) -> None:
        self._commits += commands

    def flushed(self, seconds: float) -> None:
        self._fsync.note(seconds * 1_000)

    def committed(self, seconds: float) -> None:
        """So long it took from a command's arrival at this leader until it was applied."""
        self._commit.note(seconds * 1_000)

    # ---- what is kept ---------------------------------------------------------------------------

    def last(self, minutes: int) -> tuple[int, dict[str, list[Any]]]:
        """How long ago the first of the samples was taken, and the series by name."""
        kept = list(self._ring)[-(minutes * 60_000 // self.every_ms) :]
        since_s = self._monotonic() - self._begun_s
        newest_ago_ms = round(since_s * 1_000) - self._number * self.every_ms
        first_ago_ms = newest_ago_ms + max(0, len(kept) - 1) * self.every_ms
        series = {
            each.name: [getattr(own, each.name) for own, _ in kept] for each in fields(OwnSample)
        }
        leading = {
            each.name: [getattr(leader, each.name) for _, leader in kept]
            for each in fields(LeaderSample)
        }
        return first_ago_ms, series | leading

    async def run(self) -> None:
        while True:
            due_s = self._begun_s + (self._number + 1) * self.every_ms / 1_000
            await asyncio.sleep(max(0.0, due_s - self._monotonic()))
            await self.take()

    async def take(self) -> None:
        """A sample; after a standstill the ones that were missed are empty."""
        number = max(
            self._number + 1, int((self._monotonic() - self._begun_s) * 1_000 / self.every_ms)
        )
        missed = min(KEPT, number - self._number - 1)
        self._number = number
        self._ring.extend([NOTHING] * missed)
        own = self._own()
        leading = self._leading()
        self._ring.append((own, leading or LeaderSample()))
        if leading is None:
            self._ring[-1] = (own, await self._ask_leader())

    def _own(self) -> OwnSample:
        requests, before = self._source.requests_total(), self._requests
        commits, self._commits, self._requests = self._commits, 0, requests
        (fsync_ms,) = self._fsync.take(0.99)
        return OwnSample(
            commits=commits,
            requests=requests - before,
            open_runs=self._source.open_runs(),
            fsync_p99_ms=fsync_ms,
            loop_lag_ms=round(self._source.loop_lag_ms(), 1),
        )

    def _leading(self) -> LeaderSample | None:
        median_ms, most_ms = self._commit.take(0.5, 0.99)
        queues = self._source.queues()
        if queues is None:
            return None
        return LeaderSample(
            commit_p50_ms=median_ms,
            commit_p99_ms=most_ms,
            activity_queue=queues[0],
            workflow_queue=queues[1],
            leases=queues[2],
        )

    async def _ask_leader(self) -> LeaderSample:
        leader = self._consensus.leader
        if leader is None or leader == self._node_id:
            return LeaderSample()
        channel = self._consensus.channel
        try:
            return await ask(channel, leader, METHOD, b"", read=_sample, timeout_ms=_ANSWER_MS)
        except Untold:
            return LeaderSample()  # silent, not leading any more, or of a release before 0.5

    async def _on_asked(self, _peer: str, _payload: bytes) -> bytes:
        """The newest, if it was taken while this node led."""
        if self._source.queues() is None or not self._ring:
            raise PeerError("NOT_LEADER", "")
        return json.dumps(asdict(self._ring[-1][1])).encode()


def _sample(answer: bytes) -> LeaderSample:
    """Only what is a number, whatever else somebody says."""
    said = json.loads(answer)
    known: dict[str, Any] = {
        each.name: value
        for each in fields(LeaderSample)
        if isinstance(value := said.get(each.name), int | float)
    }
    return LeaderSample(**known)
