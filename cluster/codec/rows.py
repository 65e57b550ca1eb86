"""Rows of the store, and the pieces of aggregates that they hold.

Every changed row is encoded on the event loop, many thousands a second: hence plain assignments,
each skipped for a field at its default. What history holds for ever (a run's input, the input of
an open activity) is not repeated in a row that changes often; `has_input` says to fetch it there.
"""

from __future__ import annotations

from typing import Any, TypeVar

from raftflow.cluster.codec.shapes import Shape, UnknownValue, enum, pairs, texts
from raftflow.cluster.codec.values import ANSWERS, RETRY
from raftflow.engine.commands import ForgetAudit, ParentClosePolicy, Role
from raftflow.engine.ids import RunKey
from raftflow.engine.limits import USUAL_PRIORITY
from raftflow.engine.retry import NO_RETRY
from raftflow.engine.state import (
    AuditRecord,
    NamespaceRecord,
    RequestRecord,
    Run,
    RunStatus,
    Signal,
    Step,
    StepKind,
    StepStatus,
    Task,
    TaskState,
    TimerRow,
    TokenRecord,
)
from raftflow.proto.raftflow.internal.v1 import state_pb2 as pb

T = TypeVar("T")

_RUN_STATUS = {int(item): item for item in RunStatus}
_STEP_KIND = {int(item): item for item in StepKind}
_STEP_STATUS = {int(item): item for item in StepStatus}
_TASK_STATE = {int(item): item for item in TaskState}
_PARENT_CLOSE = {int(item): item for item in ParentClosePolicy}
_ATTRIBUTES = pairs("search_attributes")


def encode_run(run: Run, run_no: int) -> bytes:
    row = pb.RunRow()
    key = run.key
    row.run_no = run_no
    row.namespace = key.namespace
    row.workflow_id = key.workflow_id
    row.run_id = key.run_id
    row.workflow_type = run.workflow_type
    row.task_queue = run.task_queue
    row.status = run.status
    row.started_ms = run.started_ms
    row.updated_ms = run.updated_ms
    row.history_length = run.history_length
    row.history_bytes = run.history_bytes
    if run.open_steps:
        row.open_steps = run.open_steps
    if run.leased_tasks:
        row.leased_tasks = run.leased_tasks
    if run.closed_ms:
        row.closed_ms = run.closed_ms
    if run.output:
        row.output = run.output
    if run.error or run.error_type:
        row.error = run.error
        row.error_type = run.error_type
    if run.execution_timeout_ms:
        row.execution_timeout_ms = run.execution_timeout_ms
    if run.decision_failures or run.stale_decisions:
        row.decision_failures = run.decision_failures
        row.stale_decisions = run.stale_decisions
    if run.decision_refusal:
        row.decision_refusal = run.decision_refusal
    if run.suspended_reason:
        row.suspended_reason = run.suspended_reason
    if run.traceparent or run.tracestate:
        row.traceparent = run.traceparent
        row.tracestate = run.tracestate
    if run.input:
        row.has_input = True
    if run.cancel_requested_ms or run.cancel_requested_event_id or run.cancel_reason:
        row.cancel_requested_event_id = run.cancel_requested_event_id
        row.cancel_requested_ms = run.cancel_requested_ms
        row.cancel_reason = run.cancel_reason
    if run.search_attributes:
        _ATTRIBUTES.put(row, run.search_attributes)
    if run.memo:
        row.memo = run.memo
    if run.messages_sent:
        row.messages_sent = run.messages_sent
    _put_kin(row, run)
    _put_task(row.decision, run.decision)
    return row.SerializeToString()


def _put_kin(row: Any, run: Run) -> None:
    """The runs that it has to do with."""
    if run.continued_from_run_id:
        row.continued_from_run_id = run.continued_from_run_id
    if run.continued_to_run_id:
        row.continued_to_run_id = run.continued_to_run_id
    if run.parent_workflow_id or run.parent_run_id or run.parent_sequence:
        row.parent_workflow_id = run.parent_workflow_id
        row.parent_run_id = run.parent_run_id
        row.parent_sequence = run.parent_sequence


