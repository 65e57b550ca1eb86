"""A node with a bug: `python -m tests.jepsen.seeded BUG serve ...` breaks one function of the
product and then runs it as ever. A suite that does not see these proves nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from zlib import crc32

from raftflow.cluster import reads
from raftflow.cluster.api import views
from raftflow.cluster.cli.main import main
from raftflow.cluster.leader import leases, timers
from raftflow.cluster.store import store
from raftflow.engine import apply
from raftflow.engine.commands import (
    CompleteActivity,
    CompleteDecision,
    FireTimer,
    StartRun,
    StartTimer,
)
from raftflow.engine.decide import activity, decision, lease, plan, workflow
from raftflow.engine.decide.context import DONE, Context, Verdict
from raftflow.engine.events import TimerFired, TimerStarted
from raftflow.engine.rejections import Reason, Rejection, Started

DECIDE: dict[Any, Any] = apply._DECIDE


def stale_reads() -> None:
    """Reads ask no leader: each node answers from what it has."""

    async def linearizable(self: reads.Reads) -> int:
        return self._replica.applied_index

    reads.Reads.linearizable = linearizable  # type: ignore[method-assign]


def lost_starts() -> None:
    """One start in eight is acknowledged and leaves nothing behind."""
    start = DECIDE[StartRun]

    def broken(ctx: Context, command: StartRun) -> Verdict:
        verdict: Verdict = start(ctx, command)
        if isinstance(verdict.answer, Started) and crc32(command.workflow_id.encode()) % 8 == 0:
            return Verdict(verdict.answer)
        return verdict

    DECIDE[StartRun] = broken


def forgotten_requests() -> None:
    """A repeated request is a new one."""
    apply.remembered = lambda *_: None  # type: ignore[assignment]


def double_completions() -> None:
    """Whoever completes an activity is told that all is well, whatever became of the lease."""
    complete = DECIDE[CompleteActivity]

    def broken(ctx: Context, command: CompleteActivity) -> Verdict:
        verdict: Verdict = complete(ctx, command)
        answer = verdict.answer
        lost = isinstance(answer, Rejection) and answer.reason is Reason.LEASE_LOST
        return Verdict(DONE) if lost else verdict

    DECIDE[CompleteActivity] = broken


def idle_heartbeats() -> None:
    """Heartbeats are acknowledged and extend nothing."""

    def beat(self: leases.Leases, workflow: Any, token: str, now_ms: int) -> bool:
        return token in self._by_token

    leases.Leases.beat = beat  # type: ignore[method-assign]


def impatient_leases() -> None:
    """A step is offered to the next worker while the first holds it."""
    hold = leases.Leases.hold

    def broken(
        self: Any, run: Any, sequence: int, token: str, duration_ms: int, *rest: Any
    ) -> None:
        hold(self, run, sequence, token, duration_ms // 5, *rest)

    leases.Leases.hold = broken  # type: ignore[method-assign]
    lease._holds_yet = lambda *_: False  # type: ignore[assignment]


def early_timers() -> None:
    """The leader fires a second too soon, and nobody checks."""
    due = timers.Timers.due
    fire = DECIDE[FireTimer]

    def early(self: timers.Timers, now_ms: int, limit: int) -> Any:
        return due(self, now_ms + 1_000, limit)

    def unchecked(ctx: Context, command: FireTimer) -> Verdict:
        late = replace(ctx, time_ms=max(ctx.time_ms, command.fire_at_ms))
        verdict: Verdict = fire(late, command)
        return verdict

    timers.Timers.due = early  # type: ignore[method-assign]
    DECIDE[FireTimer] = unchecked


def short_timers() -> None:
    """A timer is armed for nine tenths of what the code asked for, and says otherwise."""

    def start(at: plan.Plan, command: StartTimer) -> tuple[TimerStarted, ...]:
        return (
            TimerStarted(
                step_name=command.step_name,
                sequence=command.sequence,
                delay_ms=command.delay_ms,
                fire_at_ms=at.ctx.time_ms + command.delay_ms * 9 // 10,
            ),
        )

    workflow._STEPS[StartTimer] = start


def lost_timers() -> None:
    """One timer in five is never armed."""
    arm = timers.Timers.arm

    def broken(self: timers.Timers, row: Any) -> None:
        if row.sequence % 5:
            arm(self, row)

    timers.Timers.arm = broken  # type: ignore[method-assign]


def endless_attempts() -> None:
    """The policy counts from zero."""
    may_retry = activity.may_retry

    def broken(policy: Any, *, attempts: int, **rest: Any) -> bool:
        return may_retry(policy, attempts=attempts - 1, **rest)

    activity.may_retry = broken


def unfenced_decisions() -> None:
    """A decision made on old history counts."""
    decision._may_overlook = lambda *_: True  # type: ignore[assignment]
    DECIDE[CompleteDecision] = decision.complete


def reordered_signals() -> None:
    """Signals are shown by their content and not by their arrival."""
    signals_of = store.Store.signals_of

    async def broken(self: store.Store, key: Any) -> Any:
        return sorted(await signals_of(self, key), key=lambda signal: signal.payload[::-1])

    store.Store.signals_of = broken  # type: ignore[method-assign]


def forked_histories() -> None:
    """On one node the store keeps another content."""
    if "n2" not in sys.argv:
        return
    events = store.Store.events

    async def broken(self: store.Store, key: Any, **rest: Any) -> Any:
        return [_altered(record) for record in await events(self, key, **rest)]

    store.Store.events = broken  # type: ignore[method-assign]


def _altered(record: bytes) -> bytes:
    """The same event a minute later, framed as ever."""
    from raftflow.cluster.codec.events import decode_event, encode_event
    from raftflow.cluster.store.records import frame, unframe

    event = decode_event(unframe(record))
    moved = isinstance(event.body, TimerFired)
    return frame(encode_event(replace(event, time_ms=event.time_ms + 60_000))) if moved else record


def unequal_apis() -> None:
    """The JSON API counts one event too many."""
    described = views.described

    def broken(found: Any) -> dict[str, Any]:
        view = described(found)
        return {**view, "history_length": view["history_length"] + 1}

    views.described = broken


# By bug: the workload that must see it, and words of its complaint.
BUGS: dict[str, tuple[Callable[[], None], str, str]] = {
    "stale-reads": (stale_reads, "reads", "stale read"),
    "stale-registers": (stale_reads, "register", "not linearizable"),
    "lost-starts": (lost_starts, "starts", "lost start"),
    "forgotten-requests": (forgotten_requests, "idempotency", "effects"),
    "double-completions": (double_completions, "completions", "double completion"),
    "idle-heartbeats": (idle_heartbeats, "leases", "expired alive"),
    "impatient-leases": (impatient_leases, "leases", "overlapping leases"),
    "early-timers": (early_timers, "timers", "early timer"),
    "short-timers": (short_timers, "timers", "early timer"),
    "lost-timers": (lost_timers, "timers", "lost timer"),
    "endless-attempts": (endless_attempts, "attempts", "attempt 5 of 4"),
    "unfenced-decisions": (unfenced_decisions, "decisions", "decided on old history"),
    "reordered-signals": (reordered_signals, "signals", "reordered"),
    "forked-histories": (forked_histories, "histories", "forked history"),
    "unequal-apis": (unequal_apis, "parity", "answers"),
}


def command(bug: str) -> tuple[str, ...]:
    """In place of the program that serves."""
    return (sys.executable, "-m", "tests.jepsen.seeded", bug, "serve")


if __name__ == "__main__":
    BUGS[sys.argv.pop(1)][0]()
    main()
