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
    refuse,
    too_large,
)
from raftflow.engine.decide.plan import Plan, Planned, invalid, over_limit
from raftflow.engine.events import SignalAwaited, SignalConsumed, SignalReceived
from raftflow.engine.ids import id_problem
from raftflow.engine.rejections import Reason, Rejection
from raftflow.engine.state import Run


def signal(ctx: Context, command: SignalRun) -> Verdict:
    if not ctx.has_namespace(command.namespace):
        return no_namespace(command.namespace)
    if rejection := refused(ctx, command.name, command.payload):
        return Verdict(rejection)
    run = ctx.run(command.namespace, command.workflow_id, command.run_id)
    if run is None:
        return no_run(command.workflow_id, command.run_id)
    if not run.open:
        return Verdict(closed(run))
    if problem := full(ctx, run, command.name):
        return refuse(Reason.LIMIT_EXCEEDED, problem)
    received = SignalReceived(
        name=command.name, payload=command.payload, request_id=command.request_id
    )
    return Verdict(DONE, run, (received,))


def refused(ctx: Context, name: str, payload: bytes) -> Rejection | None:
    """Why no run would take the signal."""
    if problem := id_problem("name", name):
        return invalid(problem)
    if problem := too_large("payload", len(payload), ctx.limits.max_payload_bytes):
        return over_limit(problem)
    return None


def full(ctx: Context, run: Run, name: str) -> str | None:
    """Why an open run takes no more signals of this name."""
    # What waits to join the history may take the wait before it.
    takes = not run.arrivals and run.oldest_wait(name) > 0
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


def await_signal(plan: Plan, command: AwaitSignal) -> Planned:
    if problem := id_problem("signal_name", command.signal_name):
        return invalid(problem)
    sequence = command.sequence
    awaited = SignalAwaited(
        step_name=command.step_name, sequence=sequence, signal_name=command.signal_name
    )
    if sequence in plan.abandoned:
        return (awaited,)
    signal_id = plan.untaken.take(command.signal_name)
    if not signal_id:
        return (awaited,)
    return (awaited, SignalConsumed(sequence=sequence, signal_event_id=signal_id))
