"""The leader's side of a command: group commit, log time, back-pressure, and the waiting calls.

Everything that arrives while the last entries are being written goes into the next one. The
proposer owns the calls that wait: each learns its outcome from apply, or at once, inside the
node, when leadership is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from raftflow.cluster.clock import LogClock
from raftflow.cluster.codec import commands
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.types import NotLeader, Role
from raftflow.cluster.errors import Indeterminate, Overloaded
from raftflow.engine.apply import Applied
from raftflow.engine.commands import FEATURE_LEVEL, Batch, Command
from raftflow.engine.limits import Limits
from raftflow.engine.rejections import Answer

# More entries in flight only shrink the batches: the disk and the network pipeline two or three.
MAX_ENTRIES_IN_FLIGHT = 3
# An entry costs all nodes the same whatever it holds: a second one follows the first only when it
# is worth it; what is less waits for the first to be applied.
WORTH_COMMANDS = 32
WORTH_BYTES = 256 << 10
MAX_BATCH_COMMANDS = 512
MAX_BATCH_BYTES = 4 << 20
MAX_PENDING_BYTES = 64 << 20
# How soon a leader tries again that is handing over its leadership.
HANDOVER_RETRY_S = 0.02


def overloaded(cause: str) -> Overloaded:
    """The refusal for a leader whose queue is full; ``cause`` is the metric's label."""
    return Overloaded(
        f"the leader has no room for more commands ({cause})", cause=cause, retry_after_ms=200
    )


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits on this leader: commands for a place in an entry, entries for their commit.
    ``refused``: calls since the start that found no room, the last one so long ago."""

    commands: int
    bytes: int
    entries: int
    oldest_entry_ms: int
    refused: int
    refused_ago_ms: int | None


AnswerCallback = Callable[[Answer | None], None]


@dataclass(slots=True)
class _Pending:
    command_id: str
    command: bytes
    done: AnswerCallback
    lost: Callable[[Exception], None]
    since_s: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class _InFlight:
    """An entry on its way, which left at ``left_s``. The command in it that came first has waited
    since ``since_s``."""

    term: int
    command_ids: list[str]
    since_s: float
    left_s: float


class Proposer:
    """Batches commands into entries while this node leads."""

    def __init__(
        self,
        *,
        consensus: Consensus,
        clock: LogClock,
        node_id: str,
        limits: Limits,
        level: Callable[[], int] = lambda: FEATURE_LEVEL,
    ) -> None:
        """``level`` is the cluster's feature level: what entries are written under."""
        self._consensus = consensus
        self._clock = clock
        self._node_id = node_id
        self._limits = limits
        self._level = level
        self._pending: list[_Pending] = []
        self._pending_bytes = 0
        self._waiting: dict[str, list[_Pending]] = {}
        self._in_flight: dict[int, _InFlight] = {}  # by index
        self._refused = 0
        self._refused_at = 0.0
        self._flush_scheduled = False
        self._duty_number = 0
        # Hears of each call's command right behind its place in line; the leader's duties set it.
        self.on_submitted: Callable[[bytes], None] = lambda command: None
        # Told when what waited has left in an entry.
        self.on_entry: Callable[[], None] = lambda: None
        # Told of each entry how long its first command has waited until it was applied.
        self.on_committed: Callable[[float], None] = lambda seconds: None

    @property
    def pending(self) -> int:
        """Commands waiting for a place in an entry or for their entry."""
        return len(self._pending) + len(self._waiting)

    def backlog(self) -> Backlog:
        now = time.monotonic()
        left = min((flight.left_s for flight in self._in_flight.values()), default=now)
        return Backlog(
            commands=len(self._pending),
            bytes=self._pending_bytes,
            entries=len(self._in_flight),
            oldest_entry_ms=round((now - left) * 1_000),
            refused=self._refused,
            refused_ago_ms=round((now - self._refused_at) * 1_000) if self._refused else None,
        )

    @property
    def feature_level(self) -> int:
        """What the next entry is written under."""
        return self._level()

    async def submit(self, command_id: str, command: bytes) -> Answer:
        """Propose an encoded command and wait until it is applied.

        Raises NotLeader (surely not proposed), Indeterminate (leadership was lost after
        proposing) or Overloaded (refused for want of room).
        """
        if self._pending_bytes + len(command) > MAX_PENDING_BYTES:
            self._refused += 1
            self._refused_at = time.monotonic()
            raise overloaded("proposals_pending")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(answer: Answer | None) -> None:
            if not future.done() and answer is not None:
                future.set_result(answer)

        def lost(error: Exception) -> None:
            if not future.done():
                future.set_exception(error)

        if self._enqueue(_Pending(command_id, command, done, lost)):
            self.on_submitted(command)
        return await future

    def propose_duty(self, command: Command, done: AnswerCallback | None = None) -> None:
        """Propose one of the leader's own decisions. ``done`` gets its answer, or None when this
        node lost its office first: the next leader derives the duty anew."""
        self._duty_number += 1
        command_id = f"{self._node_id}/{self._duty_number}"
        callback = done or (lambda _answer: None)
        encoded = commands.encode_command(command_id, command)
        self._enqueue(_Pending(command_id, encoded, callback, lambda _error: callback(None)))

    def on_role(self, role: Role, term: int, leader: str | None) -> None:
        """On step-down every waiting call learns at once what is known of it."""
        if role is Role.LEADER:
            return
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        waiting, self._waiting = self._waiting, {}
        self._in_flight.clear()
        for call in pending:
            call.lost(NotLeader(leader))
        for calls in waiting.values():
            for call in calls:
                call.lost(Indeterminate("leadership was lost after proposing"))

    def on_applied(self, applied: Applied, batch: Batch) -> None:
        """Answer the calls whose commands this entry carried."""
        flight = self._in_flight.pop(batch.index, None)
        if flight is not None and flight.term != batch.term:
            # Raft §5.4: another leader's entry stands at this index, so ours never will.
            for command_id in flight.command_ids:
                for call in self._waiting.pop(command_id, ()):
                    call.lost(NotLeader(self._consensus.leader))
        elif flight is not None:
            self.on_committed(time.monotonic() - flight.since_s)
        if self._waiting:
            for reply in applied.replies:
                for call in self._waiting.pop(reply.command_id, ()):
                    call.done(reply.answer)
        if self._pending:
            self._schedule_flush()

    def _enqueue(self, call: _Pending) -> bool:
        """False when the command is on its way already."""
        waiting = self._waiting.get(call.command_id)
        if waiting is not None:
            # The same id again while the first is under way: one effect, one answer for both.
            waiting.append(call)
            return False
        self._pending.append(call)
        self._pending_bytes += len(call.command)
        self._schedule_flush()
        return True

    def _schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._consensus.role is not Role.LEADER:
            self.on_role(Role.FOLLOWER, self._consensus.term, self._consensus.leader)
            return
        if not self._clock.ready:
            # A majority's clocks are known moments after a majority is connected.
            asyncio.get_running_loop().call_later(0.02, self._schedule_flush)
            return
        while self._pending and self._may_propose():
            if not self._propose(self._take_batch()):
                asyncio.get_running_loop().call_later(HANDOVER_RETRY_S, self._schedule_flush)
                return
            self.on_entry()

    def _may_propose(self) -> bool:
        if not self._in_flight:
            return True
        worth = len(self._pending) >= WORTH_COMMANDS or self._pending_bytes >= WORTH_BYTES
        return worth and len(self._in_flight) < MAX_ENTRIES_IN_FLIGHT

    def _take_batch(self) -> list[_Pending]:
        size = count = 0
        for call in self._pending:
            size += len(call.command)
            if count and (size > MAX_BATCH_BYTES or count >= MAX_BATCH_COMMANDS):
                break
            count += 1
        batch, self._pending = self._pending[:count], self._pending[count:]
        self._pending_bytes -= sum(len(call.command) for call in batch)
        return batch

    def _propose(self, calls: list[_Pending]) -> bool:
        """False: leadership is being handed over. What waits goes on waiting, since that may come
        to nothing, and then nobody else would derive the duties among it."""
        by_id: dict[str, bytes] = {}
        for call in calls:
            by_id.setdefault(call.command_id, call.command)
        term = self._consensus.term
        payload = commands.encode_entry(
            list(by_id.values()),
            time_ms=self._clock.now_ms(),
            term=term,
            node=self._node_id,
            limits=self._limits,
            feature_level=self._level(),
        )
        try:
            proposed = self._consensus.propose(payload)
        except NotLeader as error:
            if self._consensus.role is Role.LEADER:
                self._pending[:0] = calls
                self._pending_bytes += sum(len(call.command) for call in calls)
                return False
            for call in calls:
                call.lost(error)
            return True
        self._in_flight[proposed.index] = _InFlight(
            proposed.term, list(by_id), since_s=calls[0].since_s, left_s=time.monotonic()
        )
        for call in calls:
            self._waiting.setdefault(call.command_id, []).append(call)
        return True
