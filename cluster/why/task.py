"""Why one step of a run, or its workflow task, is not done."""

from __future__ import annotations

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.ended import links_in_child
from raftflow.cluster.why.facts import RunFacts
from raftflow.cluster.why.leaderless import links_without_leader
from raftflow.cluster.why.model import Link, Severity
from raftflow.cluster.why.outcome import link_of_result, links_of_failure
from raftflow.cluster.why.run import links_of_run, links_of_wait_for
from raftflow.cluster.why.steps import described, of_step
from raftflow.cluster.why.words import command, names, quoted
from raftflow.engine.state import Run, RunStatus, Step, StepStatus, TaskState

# What stands for the run's own task where a step is asked for.
WORKFLOW_TASK = ("0", "workflow-task")
_SHOWN = 20


def links_of_step(facts: RunFacts, asked: str) -> tuple[Link, ...]:
    """``facts.step`` is the step that was ``asked`` for, None where there is none such."""
    run, step = facts.run, facts.step
    if run is None:
        return links_of_run(facts)
    if step is None:
        if asked in WORKFLOW_TASK and run.status in (RunStatus.PAUSED, RunStatus.UNKNOWN):
            return links_of_run(facts)
        if asked not in WORKFLOW_TASK or run.decision.state is TaskState.NONE or not run.open:
            return (_no_such_step(run, asked),)
    elif step.status is StepStatus.FAILED:
        failed = links_of_failure(
            run, step, facts.now_ms, failed_at=facts.failed_at, refused=facts.refused
        )
        child = facts.child
        if child is None or child.run is None:
            return failed
        return (failed[0], *links_in_child(links_of_run(child)))
    elif step.status is not StepStatus.SCHEDULED:
        return (link_of_result(step, facts.now_ms),)
    elif step.arrived:
        return (_arrived(step, run),)
    links = links_of_wait_for(facts)
    without = links_without_leader(facts.leaderless)
    return (links[0], *without) if without else links


def asked_step(run: Run, asked: str) -> Step | None:
    """By its sequence, or by its name: of several the open one, else the last."""
    if asked.isascii() and asked.isdigit() and len(asked) < 10:
        sequence = int(asked)
        return run.steps[sequence - 1] if 0 < sequence <= len(run.steps) else None
    named = [step for step in run.steps if step.name == asked]
    known = [step for step in named if step.status is StepStatus.SCHEDULED] or named
    return known[-1] if known else None


def _no_such_step(run: Run, asked: str) -> Link:
    known = list(dict.fromkeys(step.name for step in reversed(run.steps)))
    has = f"its steps so far are {names(map(quoted, known))}" if known else "it has none so far"
    if asked in WORKFLOW_TASK:
        says = f"The workflow task of {quoted(run.key.workflow_id)} is not wanted now"
    else:
        says = f"{quoted(run.key.workflow_id)} has no step {quoted(asked)}: {has}"
    why = command("why run", run.key.workflow_id, namespace=run.key.namespace)
    return Link(
        cause=Cause.NO_SUCH_STEP,
        severity=Severity.PROBLEM,
        says=f"{says}.",
        evidence={
            "workflow_id": run.key.workflow_id,
            "run_id": run.key.run_id,
            "asked": asked,
            "steps": tuple(known[:_SHOWN]),
        },
        next=f"see where the run is: {why}",
    )


def _arrived(step: Step, run: Run) -> Link:
    return Link(
        cause=Cause.RESULT_ARRIVED,
        severity=Severity.WAITING,
        says=f"{described(step)} has its result, which joins the history when the workflow task"
        f" that is out has ended.",
        evidence={**of_step(step), "arrivals": len(run.arrivals)},
        next=f"wait, or see why that task takes long: "
        f"{command('why task', run.key.workflow_id, '0', namespace=run.key.namespace)}",
    )
