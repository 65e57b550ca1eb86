"""Commands of the workflow's code that end its run."""

from __future__ import annotations

from raftflow.engine.commands import CompleteWorkflow, ContinueAsNew, FailWorkflow
from raftflow.engine.decide.context import text_too_large, too_large, unregistered
from raftflow.engine.decide.plan import Plan, Planned, duration_problem, invalid, over_limit
from raftflow.engine.events import (
    WorkflowCancelled,
    WorkflowCompleted,
    WorkflowContinuedAsNew,
    WorkflowFailed,
)
from raftflow.engine.ids import id_problem


def continue_as_new(plan: Plan, command: ContinueAsNew) -> Planned:
    ctx, run, run_id = plan.ctx, plan.run, plan.new_run_id
    if problem := too_large("input", len(command.input), ctx.limits.max_payload_bytes):
        return over_limit(problem)
    timeout_ms = command.execution_timeout_ms
    if timeout_ms == -1:
        timeout_ms = run.execution_timeout_ms
    workflow_type = command.workflow_type or run.workflow_type
    task_queue = command.task_queue or run.task_queue
    problem = (
        id_problem("new_run_id", run_id)
        or id_problem("task_queue", task_queue)
        or duration_problem("execution_timeout_ms", timeout_ms)
    )
    if problem:
        return invalid(problem)
    if rejection := unregistered(ctx, run.key.namespace, workflow_type):
        return rejection
    if ctx.used(run.key._replace(run_id=run_id)):
        return invalid(f"run id {run_id!r} was used before")
    continued = WorkflowContinuedAsNew(
        new_run_id=run_id,
        workflow_type=workflow_type,
        task_queue=task_queue,
        input=command.input,
        execution_timeout_ms=timeout_ms,
    )
    return (continued,)


def complete(plan: Plan, command: CompleteWorkflow) -> Planned:
    limit = plan.ctx.limits.max_payload_bytes
    if problem := too_large("output", len(command.output), limit):
        return over_limit(problem)
    return (WorkflowCompleted(output=command.output),)


def fail(plan: Plan, command: FailWorkflow) -> Planned:
    limit = plan.ctx.limits.max_payload_bytes
    problem = text_too_large("error", command.error, limit) or text_too_large(
        "error_type", command.error_type, limit
    )
    if problem:
        return over_limit(problem)
    if command.cancelled:
        return (WorkflowCancelled(reason=command.error),)
    return (WorkflowFailed(error=command.error, error_type=command.error_type),)
