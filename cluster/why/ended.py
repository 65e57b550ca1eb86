"""How a run ended, and why if it failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.facts import RunFacts
from raftflow.cluster.why.model import Fact, Link, Moment, Severity
from raftflow.cluster.why.outcome import again, links_of_failure
from raftflow.cluster.why.steps import of_run
from raftflow.cluster.why.words import at, command, quoted, shortened, span
from raftflow.engine.decide.decision import REPLAY_ERROR_TYPE
from raftflow.engine.state import Run, RunStatus, Step, StepKind, StepStatus

_CAUSES = {
    RunStatus.COMPLETED: (Cause.COMPLETED, "completed"),
    RunStatus.FAILED: (Cause.FAILED, "failed"),
    RunStatus.TERMINATED: (Cause.TERMINATED, "was terminated"),
    RunStatus.CANCELLED: (Cause.CANCELLED, "was cancelled"),
    RunStatus.TIMED_OUT: (Cause.TIMED_OUT, "timed out"),
    RunStatus.CONTINUED_AS_NEW: (Cause.CONTINUED, "continued as new"),
}


def links_of_end(
    facts: RunFacts, run: Run, links_of_run: Callable[[RunFacts], tuple[Link, ...]]
) -> tuple[Link, ...]:
    """``links_of_run`` goes on with the child that failed."""
    end = _end(facts, run)
    if run.status is not RunStatus.FAILED:
        return (end,)
    if run.error_type == REPLAY_ERROR_TYPE:
        return (end, _replay_error(run))
    step = facts.step
    if step is None:
        return (end,)
    failed = links_of_failure(
        run, step, facts.now_ms, failed_at=facts.failed_at, refused=facts.refused
    )
    if facts.child is not None and facts.child.run is not None:
        return (end, failed[0], *links_in_child(links_of_run(facts.child)))
    return (end, *failed)


def links_in_child(links: tuple[Link, ...]) -> tuple[Link, ...]:
    """Of a child that has failed its parent: what there is to do is done at the parent."""
    return tuple(replace(link, next="") for link in links)


def failing_step(run: Run) -> Step | None:
    """The step whose failure the run's error tells: the last one, where the error says the same.
    Workflow code may have failed for another reason."""
    failed = [
        step
        for step in run.steps
        if step.status is StepStatus.FAILED and step.kind in (StepKind.ACTIVITY, StepKind.CHILD)
    ]
    for step in sorted(failed, key=lambda step: -step.resolved_event_id):
        if (step.error and step.error in run.error) or step.error_type == run.error_type != "":
            return step
    return None


def _end(facts: RunFacts, run: Run) -> Link:
    cause, word = _CAUSES[run.status]
    failed = run.status in (RunStatus.FAILED, RunStatus.TIMED_OUT)
    error = f": {shortened(run.error)}" if run.error else ""
    if run.status is RunStatus.CONTINUED_AS_NEW:
        error = f": it goes on as run {quoted(run.continued_to_run_id)}"
    evidence: dict[str, Fact] = {
        **of_run(run),
        "started_at": Moment(run.started_ms),
        "closed_at": Moment(run.closed_ms),
    }
    if run.error:
        evidence |= {"error": run.error, "error_type": run.error_type}
    if run.continued_to_run_id:
        evidence["continued_to_run_id"] = run.continued_to_run_id
    return Link(
        cause=cause,
        severity=Severity.PROBLEM if failed else Severity.OK,
        says=f"{run.workflow_type} {quoted(run.key.workflow_id)} {word}"
        f" {at(run.closed_ms, facts.now_ms)}, {span(run.closed_ms - run.started_ms)} after its"
        f" start{error}.",
        evidence=evidence,
        next=_next(run),
    )


def _next(run: Run) -> str:
    key = run.key
    if run.status is RunStatus.CONTINUED_AS_NEW:
        why = command("why run", key.workflow_id, namespace=key.namespace)
        return f"look at the newest run: {why}"
    if run.parent_workflow_id and run.status in (RunStatus.TIMED_OUT, RunStatus.FAILED):
        parent = command("why run", run.parent_workflow_id, namespace=key.namespace)
        return f"repair what the error names; its parent decides how it goes on: {parent}"
    if run.status is RunStatus.TIMED_OUT:
        return f"start it again with more time: {again(run, '--execution-timeout', '1h')}"
    if run.status is RunStatus.FAILED:
        return f"repair what the error names, then start it again, with its input: {again(run)}"
    return ""


def _replay_error(run: Run) -> Link:
    return Link(
        cause=Cause.REPLAY_ERROR,
        severity=Severity.PROBLEM,
        says=f"Its worker could not replay the workflow code: {shortened(run.error)}.",
        evidence={"error": run.error, "error_type": run.error_type},
        next=f"repair the workflow code, then start it again, with its input: {again(run)}",
    )
