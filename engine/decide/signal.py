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
from raftflow.engine.decide.plan import Plan, Planned, invalid
from raftflow.engine.events import SignalAwaited, SignalConsumed, SignalReceived
from raftflow.engine.ids import id_problem
from raftflow.engine.rejections import Reason
from raftflow.engine.state import Run


def signal(ctx: Context, command: SignalRun) -> Verdict:
    if not ctx.has_namespace(command.namespace):
        return no_namespace(command.namespace)
    if problem := id_problem("name", command.name):
        return refuse(Reason.INVALID_COMMAND, problem)
    if problem := too_large("payload", len(command.payload), ctx.limits.max_payload_bytes):
        return refuse(Reason.LIMIT_EXCEEDED, problem)
    run = ctx.run(command.namespace, command.workflow_id, command.run_id)
    if run is None:
        return no_run(command.workflow_id, command.run_id)
    if not run.open:
        return Verdict(closed(run))
    # What waits to join the history may take the wait before it.
    takes = not run.arrivals and run.oldest_wait(command.name) > 0
    if problem := _full(ctx, run, takes=takes):
        return refuse(Reason.LIMIT_EXCEEDED, problem)
    received = SignalReceived(
        name=command.name, payload=command.payload, request_id=command.request_id
    )
    return Verdict(DONE, run, (received,))


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
