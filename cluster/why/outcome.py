"""What became of a step, and why an attempt at it failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raftflow.cluster.refused_calls import RefusedCall
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.model import Link, Moment, Severity
from raftflow.cluster.why.refused import link_of_refused
from raftflow.cluster.why.steps import described, of_step
from raftflow.cluster.why.words import at, command, count, quoted, shortened
from raftflow.engine.decide.lease import LEASE_EXPIRED_TYPE
from raftflow.engine.state import Run, Step, StepStatus

# Other types of the failures that the engine makes.
_TIMEOUTS = frozenset({"StartToCloseTimeout", "ScheduleToCloseTimeout", "ScheduleToStartTimeout"})


def link_of_result(step: Step, now_ms: int) -> Link:
    """Of a step that is done, or was cancelled."""
    word = "completed" if step.status is StepStatus.COMPLETED else "was cancelled"
    return Link(
        cause=Cause.STEP_DONE,
        severity=Severity.OK,
        says=f"{described(step)} {word} {at(step.resolved_ms, now_ms)}.",
        evidence={
            **of_step(step),
            "status": step.status.name,
            "resolved_at": Moment(step.resolved_ms),
        },
    )


def links_of_failure(
    run: Run,
    step: Step,
    now_ms: int,
    *,
    failed_at: Mapping[str, str],
    refused: Sequence[RefusedCall],
) -> tuple[Link, ...]:
    """Of a step that failed for good. ``failed_at``: on which worker and node its last attempt."""
    tried = f" after {count(step.attempts, 'attempt')}" if step.attempts else ""
    on = f" on {quoted(failed_at['worker'])}" if failed_at.get("worker") else ""
    why = links_of_engine(run, step, step.error_type, now_ms, refused)
    failed = Link(
        cause=Cause.STEP_FAILED,
        severity=Severity.PROBLEM,
        says=f"{described(step)} failed{tried}{on}, {at(step.resolved_ms, now_ms)}:"
        f" {shortened(step.error)}.",
        evidence={
            **of_step(step),
            "error": step.error,
            "error_type": step.error_type,
            "non_retryable": step.non_retryable,
            "resolved_at": Moment(step.resolved_ms),
            **failed_at,
        },
        next="" if why else _repair(run),
    )
    return (failed, *why)


def again(run: Run, *options: str) -> str:
    """The command that starts a run of that id anew. What its input was is for whoever may see
    payloads."""
    reuse = ("--id-reuse-policy", "ALLOW_DUPLICATE_FAILED_ONLY")
    key = run.key
    return command(
        "workflow start",
        run.workflow_type,
        options=("--id", key.workflow_id, "--input", "TEXT", *reuse, *options),
        namespace=key.namespace,
    )


def _repair(run: Run) -> str:
    if run.open:
        return "repair what the error names; the workflow code decides how the run goes on"
    return f"repair what the error names, then start it again, with its input: {again(run)}"


def links_of_engine(
    run: Run, step: Step, error_type: str, now_ms: int, refused: Sequence[RefusedCall]
) -> tuple[Link, ...]:
    """Why an attempt ended that no worker ended."""
    if error_type != LEASE_EXPIRED_TYPE and error_type not in _TIMEOUTS:
        return ()
    call = refused_result(run, step, refused)
    if call is not None:
        return (link_of_refused(call, now_ms),)
    return (_expired(step) if error_type == LEASE_EXPIRED_TYPE else _timed_out(step, error_type),)


def refused_result(
    run: Run, step: Step | None, refused: Sequence[RefusedCall]
) -> RefusedCall | None:
    """A result of this very task that the cluster did not take; ``step`` None: the workflow
    task."""
    for each in refused:
        if each.target != run.key.workflow_id:
            continue
        if step is None and each.operation == "CompleteWorkflowTask":
            return each
        if (
            step is not None
            and each.operation == "CompleteTask"
            and each.step in (step.name, str(step.sequence))
            and each.last_ms >= step.scheduled_ms
        ):
            return each
    return None


def _expired(step: Step) -> Link:
    return Link(
        cause=Cause.LEASE_EXPIRED,
        severity=Severity.PROBLEM,
        says="Its worker sent neither a result nor a heartbeat until the lease ran out: it was"
        " frozen, cut off or killed, or its code sends no heartbeats.",
        evidence={**of_step(step), "error_type": LEASE_EXPIRED_TYPE},
        next="look at that worker, and see that it sends heartbeats while it works (our SDKs do)",
    )


def _timed_out(step: Step, error_type: str) -> Link:
    return Link(
        cause=Cause.STEP_TIMED_OUT,
        severity=Severity.PROBLEM,
        says=f"It took longer than its {error_type} allows.",
        evidence={
            **of_step(step),
            "error_type": error_type,
            "start_to_close_timeout_ms": step.start_to_close_timeout_ms,
            "schedule_to_close_timeout_ms": step.schedule_to_close_timeout_ms,
            "schedule_to_start_timeout_ms": step.schedule_to_start_timeout_ms,
        },
        next="make it faster, start more workers, or give it more time in the workflow code",
    )