def decode_run(data: bytes) -> tuple[int, Run, bool]:
    """The run number, the header (without its other rows and input), and whether it has input."""
    row = pb.RunRow.FromString(data)
    run = Run(
        key=RunKey(row.namespace, row.workflow_id, row.run_id),
        workflow_type=row.workflow_type,
        task_queue=row.task_queue,
        status=_known(_RUN_STATUS, row.status, "run status"),
        started_ms=row.started_ms,
        updated_ms=row.updated_ms,
        closed_ms=row.closed_ms,
        output=row.output,
        error=row.error,
        error_type=row.error_type,
        execution_timeout_ms=row.execution_timeout_ms,
        history_length=row.history_length,
        history_bytes=row.history_bytes,
        open_steps=row.open_steps,
        leased_tasks=row.leased_tasks,
        decision=_take_task(row.decision),
        decision_failures=row.decision_failures,
        decision_refusal=row.decision_refusal,
        stale_decisions=row.stale_decisions,
        suspended_reason=row.suspended_reason,
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        cancel_requested_event_id=row.cancel_requested_event_id,
        cancel_requested_ms=row.cancel_requested_ms,
        cancel_reason=row.cancel_reason,
        search_attributes=_ATTRIBUTES.take(row),
        memo=row.memo,
        continued_from_run_id=row.continued_from_run_id,
        continued_to_run_id=row.continued_to_run_id,
        parent_workflow_id=row.parent_workflow_id,
        parent_run_id=row.parent_run_id,
        parent_sequence=row.parent_sequence,
        messages_sent=row.messages_sent,
    )
    return row.run_no, run, row.has_input


def encode_step(step: Step, run_no: int) -> bytes:
    row = pb.StepRow()
    row.run_no = run_no
    row.sequence = step.sequence
    row.kind = step.kind
    row.name = step.name
    row.status = step.status
    row.scheduled_event_id = step.scheduled_event_id
    row.scheduled_ms = step.scheduled_ms
    if step.resolved_event_id:  # none, and yet a time: it closed with its run
        row.resolved_event_id = step.resolved_event_id
    if step.resolved_ms:
        row.resolved_ms = step.resolved_ms
    if step.output:
        row.output = step.output
    if step.error or step.error_type:
        row.error = step.error
        row.error_type = step.error_type
    if step.non_retryable:
        row.non_retryable = True
    if step.last_error:
        row.last_error = step.last_error
    if step.heartbeat_details:
        row.heartbeat_details = step.heartbeat_details
    if step.input:
        row.has_input = True
    if step.fire_at_ms:
        row.fire_at_ms = step.fire_at_ms
    if step.signal_name:
        row.signal_name = step.signal_name
    if step.marker:
        row.marker = step.marker
    if step.arrived:
        row.arrived = True
    if step.task_queue:  # an activity's is never empty
        _put_activity(row, step)
    if step.workflow_id:  # nor a child's id
        _put_child(row, step)
    return row.SerializeToString()


def _put_activity(row: Any, step: Step) -> None:
    row.task_queue = step.task_queue
    row.attempts = step.attempts
    if step.retry is not NO_RETRY and step.retry != NO_RETRY:
        RETRY.put(row.retry, step.retry)
    if step.start_to_close_timeout_ms:
        row.start_to_close_timeout_ms = step.start_to_close_timeout_ms
    if step.schedule_to_close_timeout_ms:
        row.schedule_to_close_timeout_ms = step.schedule_to_close_timeout_ms
    if step.schedule_to_start_timeout_ms:
        row.schedule_to_start_timeout_ms = step.schedule_to_start_timeout_ms
    if step.priority != USUAL_PRIORITY:
        row.priority = step.priority
    _put_task(row.task, step.task)


def _put_child(row: Any, step: Step) -> None:
    row.workflow_type = step.workflow_type
    row.workflow_id = step.workflow_id
    if step.run_id:
        row.run_id = step.run_id
    if step.parent_close_policy:
        row.parent_close_policy = step.parent_close_policy


def decode_step(data: bytes) -> tuple[Step, bool]:
    """The step (without input), and whether it has input."""
    row = pb.StepRow.FromString(data)
    step = Step(
        sequence=row.sequence,
        kind=_known(_STEP_KIND, row.kind, "step kind"),
        name=row.name,
        status=_known(_STEP_STATUS, row.status, "step status"),
        scheduled_event_id=row.scheduled_event_id,
        scheduled_ms=row.scheduled_ms,
        output=row.output,
        error=row.error,
        error_type=row.error_type,
        non_retryable=row.non_retryable,
        resolved_event_id=row.resolved_event_id,
        resolved_ms=row.resolved_ms,
        retry=RETRY.take(row.retry) if row.HasField("retry") else NO_RETRY,
        task_queue=row.task_queue,
        start_to_close_timeout_ms=row.start_to_close_timeout_ms,
        schedule_to_close_timeout_ms=row.schedule_to_close_timeout_ms,
        schedule_to_start_timeout_ms=row.schedule_to_start_timeout_ms,
        attempts=row.attempts,
        last_error=row.last_error,
        heartbeat_details=row.heartbeat_details,
        task=_take_task(row.task),
        fire_at_ms=row.fire_at_ms,
        signal_name=row.signal_name,
        priority=row.priority or USUAL_PRIORITY,
        marker=row.marker,
        workflow_type=row.workflow_type,
        workflow_id=row.workflow_id,
        run_id=row.run_id,
        parent_close_policy=_known(_PARENT_CLOSE, row.parent_close_policy, "parent close policy"),
        arrived=row.arrived,
    )
    return step, row.has_input


