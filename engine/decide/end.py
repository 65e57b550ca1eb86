"""Commands of the workflow's code that end its run."""

from __future__ import annotations

from raftflow.engine.commands import CompleteWorkflow, FailWorkflow
from raftflow.engine.decide.context import text_too_large, too_large
from raftflow.engine.decide.plan import Plan, Planned, over_limit
from raftflow.engine.events import WorkflowCancelled, WorkflowCompleted, WorkflowFailed


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
