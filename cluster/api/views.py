"""What the JSON API shows: engine state as the public field names and shapes."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, cast

from raftflow.cluster.api.attributes import show_attributes, show_memo
from raftflow.cluster.api.auth import Caller
from raftflow.cluster.api.encoding import Rows
from raftflow.cluster.api.handlers.access import Reached
from raftflow.cluster.api.handlers.runs import DescribedRun, HistoryPage
from raftflow.cluster.api.payloads import hidden, put_payload, timestamp
from raftflow.cluster.attempts import Attempt
from raftflow.cluster.codec.events import decode_event
from raftflow.cluster.store.records import unframe
from raftflow.cluster.store.views import RunCounts, RunFilter, RunPage, RunSummary
from raftflow.engine.audit import PLACE_BITS
from raftflow.engine.commands import ParentClosePolicy
from raftflow.engine.describe import ActivityTask, DecisionTask, OpenStep, WaitView, waiting_on
from raftflow.engine.events import Event
from raftflow.engine.retry import RetryPolicy
from raftflow.engine.state import (
    AuditRecord,
    NamespaceRecord,
    Run,
    RunStatus,
    Signal,
    Step,
    StepKind,
    StepStatus,
    TaskState,
    TokenRecord,
)


def run_summary(run: RunSummary) -> dict[str, Any]:
    view: dict[str, Any] = {
        "workflow_id": run.key.workflow_id,
        "run_id": run.key.run_id,
        "workflow_type": run.workflow_type,
        "status": run.status.name,
        "started_at": timestamp(run.started_ms),
        "updated_at": timestamp(run.updated_ms),
        "history_length": run.history_length,
        "task_queue": run.task_queue,
        "search_attributes": show_attributes(run.search_attributes),
        "memo": show_memo(run.memo),
    }
    if run.closed_ms:
        view["closed_at"] = timestamp(run.closed_ms)
    return view


def run_page(wanted: RunFilter, page: RunPage) -> dict[str, Any]:
    view: dict[str, Any] = {
        "total": page.total,
        "total_exact": page.total_exact,
        "offset": wanted.offset,
        "limit": wanted.limit,
        "workflows": Rows(page.runs, run_summary),
    }
    if page.next_cursor:
        view["next_cursor"] = page.next_cursor
    return view


def run_counts(counts: RunCounts) -> dict[str, Any]:
    return {
        "total": counts.total,
        "exact": counts.exact,
        "by_status": {status.name: runs for status, runs in counts.by_status.items()},
    }


def described(found: DescribedRun) -> dict[str, Any]:
    run = found.run

    def show(step: Step) -> dict[str, Any]:
        return _step(step, found.past_attempts.get(step.sequence, ()))

    view: dict[str, Any] = {
        "workflow_id": run.key.workflow_id,
        "run_id": run.key.run_id,
        "workflow_type": run.workflow_type,
        "status": run.status.name,
        "history_length": run.history_length,
        "started_at": timestamp(run.started_ms),
        "updated_at": timestamp(run.updated_ms),
        "task_queue": run.task_queue,
        "search_attributes": show_attributes(run.search_attributes),
        "memo": show_memo(run.memo),
        # Open steps at once: they may move on while a long answer is written.
        "steps": Rows(
            [show(step) if step.status is StepStatus.SCHEDULED else step for step in run.steps],
            lambda each: show(each) if isinstance(each, Step) else each,
        ),
        "signals": Rows(found.signals, _signal),
        "waiting_on": [_waiting(run, wait) for wait in waiting_on(run)],
    }
    put_payload(view, "input", run.input)
    if run.closed_ms:
        view["closed_at"] = timestamp(run.closed_ms)
        if run.status is RunStatus.COMPLETED:
            put_payload(view, "output", run.output)
    if run.execution_timeout_ms:
        view["execution_timeout_ms"] = run.execution_timeout_ms
    if run.parent_workflow_id:
        view["parent"] = {
            "workflow_id": run.parent_workflow_id,
            "run_id": run.parent_run_id,
            "sequence": run.parent_sequence,
        }
    if run.cancel_requested_event_id:
        view["cancel_requested_at"] = timestamp(run.cancel_requested_ms)
        view["cancel_reason"] = run.cancel_reason
    _texts(
        view,
        error=run.error or run.suspended_reason,
        error_type=run.error_type,
        continued_from_run_id=run.continued_from_run_id,
        continued_to_run_id=run.continued_to_run_id,
        traceparent=run.traceparent,
        tracestate=run.tracestate,
    )
    return view


def history_page(page: HistoryPage) -> dict[str, Any]:
    run = page.run
    view = {
        "workflow_id": run.key.workflow_id,
        "run_id": run.key.run_id,
        "workflow_type": run.workflow_type,
        "status": run.status.name,
        "history_length": page.length,
        "events": Rows(page.records, _record),
    }
    if page.next_from:
        view["next_from"] = page.next_from
    return view


def mentions(record: bytes, text: str, *, sees_payloads: bool) -> bool:
    """Whether any value of the event has the text in it, in any case. What a caller is not shown
    is not searched for them either."""
    view = _record(record)
    wanted = text.casefold()
    return any(wanted in said.casefold() for said in _said(view if sees_payloads else hidden(view)))


def _said(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _said(each)
    elif isinstance(value, list):
        for each in value:
            yield from _said(each)
    elif value is not None:
        yield value if isinstance(value, str) else json.dumps(value)


def _record(record: bytes) -> dict[str, Any]:
    return history_event(decode_event(unframe(record)))


def history_event(event: Event) -> dict[str, Any]:
    """An event with its fields under their public names: payloads and times as everywhere."""
    body = event.body
    view: dict[str, Any] = {
        "event_id": event.event_id,
        "type": type(body).__name__,
        "time": timestamp(event.time_ms),
    }
    for name, shown in _event_fields(cast(Hashable, type(body))):
        value = getattr(body, name)
        if isinstance(value, bytes):
            put_payload(view, shown, value)
        elif isinstance(value, RetryPolicy):
            view["retry_policy"] = _retry(value)
        elif isinstance(value, ParentClosePolicy):
            view[shown] = value.name
        elif isinstance(value, tuple):
            view[shown] = show_attributes(value)
        elif name == "memo":
            view[shown] = show_memo(value)
        elif name in _MOMENTS:
            view[shown] = timestamp(value)
        else:
            view[shown] = value
    return view


# Fields that are moments; every other `_ms` is a duration.
_MOMENTS = {"started_ms": "started_at", "fire_at_ms": "fire_at"}


@cache
def _event_fields(kind: Any) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, _MOMENTS.get(field.name, field.name)) for field in fields(kind))


def _retry(policy: RetryPolicy) -> dict[str, Any]:
    return {
        "max_attempts": policy.max_attempts,
        "initial_backoff_ms": policy.initial_backoff_ms,
        "max_backoff_ms": policy.max_backoff_ms,
        "backoff_coefficient": policy.backoff_coefficient_milli / 1_000,
        "non_retryable_error_types": list(policy.non_retryable_error_types),
        "jitter": policy.jitter_milli / 1_000,
    }


# ---- tasks --------------------------------------------------------------------------------------


def decision_task(task: DecisionTask) -> dict[str, Any]:
    view: dict[str, Any] = {
        "workflow_id": task.workflow_id,
        "run_id": task.run_id,
        "workflow_type": task.workflow_type,
        "task_token": task.token,
        "history_length": task.history_length,
        "started_at": timestamp(task.started_ms),
        "traceparent": task.traceparent,
        "tracestate": task.tracestate,
        "suggest_continue_as_new_at": task.suggest_continue_as_new_at,
        "cancel_requested_event_id": task.cancel_requested_event_id,
        "cancel_requested_at": (
            timestamp(task.cancel_requested_ms) if task.cancel_requested_event_id else ""
        ),
        "cancel_reason": task.cancel_reason,
        "steps": Rows(task.steps, _step_outcome),
        "signals": Rows(task.signals, _untaken),
    }
    put_payload(view, "input", task.input)
    return view


def activity_task(task: ActivityTask) -> dict[str, Any]:
    view: dict[str, Any] = {
        "workflow_id": task.workflow_id,
        "run_id": task.run_id,
        "workflow_type": task.workflow_type,
        "step_name": task.step_name,
        "sequence": task.sequence,
        "attempt": task.attempt,
        "lease_token": task.token,
        "lease_duration_ms": task.lease_duration_ms,
    }
    put_payload(view, "input", task.input)
    if task.start_to_close_timeout_ms:
        view["start_to_close_timeout_ms"] = task.start_to_close_timeout_ms
    if task.heartbeat_details:
        put_payload(view, "heartbeat_details", task.heartbeat_details)
    _texts(view, traceparent=task.traceparent, tracestate=task.tracestate)
    return view


def namespace(record: NamespaceRecord) -> dict[str, Any]:
    view: dict[str, Any] = {"name": record.name, "retention_ms": record.retention_ms}
    if record.max_open_runs:
        view["max_open_runs"] = record.max_open_runs
    if record.starts_per_second:
        view["starts_per_second"] = record.starts_per_second
    if record.created_ms:  # nobody created `default`
        view["created_at"] = timestamp(record.created_ms)
    return view


# ---- who calls ----------------------------------------------------------------------------------


def caller(who: Caller, expires_ms: int, *, on: bool) -> dict[str, Any]:
    view: dict[str, Any] = {
        "auth": "on" if on else "off",
        "actor": who.actor,
        "role": who.role.name.lower(),
        "namespaces": sorted(who.namespaces),
        "sees_payloads": who.sees_payloads,
        "session": bool(who.parent),
        "operations": who.operations(),
    }
    if expires_ms:
        view["expires_at"] = timestamp(expires_ms)
    return view


def token(record: TokenRecord, status: str) -> dict[str, Any]:
    """All but salt and digest."""
    view: dict[str, Any] = {
        "id": record.token_id,
        "name": record.name,
        "role": record.role.name.lower(),
        "namespaces": list(record.namespaces),
        "sees_payloads": record.sees_payloads,
        "created_at": timestamp(record.created_ms),
        "status": status,
    }
    if record.expires_ms:
        view["expires_at"] = timestamp(record.expires_ms)
    if record.revoked_ms:
        view["revoked_at"] = timestamp(record.revoked_ms)
    _texts(view, parent=record.parent)
    return view


def revoked(token_id: str, reached: Reached) -> dict[str, Any]:
    return {
        "id": token_id,
        "status": "revoked",
        "applied_by": list(reached.applied_by),
        "not_yet": list(reached.not_yet),
    }


def audit_entry(record: AuditRecord) -> dict[str, Any]:
    view: dict[str, Any] = {
        "id": audit_id(record.audit_no),
        "at": timestamp(record.time_ms),
        "actor": record.actor,
        "role": record.role.name.lower(),
        "node": record.node,
        "address": record.address,
        "call": record.call,
        "outcome": record.outcome,
    }
    _texts(
        view,
        token_id=record.token_id,
        namespace=record.namespace,
        target=record.target,
        run_id=record.run_id,
        detail=record.detail,
    )
    return view


def audit_id(audit_no: int) -> str:
    """Index and number: its place in the log."""
    return f"{audit_no >> PLACE_BITS}.{audit_no & ((1 << PLACE_BITS) - 1)}"


# ---- parts --------------------------------------------------------------------------------------


def _step_outcome(step: Step | OpenStep) -> dict[str, Any]:
    """What replay needs of a step."""
    view: dict[str, Any] = {
        "step_name": step.name,
        "sequence": step.sequence,
        "kind": step.kind.name,
        "status": step.status.name,
    }
    if step.kind is StepKind.ACTIVITY:
        view["attempts"] = step.attempts
    elif step.kind is StepKind.MARKER:
        view["marker"] = step.marker
    elif step.kind is StepKind.CHILD:
        view["workflow_type"] = step.workflow_type
        view["workflow_id"] = step.workflow_id
        view["run_id"] = step.run_id
    if step.resolved_event_id:
        if step.status is StepStatus.COMPLETED:
            put_payload(view, "output", step.output)
        else:
            view["error"] = step.error
            _texts(view, error_type=step.error_type)
            if step.non_retryable:
                view["non_retryable"] = True
        view["resolved_event_id"] = step.resolved_event_id
        view["resolved_at"] = timestamp(step.resolved_ms)
    return view


def _step(step: Step, past: Sequence[Attempt]) -> dict[str, Any]:
    """What a person wants to know of a step: the outcome, and how it came about."""
    view = _step_outcome(step)
    view["scheduled_at"] = timestamp(step.scheduled_ms)
    task = step.task
    if step.kind is StepKind.ACTIVITY:
        view["task_queue"] = step.task_queue
        view["priority"] = step.priority
        if step.input:
            put_payload(view, "input", step.input)
        if task.state is TaskState.BACKOFF:
            view["next_attempt_at"] = timestamp(task.backoff_until_ms)
        if task.leased_ms:
            view["started_at"] = timestamp(task.leased_ms)
        _texts(view, worker_id=task.worker_id, node=task.node, last_error=step.last_error)
        if past:
            view["past_attempts"] = [_attempt(each) for each in past]
    elif step.kind is StepKind.TIMER:
        view["fire_at"] = timestamp(step.fire_at_ms)
    elif step.kind is StepKind.SIGNAL:
        view["signal_name"] = step.signal_name
    elif step.kind is StepKind.CHILD:
        view["parent_close_policy"] = step.parent_close_policy.name
    return view


def _attempt(attempt: Attempt) -> dict[str, Any]:
    view: dict[str, Any] = {
        "attempt": attempt.number,
        "started_at": timestamp(attempt.started_ms),
        "ended_at": timestamp(attempt.ended_ms),
    }
    _texts(view, worker_id=attempt.worker_id, node=attempt.node, error=attempt.error)
    return view


def _untaken(signal: Signal) -> dict[str, Any]:
    view: dict[str, Any] = {"name": signal.name}
    put_payload(view, "payload", signal.payload)
    return view


def _signal(signal: Signal) -> dict[str, Any]:
    view = _untaken(signal)
    if signal.event_id:  # none yet: it waits for the decision that is out
        view["event_id"] = signal.event_id
    view["received_at"] = timestamp(signal.time_ms)
    if signal.taken_by:
        view["taken_by"] = signal.taken_by
    return view


def _waiting(run: Run, wait: WaitView) -> dict[str, Any]:
    view: dict[str, Any] = {
        "kind": wait.kind,
        "step_name": wait.step_name,
        "sequence": wait.sequence,
        "detail": wait_detail(wait),
        "since": timestamp(wait_since_ms(run, wait)),
    }
    if wait.due_ms:
        view["until"] = timestamp(wait.due_ms)
    return view


def wait_since_ms(run: Run, wait: WaitView) -> int:
    step = run.steps[wait.sequence - 1] if wait.sequence else None
    task = run.decision if step is None else step.task
    if wait.task is TaskState.LEASED:
        return task.leased_ms
    return run.updated_ms if step is None else step.scheduled_ms


def wait_detail(wait: WaitView) -> str:
    """One clause for people: what has to happen."""
    if wait.arrived:
        return "its result is here: the next decision will see it"
    detail = _wait_detail(wait)
    if wait.held:
        detail += f"; of what arrived since, {wait.held} wait for it to end"
    return f"{detail}; the last one was refused: {wait.refused}" if wait.refused else detail


def _wait_detail(wait: WaitView) -> str:
    what = f"attempt {wait.attempt}" if wait.kind == "ACTIVITY" else "decision"
    match wait.task:
        case TaskState.QUEUED:
            return f"{what} queued on {wait.task_queue}: no worker has taken it yet"
        case TaskState.LEASED:
            return f"{what} out with worker {wait.worker_id or '(unnamed)'}"
        case TaskState.BACKOFF:
            return f"{what} offered again after a pause"
    if wait.kind == StepKind.CHILD.name:
        return "the child workflow to end"
    return f"signal {wait.signal_name}" if wait.signal_name else "the timer to fire"


def _texts(view: dict[str, Any], **texts: str) -> None:
    """Set what is not empty."""
    view.update({name: text for name, text in texts.items() if text})
