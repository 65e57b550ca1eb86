"""Bugs of the engine and of a leader's duties, put in on purpose: each must be caught by a seed.

`python -m tests.sim.run --engine --mutants` tries all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from raftflow.cluster.api.handlers import deletion, runs
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.clock import LogClock
from raftflow.cluster.errors import Unavailable
from raftflow.cluster.leader import duties as duties_module
from raftflow.cluster.leader.leases import Leases
from raftflow.cluster.leader.outbox import Outbox
from raftflow.cluster.leader.timers import Timers
from raftflow.cluster.reads import Reads
from raftflow.cluster.store.batch import WriteBatch
from raftflow.engine import apply as apply_module
from raftflow.engine import commands as cmd
from raftflow.engine import events as ev
from raftflow.engine import transitions as tr
from raftflow.engine.decide import activity as decide_activity
from raftflow.engine.decide import lease as decide_lease
from raftflow.engine.decide import message as decide_message
from raftflow.engine.decide import plan
from raftflow.engine.decide.context import DONE, Verdict, step_at
from raftflow.engine.evolve import arrivals, moves
from raftflow.engine.evolve import decision as evolve_decision
from raftflow.engine.evolve import message as evolve_message
from raftflow.engine.evolve import signal as evolve_signal
from raftflow.engine.ids import TokenParts, format_token
from raftflow.engine.rejections import Granted, Started
from raftflow.engine.state import StepStatus, TaskState
from tests.sim.mutants import Mutant

FLOW_MUTANTS: list[Mutant] = []

RULES = {
    1: "results",
    2: "signals",
    3: "wake-ups",
    4: "messages",
    5: "fencing",
    6: "takeover",
    7: "callers",
    8: "time",
    9: "equality",
}

# What each checker is for, the bug that it must find, and the words in which it says so.
CHECKERS = {
    "lost start": ("a_doubtful_start_is_told_as_done", "an acknowledged start is kept"),
    "double completion": ("a_result_is_recorded_twice", "a step gets one result"),
    "overlapping leases": ("a_grant_is_not_fenced", "a task has one holder"),
    "early timer": ("the_time_of_one_clock_is_believed", "no timer fires early"),
    "lost timer": ("timers_of_the_present_are_lost", "every run comes to its end"),
    "stale read": ("reads_do_not_ask_the_leader", "a read is not stale"),
    "reordered signals": ("the_newest_signal_is_taken_first", "signals are taken once, the oldest"),
    "forked history": ("one_node_tells_another_history", "a history is the same on every node"),
    "equal digests": ("nodes_apply_differently", "states are equal at equal indexes"),
    "wake-up invariant": ("a_result_wakes_nobody", "a run keeps its invariants"),
}


def _add(
    row: int, name: str, target: Any, attribute: str, replacement: Any, test: str = ""
) -> None:
    FLOW_MUTANTS.append(Mutant(name, row, target, attribute, replacement, test, RULES[row]))


def mutant(row: int, target: Any, attribute: str, *, test: str = "") -> Callable[[Any], Any]:
    def register(replacement: Any) -> Any:
        _add(row, replacement.__name__, target, attribute, replacement, test)
        return replacement

    return register


def entry_of(row: int, target: Any, attribute: str, key: Any) -> Callable[[Any], Any]:
    """Like `mutant`, for one entry of a table of functions."""

    def register(replacement: Any) -> Any:
        table = {**getattr(target, attribute), key: replacement}
        _add(row, replacement.__name__, target, attribute, table)
        return replacement

    return register


# -- 1: every step has exactly one result


@entry_of(1, apply_module, "_DECIDE", cmd.CompleteActivity)
def a_result_is_recorded_twice(ctx: Any, command: Any) -> Any:
    """A repeated completion is taken for a new one."""
    verdict = decide_activity.complete(ctx, command)
    held = ctx.holder(command.namespace, command.workflow_id, command.lease_token)
    if verdict.moves or held is None or command.failed or not held[0].open:
        return verdict
    step = step_at(held[0], held[1].number)
    if step is None or step.status is not StepStatus.COMPLETED:
        return verdict
    again = ev.StepCompleted(
        sequence=step.sequence,
        output=command.output,
        attempt=step.attempts,
        worker_id="",
        node="",
        started_ms=0,
    )
    return Verdict(DONE, held[0], (again,))


@mutant(1, arrivals, "joining")
def a_result_of_a_cancelled_step_joins(rec: Any, run: Any) -> Any:
    waiting, run.arrivals = run.arrivals, {}
    for number, arrival in waiting.items():
        run.history_bytes -= arrivals._cost(arrival.body)
        rec.changes.arrivals[run.key, number] = None
        rec.run(run)
        yield arrival.body


@mutant(1, moves, "_join")
def held_facts_are_dropped(rec: Any, run: Any) -> None:
    for _ in original_joining(rec, run):
        pass


original_joining = arrivals.joining


# -- 2: every signal is taken at most once, in order


@entry_of(2, moves, "OF_RUN", ev.SignalConsumed)
def a_signal_is_taken_twice(rec: Any, run: Any, body: Any) -> None:
    taken = run.signals.get(body.signal_event_id)
    evolve_signal.consumed(rec, run, body)
    if taken is not None:
        run.signals = dict(sorted({**run.signals, taken.event_id: taken}.items()))
        rec.changes.signals[run.key, taken.event_id] = taken


@mutant(2, plan._Untaken, "__init__")
def the_newest_signal_is_taken_first(self: Any, run: Any) -> None:
    self._rest = reversed(run.signals.values())
    self._passed = {}


# -- 3: no open run without a wake-up source


@entry_of(3, moves, "OF_RUN", tr.DecisionExpired)
def held_facts_are_dropped_when_the_decision_expires(rec: Any, run: Any, move: Any) -> None:
    evolve_decision.expired(rec, run, move)
    for _ in original_joining(rec, run):
        pass


@entry_of(3, moves, "OF_RUN", ev.StepCompleted)
def a_result_wakes_nobody(rec: Any, run: Any, body: Any) -> None:
    before = run.decision.state
    original_completed(rec, run, body)
    if before is TaskState.NONE and run.decision.state is TaskState.QUEUED:
        run.decision.state = TaskState.NONE


original_completed = moves.OF_RUN[ev.StepCompleted]


@mutant(3, moves, "_under_pressure", test="tests/engine/decide/test_decision.py")
def the_wake_is_forgotten_after_the_flush(rec: Any, run: Any, made: Any) -> None:
    waited = bool(run.arrivals)
    original_under_pressure(rec, run, made)
    if waited and not run.arrivals and run.decision.state is TaskState.QUEUED:
        evolve_decision.drop(rec, run, cancelled=False)


original_under_pressure = moves._under_pressure


# -- 4: messages between runs, once


@entry_of(4, moves, "OF_RUN", tr.MessageDelivered)
def a_message_stays_when_it_is_delivered(rec: Any, run: Any, move: Any) -> None:
    message = run.outbox[move.number]
    evolve_message.delivered(rec, run, move)
    run.outbox[move.number] = message
    rec.outbox(run, move.number, message)


@entry_of(4, apply_module, "_DECIDE", cmd.DeliverMessage)
def a_message_is_taken_out_without_effect(ctx: Any, command: Any) -> Any:
    verdict = decide_message.deliver(ctx, command)
    if command.number % 3 or not verdict.moves:
        return verdict
    sender = ctx.run(command.namespace, command.workflow_id, command.run_id)
    return Verdict(DONE, sender, (tr.MessageDelivered(command.number),))


# -- 5: decisions of leaders are fenced


@entry_of(5, apply_module, "_DECIDE", cmd.GrantActivity)
def a_grant_is_not_fenced(ctx: Any, command: Any) -> Any:
    run = ctx.run(command.namespace, command.workflow_id, command.run_id)
    step = None if run is None else step_at(run, command.sequence)
    if step is None or step.task.state is TaskState.NONE:
        return decide_lease.grant_activity(ctx, command)
    token = format_token(
        TokenParts(command.namespace, command.run_id, command.sequence, command.nonce)
    )
    leased = tr.ActivityLeased(
        command.sequence,
        token,
        command.worker_id,
        command.node,
        command.poll_id,
        command.duration_ms,
    )
    return Verdict(Granted(token), run, (leased,))


@mutant(5, decide_lease, "_holds_yet")
def an_old_leader_ends_a_lease_early(_ctx: Any, _task: Any) -> bool:
    return False


@entry_of(5, apply_module, "_DECIDE", cmd.ExpireLease)
def the_end_of_an_old_lease_is_honoured(ctx: Any, command: Any) -> Any:
    """Whatever lease of that step is out now."""
    held = ctx.holder(command.namespace, command.workflow_id, command.token)
    if held is not None:
        run, parts = held
        step = step_at(run, parts.number)
        if step is not None and step.task.state is TaskState.LEASED:
            command = replace(command, token=step.task.token)
    return decide_lease.expire(ctx, command)


@entry_of(5, apply_module, "_DECIDE", cmd.FireTimer)
def a_timer_fires_when_the_leader_says_so(ctx: Any, command: Any) -> Any:
    ahead = replace(ctx, time_ms=max(ctx.time_ms, command.fire_at_ms))
    return original_fire(ahead, command)


original_fire = apply_module._DECIDE[cmd.FireTimer]


@entry_of(5, apply_module, "_DECIDE", cmd.CompleteDecision)
def decisions_on_older_history_are_taken(ctx: Any, command: Any) -> Any:
    held = ctx.holder(command.namespace, command.workflow_id, command.task_token)
    if held is None or held[0].decision.token != command.task_token:
        return original_complete(ctx, command)
    run, parts = held
    length, run.history_length = run.history_length, parts.number
    try:
        return original_complete(ctx, command)
    finally:
        run.history_length = length


original_complete = apply_module._DECIDE[cmd.CompleteDecision]


# -- 6: a new leader derives everything


async def _nothing(*_arguments: Any) -> None:
    pass


@mutant(6, duties_module.Duties, "_extend_horizon")
async def timers_are_lost_on_takeover(self: Any) -> None:
    self._horizon_ms = 1 << 60


@mutant(6, duties_module.Duties, "_derive_tasks")
async def tasks_are_lost_on_takeover(self: Any) -> None:
    pass


@mutant(6, Outbox, "refill")
async def messages_are_lost_on_takeover(self: Any, now_ms: int) -> None:
    pass


@mutant(6, Leases, "hold")
def nobody_watches_leases(self: Any, *_arguments: Any) -> None:
    pass


@mutant(6, Timers, "arm")
def timers_of_the_present_are_lost(self: Any, row: Any) -> None:
    if row.sequence % 3:
        original_arm(self, row)


original_arm = Timers.arm


@mutant(6, duties_module.Duties, "_leave")
def the_old_office_goes_on(self: Any) -> None:
    """Leases, timers and tasks of an earlier term are still believed in the next one."""
    self._term = 0
    self._following = False
    if self._office is not None:
        self._office.cancel()
        self._office = None
    self._horizon_ms = 1 << 60


# -- 7: what callers are told is so


@mutant(7, runs, "execute")
async def a_doubtful_start_is_told_as_done(node: Any, command: Any) -> Any:
    try:
        return await original_execute(node, command)
    except (ApiError, Unavailable):
        if not isinstance(command, cmd.StartRun):
            raise
        return Started(command.run_id, started=True)


original_execute = runs.execute


@mutant(7, Reads, "linearizable")
async def reads_do_not_ask_the_leader(self: Any) -> int:
    return int(self._replica.applied_index)


@mutant(7, deletion, "_older", test="tests/cluster/api/routes/test_steering.py")
async def a_delete_leaves_older_runs(*_arguments: Any) -> list[str]:
    return []


# -- 8: log time is the time of a majority


@mutant(8, LogClock, "now_ms")
def the_time_of_one_clock_is_believed(self: Any) -> int:
    """Whenever it is ahead, the fastest clock of all is right."""
    offsets = (sample.offset_us for sample in self._samples.values())
    fastest = max(self._wall_us(), *(self._monotonic_us() + each for each in offsets), 0)
    self._last_us = max(self._last_us, fastest)
    return int(self._last_us // 1_000)


# -- 9: nodes are equal


@entry_of(9, moves, "OF_RUN", ev.StepFailed)
def nodes_apply_differently(rec: Any, run: Any, body: Any) -> None:
    """What a process remembers gets into the state."""
    _failed.append(None)
    original_failed(rec, run, replace(body, error=f"{body.error} {len(_failed)}"))


_failed: list[None] = []
original_failed = moves.OF_RUN[ev.StepFailed]


@mutant(9, WriteBatch, "merge")
def one_node_tells_another_history(self: Any, later: Any) -> None:
    """The digest is right, what is written is not: an event that shares its transaction with
    those before it gets the record of the one before."""
    if self.events and later.events:
        number, _ = later.events[0]
        later.events[0] = (number, self.events[-1][1])
    original_merge(self, later)


original_merge = WriteBatch.merge
