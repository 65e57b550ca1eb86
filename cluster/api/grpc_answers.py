"""What gRPC callers are shown: engine state as messages, field by field what JSON shows."""

from __future__ import annotations

from collections.abc import Iterable

from raftflow.cluster.api.grpc_fields import shown_attributes
from raftflow.cluster.api.handlers.access import MintedToken
from raftflow.cluster.api.handlers.runs import DescribedRun
from raftflow.cluster.api.views import audit_id, wait_detail, wait_since_ms
from raftflow.cluster.store.views import AuditPage, RunPage, RunSummary
from raftflow.engine.describe import ActivityTask, DecisionTask, OpenStep, waiting_on
from raftflow.engine.state import NamespaceRecord, Run, Signal, Step, TokenRecord
from raftflow.proto.workflow.v1 import service_pb2 as pb


def activity_task(task: ActivityTask, more: Iterable[ActivityTask] = ()) -> pb.Task:
    return pb.Task(
        workflow_id=task.workflow_id,
        run_id=task.run_id,
        step_name=task.step_name,
        sequence=task.sequence,
        input=task.input,
        lease_token=task.token,
        lease_duration_ms=task.lease_duration_ms,
        attempt=task.attempt,
        start_to_close_timeout_ms=task.start_to_close_timeout_ms,
        heartbeat_details=task.heartbeat_details,
        traceparent=task.traceparent,
        tracestate=task.tracestate,
        workflow_type=task.workflow_type,
        more=[activity_task(other) for other in more],
    )


def decision_task(task: DecisionTask, more: Iterable[DecisionTask] = ()) -> pb.WorkflowTask:
    return pb.WorkflowTask(
        workflow_id=task.workflow_id,
        run_id=task.run_id,
        workflow_type=task.workflow_type,
        task_token=task.token,
        history_length=task.history_length,
        input=task.input,
        started_ms=task.started_ms,
        traceparent=task.traceparent,
        tracestate=task.tracestate,
        suggest_continue_as_new_at=task.suggest_continue_as_new_at,
        steps=[_step(step) for step in task.steps],
        signals=[_signal(signal) for signal in task.signals],
        cancel_requested_event_id=task.cancel_requested_event_id,
        cancel_requested_ms=task.cancel_requested_ms,
        cancel_reason=task.cancel_reason,
        more=[decision_task(other) for other in more],
    )


def described(found: DescribedRun) -> pb.DescribeWorkflowResponse:
    run = found.run
    return pb.DescribeWorkflowResponse(
        run=_run(run),
        input=run.input,
        output=run.output,
        error=run.error or run.suspended_reason,
        error_type=run.error_type,
        steps=[_step(step) for step in run.steps],
        signals=[_signal(signal) for signal in found.signals],
        waiting_on=[
            pb.Waiting(
                kind=wait.kind,
                step_name=wait.step_name,
                sequence=wait.sequence,
                detail=wait_detail(wait),
                since_ms=wait_since_ms(run, wait),
                until_ms=wait.due_ms,
            )
            for wait in waiting_on(run)
        ],
        execution_timeout_ms=run.execution_timeout_ms,
        traceparent=run.traceparent,
        tracestate=run.tracestate,
        continued_from_run_id=run.continued_from_run_id,
        continued_to_run_id=run.continued_to_run_id,
        parent=_parent(run),
        cancel_requested_ms=run.cancel_requested_ms,
        cancel_reason=run.cancel_reason,
    )


def _parent(run: Run) -> pb.Parent | None:
    if not run.parent_workflow_id:
        return None
    return pb.Parent(
        workflow_id=run.parent_workflow_id, run_id=run.parent_run_id, sequence=run.parent_sequence
    )


def namespaces(records: Iterable[NamespaceRecord]) -> pb.ListNamespacesResponse:
    return pb.ListNamespacesResponse(
        namespaces=[
            pb.Namespace(
                name=record.name,
                retention_ms=record.retention_ms,
                created_ms=record.created_ms,
                max_open_runs=record.max_open_runs,
                starts_per_second=record.starts_per_second,
            )
            for record in records
        ]
    )


def hidden(response: pb.DescribeWorkflowResponse) -> pb.DescribeWorkflowResponse:
    """The same, for who does not see payloads."""
    for name in ("input", "output"):
        response.ClearField(name)
    for step in response.steps:
        step.ClearField("output")
    for signal in response.signals:
        signal.ClearField("payload")
    response.payload_hidden = True
    return response


def token(record: TokenRecord, status: str) -> pb.Token:
    return pb.Token(
        id=record.token_id,
        name=record.name,
        role=f"ROLE_{record.role.name}",
        namespaces=record.namespaces,
        sees_payloads=record.sees_payloads,
        created_ms=record.created_ms,
        expires_ms=record.expires_ms,
        revoked_ms=record.revoked_ms,
        parent=record.parent,
        status=status,
    )


def minted(made: MintedToken) -> pb.MintTokenResponse:
    return pb.MintTokenResponse(
        text=made.text, token=token(made.record, "good"), not_yet=made.reached.not_yet
    )


def audit_page(page: AuditPage) -> pb.ListAuditResponse:
    return pb.ListAuditResponse(
        entries=[
            pb.AuditEntry(
                id=audit_id(record.audit_no),
                time_ms=record.time_ms,
                actor=record.actor,
                role=f"ROLE_{record.role.name}",
                node=record.node,
                address=record.address,
                token_id=record.token_id,
                call=record.call,
                namespace_name=record.namespace,
                target=record.target,
                run_id=record.run_id,
                detail=record.detail,
                outcome=record.outcome,
            )
            for record in page.records
        ],
        next_cursor=str(page.cursor or ""),
    )


def run_page(page: RunPage, applied_index: int) -> pb.ListWorkflowsResponse:
    return pb.ListWorkflowsResponse(
        total=page.total,
        total_exact=page.total_exact,
        workflows=[_run(run) for run in page.runs],
        next_cursor=page.next_cursor,
        applied_index=applied_index,
    )


def _run(run: Run | RunSummary) -> pb.RunSummary:
    return pb.RunSummary(
        workflow_id=run.key.workflow_id,
        run_id=run.key.run_id,
        workflow_type=run.workflow_type,
        status=run.status.name,
        started_ms=run.started_ms,
        updated_ms=run.updated_ms,
        closed_ms=run.closed_ms,
        history_length=run.history_length,
        task_queue=run.task_queue,
        search_attributes=shown_attributes(run.search_attributes),
        memo=run.memo,
    )


def _step(step: Step | OpenStep) -> pb.Step:
    return pb.Step(
        step_name=step.name,
        sequence=step.sequence,
        kind=step.kind.name,
        status=step.status.name,
        attempts=step.attempts,
        output=step.output,
        error=step.error,
        error_type=step.error_type,
        non_retryable=step.non_retryable,
        resolved_event_id=step.resolved_event_id,
        resolved_ms=step.resolved_ms,
        marker=step.marker,
        workflow_type=step.workflow_type,
        workflow_id=step.workflow_id,
        run_id=step.run_id,
    )


def _signal(signal: Signal) -> pb.Signal:
    return pb.Signal(
        name=signal.name,
        payload=signal.payload,
        event_id=signal.event_id,
        received_ms=signal.time_ms,
        taken_by=signal.taken_by,
    )