def _put_task(row: Any, task: Task) -> None:
    if task.state:
        row.state = task.state
    if task.attempt:
        row.attempt = task.attempt
    if task.token:
        row.token = task.token
    if task.worker_id:
        row.worker_id = task.worker_id
    if task.node:
        row.node = task.node
    if task.leased_ms:
        row.leased_ms = task.leased_ms
    if task.duration_ms:
        row.duration_ms = task.duration_ms
    if task.backoff_until_ms:
        row.backoff_until_ms = task.backoff_until_ms
    if task.last_token:
        row.last_token = task.last_token
        row.last_outcome = task.last_outcome


def _take_task(row: Any) -> Task:
    return Task(
        state=_known(_TASK_STATE, row.state, "task state"),
        attempt=row.attempt,
        token=row.token,
        worker_id=row.worker_id,
        node=row.node,
        leased_ms=row.leased_ms,
        duration_ms=row.duration_ms,
        backoff_until_ms=row.backoff_until_ms,
        last_token=row.last_token,
        last_outcome=row.last_outcome,
    )


def encode_signal(signal: Signal, run_no: int) -> bytes:
    row = pb.SignalRow()
    row.run_no = run_no
    row.event_id = signal.event_id
    row.time_ms = signal.time_ms
    row.name = signal.name
    row.payload = signal.payload
    row.taken_by = signal.taken_by
    return row.SerializeToString()


def decode_signal(data: bytes) -> Signal:
    row = pb.SignalRow.FromString(data)
    return Signal(row.event_id, row.time_ms, row.name, row.payload, row.taken_by)


def encode_timer(timer: TimerRow | None, run_no: int, kind: int, sequence: int) -> bytes:
    """None = disarmed."""
    row = pb.TimerRow()
    row.run_no = run_no
    row.kind = kind
    row.sequence = sequence
    if timer is None:
        row.disarmed = True
    else:
        row.fire_at_ms = timer.fire_at_ms
    return row.SerializeToString()


def encode_namespace(record: NamespaceRecord) -> bytes:
    row = pb.NamespaceRow()
    row.name = record.name
    row.retention_ms = record.retention_ms
    row.created_ms = record.created_ms
    row.max_open_runs = record.max_open_runs
    row.starts_per_second = record.starts_per_second
    row.starts_paid_us = record.starts_paid_us
    return row.SerializeToString()


def decode_namespace(data: bytes) -> NamespaceRecord:
    row = pb.NamespaceRow.FromString(data)
    return NamespaceRecord(
        row.name,
        row.retention_ms,
        row.created_ms,
        row.max_open_runs,
        row.starts_per_second,
        row.starts_paid_us,
    )


_TOKEN: Shape[TokenRecord] = Shape(
    TokenRecord, pb.TokenRow, role=enum("role", Role), namespaces=texts("namespaces")
)
_AUDIT: Shape[AuditRecord] = Shape(AuditRecord, pb.AuditRow, role=enum("role", Role))


def encode_token(record: TokenRecord | None, token_id: str) -> bytes:
    """None = forgotten."""
    row = pb.TokenRow()
    if record is None:
        row.token_id = token_id
        row.forgotten = True
    else:
        _TOKEN.put(row, record)
    return row.SerializeToString()


def decode_token(data: bytes) -> TokenRecord:
    return _TOKEN.take(pb.TokenRow.FromString(data))


def encode_audit(record: AuditRecord) -> bytes:
    row = pb.AuditRow()
    _AUDIT.put(row, record)
    return row.SerializeToString()


def decode_audit(data: bytes) -> AuditRecord:
    return _AUDIT.take(pb.AuditRow.FromString(data))


def encode_audit_forgotten(wish: ForgetAudit) -> bytes:
    row = pb.AuditRow()
    row.audit_no = wish.through
    row.time_ms = wish.before_ms
    row.forgotten = True
    return row.SerializeToString()


def encode_type(namespace: str, workflow_type: str) -> bytes:
    row = pb.TypeRow()
    row.namespace = namespace
    row.workflow_type = workflow_type
    return row.SerializeToString()


def encode_request(record: RequestRecord) -> bytes:
    row = pb.RequestRow()
    row.namespace = record.namespace
    row.request_id = record.request_id
    row.payload_digest = record.payload_digest
    ANSWERS.put(row.answer, record.answer)
    row.expires_ms = record.expires_ms
    return row.SerializeToString()


def decode_request(data: bytes) -> RequestRecord:
    row = pb.RequestRow.FromString(data)
    return RequestRecord(
        row.namespace,
        row.request_id,
        row.payload_digest,
        ANSWERS.take(row.answer),
        row.expires_ms,
    )


def _known(table: dict[int, T], number: int, noun: str) -> T:
    try:
        return table[number]
    except KeyError:
        raise UnknownValue(f"{noun} {number} is unknown") from None
