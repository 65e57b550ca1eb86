"""Why a run does not go on, or how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from raftflow.cluster.why.attempt import links_of_task
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.ended import links_of_end
from raftflow.cluster.why.facts import RunFacts
from raftflow.cluster.why.leaderless import links_without_leader
from raftflow.cluster.why.model import Fact, Link, Moment, Severity
from raftflow.cluster.why.refused import link_of_refused, newest
from raftflow.cluster.why.standing import links_of_standing
from raftflow.cluster.why.steps import awaited, described, of_run, of_step
from raftflow.cluster.why.words import at, command, count, names, quoted, span
from raftflow.engine.outbox import pending_start
from raftflow.engine.state import (
    Run,
    RunStatus,
    Signal,
    Step,
    StepKind,
    StepStatus,
    TaskState,
)

WORKFLOW_TASK = 0
# A timer fires within a few heartbeats of the moment that it is due.
_LATE_MS = 5_000
_SHOWN = 20
# Of what several steps wait for, this is looked into first: what people can do most about.
_ORDER = (
    (StepKind.ACTIVITY, TaskState.QUEUED),
    (StepKind.ACTIVITY, TaskState.BACKOFF),
    (StepKind.ACTIVITY, TaskState.LEASED),
    (StepKind.CHILD, TaskState.NONE),
    (StepKind.SIGNAL, TaskState.NONE),
    (StepKind.TIMER, TaskState.NONE),
)


def links_of_run(facts: RunFacts) -> tuple[Link, ...]:
    run = facts.run
    if run is None:
        return _missing(facts)
    if not run.open:
        return links_of_end(facts, run, links_of_run)
    if run.status in (RunStatus.PAUSED, RunStatus.UNKNOWN):
        return (*links_of_standing(facts, run), *links_without_leader(facts.leaderless))
    seen = _waits(facts, run)
    if without := links_without_leader(facts.leaderless):
        return (seen, *without)
    return (seen, *links_of_wait_for(facts)) if chosen_wait(run) is not None else (seen, _lost(run))


def chosen_wait(run: Run) -> int | None:
    """The sequence of the step to look into, WORKFLOW_TASK for the run's own task; None when it
    waits for nothing."""
    if run.decision.state is not TaskState.NONE:
        return WORKFLOW_TASK
    places = {each: place for place, each in enumerate(_ORDER)}
    steps = [step for step in open_steps(run) if not step.arrived]
    first = min(
        steps,
        key=lambda step: (places.get((step.kind, step.task.state), len(places)), step.sequence),
        default=None,
    )
    return None if first is None else first.sequence


def open_steps(run: Run) -> Iterator[Step]:
    return (step for step in run.steps if step.status is StepStatus.SCHEDULED)


def links_of_wait_for(facts: RunFacts) -> tuple[Link, ...]:
    """Of the wait that is looked into."""
    step = facts.step
    if facts.task is not None:
        return links_of_task(facts.task)
    if step is None or facts.run is None:
        return ()
    match step.kind:
        case StepKind.TIMER:
            return (_timer(step, facts.now_ms),)
        case StepKind.SIGNAL:
            return _signal(facts, facts.run, step)
        case StepKind.CHILD:
            return _child(facts, facts.run, step)
    return ()


_LOOK = "see whether the id is right: `raftflow workflow list --query PART`"


# ---- it is not there ----------------------------------------------------------------------------


def _missing(facts: RunFacts) -> tuple[Link, ...]:
    what = f"Workflow {quoted(facts.workflow_id)}"
    evidence: dict[str, Fact] = {
        "workflow_id": facts.workflow_id,
        "run_id": facts.run_id,
        "namespace": facts.namespace,
    }
    if facts.damage:
        return (
            Link(
                cause=Cause.HISTORY_DAMAGED,
                severity=Severity.PROBLEM,
                says=f"{what} is there, but this node cannot read it: {facts.damage}.",
                evidence={**evidence, "problem": facts.damage},
                next="ask another node for it, and let this one fetch a whole copy: `raftflow"
                " doctor`; docs/operating.md, damage",
            ),
        )
    run = f" has no run {quoted(facts.run_id)}" if facts.run_id else " does not exist"
    start = None if facts.run_id else newest(facts.refused, "StartWorkflow")
    absent = Link(
        cause=Cause.NO_SUCH_RUN,
        severity=Severity.PROBLEM,
        says=f"{what}{run} in namespace {quoted(facts.namespace)}.",
        evidence=evidence,
        next=""
        if facts.elsewhere or start
        else f"{_LOOK}. It may also have been deleted, or never been started",
    )
    if without := links_without_leader(facts.leaderless):
        return (absent, *without)
    if facts.elsewhere:
        return (absent, _elsewhere(facts))
    if start is None:
        return (absent,)
    refusal = link_of_refused(start, facts.now_ms)
    if not start.target:  # refused before anybody read of which id it was
        refusal = replace(refusal, next=f"{refusal.next}. If it was not this one: {_LOOK}")
    return (absent, refusal)


def _elsewhere(facts: RunFacts) -> Link:
    where = facts.elsewhere
    return Link(
        cause=Cause.OTHER_NAMESPACE,
        severity=Severity.PROBLEM,
        says=f"Workflow {quoted(facts.workflow_id)} is in"
        f" {'namespace' if len(where) == 1 else 'namespaces'} {names(map(quoted, where))}.",
        evidence={"namespaces": where[:_SHOWN]},
        next=f"name the namespace: {command('why run', facts.workflow_id, namespace=where[0])}",
    )


# ---- it waits -----------------------------------------------------------------------------------


def _waits(facts: RunFacts, run: Run) -> Link:
    steps = list(open_steps(run))
    waits = [awaited(step) for step in steps[:_SHOWN]]
    if run.decision.state is not TaskState.NONE:
        waits.insert(0, {"kind": "WORKFLOW_TASK", "task": run.decision.state.name})
    what = [str(each.get("step") or "its workflow task") for each in waits]
    number = len(steps) + (run.decision.state is not TaskState.NONE)
    evidence: dict[str, Fact] = {
        **of_run(run),
        "history_length": run.history_length,
        "updated_at": Moment(run.updated_ms),
        "waits_for": tuple(waits),
    }
    says = (
        f"{run.workflow_type} {quoted(run.key.workflow_id)} is {run.status.name} and waits for"
        f" {_things(what, number)}; it last moved"
        f" {span(max(0, facts.now_ms - run.updated_ms))} ago"
    )
    if run.cancel_requested_event_id:
        says += f". It was asked to cancel, {at(run.cancel_requested_ms, facts.now_ms)}"
        evidence["cancel_requested_at"] = Moment(run.cancel_requested_ms)
    if run.execution_timeout_ms:
        ends_ms = run.started_ms + run.execution_timeout_ms
        says += f". It ends TIMED_OUT at {at(ends_ms, facts.now_ms)}"
        evidence["times_out_at"] = Moment(ends_ms)
    return Link(
        cause=Cause.RUN_WAITS, severity=Severity.WAITING, says=f"{says}.", evidence=evidence
    )


def _things(named: Sequence[str], number: int) -> str:
    if number > len(named):
        return count(number, "thing")
    return names(named) or "nothing"


def _lost(run: Run) -> Link:
    """Every open run has something that will wake it; the checks of each node look for those that
    have not."""
    return Link(
        cause=Cause.BROKEN,
        severity=Severity.PROBLEM,
        says="Nothing would wake it: that must not be.",
        evidence={"history_length": run.history_length, "arrivals": len(run.arrivals)},
        next="this is a bug of raftflow: keep its history (`raftflow history export`), see what"
        " `raftflow doctor` finds, and report both",
    )


def _timer(step: Step, now_ms: int) -> Link:
    late_ms = now_ms - step.fire_at_ms
    late = late_ms > _LATE_MS
    return Link(
        cause=Cause.TIMER_DUE,
        severity=Severity.PROBLEM if late else Severity.WAITING,
        says=f"{described(step)} {'was' if late else 'is'} due at {at(step.fire_at_ms, now_ms)}.",
        evidence={
            **of_step(step),
            "due_at": Moment(step.fire_at_ms),
            "left_ms": max(0, -late_ms),
        },
        next="the leader fires it: see `raftflow why leader` and the clocks (`raftflow doctor`)"
        if late
        else "wait until then",
    )


def _signal(facts: RunFacts, run: Run, step: Step) -> tuple[Link, ...]:
    others = _untaken(run.signals.values())
    send = command(
        "workflow signal",
        run.key.workflow_id,
        step.signal_name,
        options=("--payload", "TEXT"),
        namespace=run.key.namespace,
        run_id=facts.run_id,
    )
    waits = Link(
        cause=Cause.SIGNAL_AWAITED,
        severity=Severity.WAITING,
        says=f"{described(step)} waits for the signal {quoted(step.signal_name)} since"
        f" {at(step.scheduled_ms, facts.now_ms)}.",
        evidence={
            **of_step(step),
            "signal": step.signal_name,
            "since": Moment(step.scheduled_ms),
        },
        next="" if others else f"send it: {send}",
    )
    about = [each for each in facts.refused if each.step in ("", step.signal_name)]
    refusal = newest(about, "SignalWorkflow")
    if others:
        return (waits, _other_names(step, others, send))
    if refusal is None or refusal.last_ms < run.started_ms:  # that was another run of the id
        return (waits,)
    return (waits, link_of_refused(refusal, facts.now_ms))


def _untaken(signals: Iterable[Signal]) -> dict[str, int]:
    found: dict[str, int] = {}
    for signal in signals:
        found[signal.name] = found.get(signal.name, 0) + 1
    return found


def _other_names(step: Step, others: dict[str, int], send: str) -> Link:
    came = [f"{quoted(name)} ({number})" for name, number in others.items()]
    return Link(
        cause=Cause.SIGNAL_OTHER_NAME,
        severity=Severity.PROBLEM,
        says=f"Signals came, but under other names: {names(came)};"
        f" {quoted(step.signal_name)} is awaited.",
        evidence={
            "awaited": step.signal_name,
            "came": dict(list(others.items())[:_SHOWN]),
        },
        next=f"send it under the name that is awaited: {send}",
    )


def _child(facts: RunFacts, run: Run, step: Step) -> tuple[Link, ...]:
    child = facts.child.run if facts.child is not None else None
    starting = not step.run_id and pending_start(run, step.sequence) > 0
    waits = Link(
        cause=Cause.CHILD_AWAITED,
        severity=Severity.WAITING,
        says=f"{described(step)} waits for its child {step.workflow_type}"
        f" {quoted(step.workflow_id)} to end.",
        evidence={
            **of_step(step),
            "workflow_id": step.workflow_id,
            "run_id": step.run_id,
            "workflow_type": step.workflow_type,
        },
    )
    if starting:
        return (waits, _not_started(step, facts.now_ms))
    if facts.child is None or child is None:
        return (waits,)
    return (waits, *links_of_run(facts.child))


def _not_started(step: Step, now_ms: int) -> Link:
    waited_ms = max(0, now_ms - step.scheduled_ms)
    return Link(
        cause=Cause.CHILD_NOT_STARTED,
        severity=Severity.PROBLEM if waited_ms > _LATE_MS else Severity.WAITING,
        says=f"The child is still to be started, for {span(waited_ms)}.",
        evidence={"workflow_id": step.workflow_id, "waited_ms": waited_ms},
        next="the leader starts it at once: if it does not, see `raftflow why leader`",
    )
