"""Signals from outside, and which wait takes which."""

from __future__ import annotations

from raftflow.engine.commands import AwaitSignal, SignalRun
from raftflow.engine.decide.context import (
    DONE,
    Context,
    Verdict,
    closed,
    no_namespace,
    no_run,
    too_large,
)
from raftflow.engine.decide.plan import Plan, Planned, invalid
from raftflow.engine.events import SignalAwaited, SignalConsumed, SignalReceived
from raftflow.engine.ids import id_problem
from raftflow.engine.rejections import Reason, Rejection
from raftflow.engine.state import Run
from raftflow.engine.transitions import Move


def signal(ctx: Context, command: SignalRun) -> Verdict:
    if not ctx.has_namespace(command.namespace):
        return no_namespace(command.namespace)
    if rejection := problem_of(ctx, command.name, command.payload):
        return Verdict(rejection)
    run = ctx.run(command.namespace, command.workflow_id, command.run_id)
    if run is None:
        return no_run(command.workflow_id, command.run_id)
    if not run.open:
        return Verdict(closed(run))
    received = SignalReceived(
        name=command.name, payload=command.payload, request_id=command.request_id
    )
    moves = arriving(ctx, run, received)
    return Verdict(moves) if isinstance(moves, Rejection) else Verdict(DONE, run, moves)


def problem_of(ctx: Context, name: str, payload: bytes) -> Rejection | None:
    """Why no run would take the signal."""
    if problem := id_problem("name", name):
        return Rejection(reason=Reason.INVALID_COMMAND, message=problem)
    if problem := too_large("payload", len(payload), ctx.limits.max_payload_bytes):
        return Rejection(reason=Reason.LIMIT_EXCEEDED, message=problem)
    return None


def arriving(ctx: Context, run: Run, received: SignalReceived) -> tuple[Move, ...] | Rejection:
    """An open run gets a signal; the oldest wait for its name will take it."""
    # What waits to join the history may take that wait before it.
    takes = not run.arrivals and run.oldest_wait(received.name) > 0
    if problem := _full(ctx, run, takes=takes):
        return Rejection(reason=Reason.LIMIT_EXCEEDED, message=problem)
    return (received,)


def await_signal(plan: Plan, command: AwaitSignal) -> Planned:
    if problem := id_problem("signal_name", command.signal_name):
        return invalid(problem)
    sequence = command.sequence
    awaited = SignalAwaited(
        step_name=command.step_name, sequence=sequence, signal_name=command.signal_name
    )
    signal_id = plan.take_signal(command)
    if not signal_id:
        return (awaited,)
    return (awaited, SignalConsumed(sequence=sequence, signal_event_id=signal_id))


def _full(ctx: Context, run: Run, *, takes: bool) -> str | None:
    limits = ctx.limits
    untaken = len(run.signals) + len(run.arrivals)
    if not takes and untaken >= limits.max_untaken_signals:
        return f"untaken signals: {untaken} are buffered, the limit is {limits.max_untaken_signals}"
    length = run.history_length + len(run.arrivals)
    if length + (2 if takes else 1) > limits.max_history_events:
        return f"history: {length} events, the limit is {limits.max_history_events}"
    if run.history_bytes >= limits.max_history_bytes:
        return f"history: {run.history_bytes} bytes, the limit is {limits.max_history_bytes}"
    return None
