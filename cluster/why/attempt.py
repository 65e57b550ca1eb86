"""Why a workflow task or an activity is queued, out with a worker, or pausing."""

from __future__ import annotations

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.facts import TaskFacts
from raftflow.cluster.why.model import Fact, Link, Moment, Severity
from raftflow.cluster.why.outcome import links_of_engine, refused_result
from raftflow.cluster.why.polling import Wait, links_of_wait
from raftflow.cluster.why.refused import link_of_refused
from raftflow.cluster.why.steps import described, of_step
from raftflow.cluster.why.words import at, command, count, quoted, shortened, span
from raftflow.cluster.work_facts import ACTIVITY, WORKFLOW
from raftflow.engine.decide.lease import LEASE_EXPIRED_ERROR, LEASE_EXPIRED_TYPE
from raftflow.engine.state import Task, TaskState


def links_of_task(facts: TaskFacts) -> tuple[Link, ...]:
    """Of a workflow task or an activity that is queued, out with a worker, or pausing."""
    if facts.step is None and facts.run.decision_refusal:
        return _refused_decision(facts)
    match _task(facts).state:
        case TaskState.QUEUED:
            return (_queued(facts), *links_of_wait(_wait(facts)))
        case TaskState.LEASED:
            return _leased(facts)
        case TaskState.BACKOFF:
            return _backing_off(facts)
    return ()


def _task(facts: TaskFacts) -> Task:
    return facts.run.decision if facts.step is None else facts.step.task


def _what(facts: TaskFacts) -> str:
    return "The workflow task" if facts.step is None else described(facts.step)


def _of(facts: TaskFacts) -> dict[str, Fact]:
    if facts.step is not None:
        return of_step(facts.step)
    return {"kind": "WORKFLOW_TASK", "workflow_type": facts.run.workflow_type}


def _wait(facts: TaskFacts) -> Wait:
    run, step = facts.run, facts.step
    return Wait(
        kind=WORKFLOW if step is None else ACTIVITY,
        namespace=run.key.namespace,
        queue=run.task_queue if step is None else step.task_queue,
        name=run.workflow_type if step is None else step.name,
        waited_ms=max(0, facts.now_ms - _since_ms(facts)),
        now_ms=facts.now_ms,
        work=facts.work,
        around=facts.around,
        refused=facts.refused,
        hosted=facts.hosted,
    )


def _since_ms(facts: TaskFacts) -> int:
    """It waits at least since then."""
    step, task = facts.step, _task(facts)
    if step is None:
        return facts.run.updated_ms
    return max(step.scheduled_ms, task.leased_ms, task.backoff_until_ms)


def _queued(facts: TaskFacts) -> Link:
    wait, step = _wait(facts), facts.step
    says = f"{_what(facts)} is queued on {quoted(wait.queue)} for {span(wait.waited_ms)}"
    evidence: dict[str, Fact] = {**_of(facts), "queue": wait.queue, "waited_ms": wait.waited_ms}
    if step is not None and step.last_error:
        says += f", after {count(step.attempts, 'failed attempt')}: {shortened(step.last_error)}"
        evidence["last_error"] = step.last_error
    if step is not None and step.schedule_to_start_timeout_ms:
        fails_ms = step.scheduled_ms + step.schedule_to_start_timeout_ms
        says += f"; it fails if no worker takes it until {at(fails_ms, facts.now_ms)}"
        evidence["fails_at"] = Moment(fails_ms)
    return Link(
        cause=Cause.TASK_QUEUED,
        severity=Severity.WAITING,
        says=says + ".",
        evidence=evidence,
    )


# ---- out with a worker --------------------------------------------------------------------------


def _leased(facts: TaskFacts) -> tuple[Link, ...]:
    task, lease, now_ms = _task(facts), facts.lease, facts.now_ms
    ends_ms = now_ms + lease.left_ms if lease else task.leased_ms + task.duration_ms
    silent_ms = lease.silent_ms if lease else max(0, now_ms - task.leased_ms)
    worker = quoted(task.worker_id) if task.worker_id else "a worker without a name"
    # Half a lease without a sign: ours beat three times in one.
    is_silent = silent_ms * 2 > task.duration_ms
    evidence: dict[str, Fact] = {
        **_of(facts),
        "worker": task.worker_id,
        "node": task.node,
        "attempt": task.attempt,
        "leased_at": Moment(task.leased_ms),
        "lease_ms": task.duration_ms,
        "until": Moment(ends_ms),
        "silent_ms": silent_ms,
    }
    if facts.lease_untold:
        evidence["not_heard"] = facts.lease_untold
    held = Link(
        cause=Cause.LEASE_HELD,
        severity=Severity.WAITING,
        says=f"{_what(facts)} is with worker {worker} since {at(task.leased_ms, now_ms)}"
        f"{_tries(facts)}; its lease runs until {at(ends_ms, now_ms)}.",
        evidence=evidence,
        next="" if is_silent else _while_held(facts, ends_ms),
    )
    turned_away = refused_result(facts.run, facts.step, facts.refused)
    if turned_away is not None and turned_away.last_ms >= task.leased_ms:
        return (held, link_of_refused(turned_away, now_ms))
    if not is_silent:
        return (held,)
    silent = _silent(facts, worker, silent_ms, ends_ms)
    away = facts.work.missing.get(task.node)
    return (held, silent) if away is None else (held, silent, _behind(task.node, worker, away))


def _tries(facts: TaskFacts) -> str:
    task, step = _task(facts), facts.step
    if task.attempt < 2:
        return ""
    if step is None:
        return f", the {task.attempt - 1} before it having brought no answer in time"
    most = step.retry.max_attempts
    return f" (attempt {task.attempt}{f' of {most}' if most else ''})"


def _while_held(facts: TaskFacts, ends_ms: int) -> str:
    if facts.step is None:
        return "wait: it is offered again if the worker does not answer until then"
    return "wait: the worker is at work, and renews its lease as long as it is"


def _silent(facts: TaskFacts, worker: str, silent_ms: int, ends_ms: int) -> Link:
    step = facts.step
    if step is None:
        then = "it is offered again to another"
    elif step.retry.max_attempts and step.attempts >= step.retry.max_attempts:
        then = "the step fails, as this was its last attempt"
    else:
        then = "the next attempt begins as its retry policy says"
    signs = "heartbeat" if step is not None else "answer"
    return Link(
        cause=Cause.WORKER_SILENT,
        severity=Severity.PROBLEM,
        says=f"Worker {worker} has sent no {signs} for {span(silent_ms)}: it is frozen, cut off,"
        f" dead, or its code sends none. At {at(ends_ms, facts.now_ms)} {then}.",
        evidence={
            "worker": _task(facts).worker_id,
            "node": _task(facts).node,
            "silent_ms": silent_ms,
            "until": Moment(ends_ms),
        },
        next=f"look at worker {worker} (is it alive, what does it do?) and start it again; or wait"
        f" until {at(ends_ms, facts.now_ms)}",
    )


def _behind(node: str, worker: str, why: str) -> Link:
    return Link(
        cause=Cause.NODE_UNREACHABLE,
        severity=Severity.PROBLEM,
        says=f"{node}, from which it took the task, does not answer ({why}): worker {worker} may be"
        " at work, and be heard again with that node or another one.",
        evidence={"node": node, "detail": why},
        next=f"see why: {command('why node', node)}",
    )


# ---- after a failed attempt ---------------------------------------------------------------------


def _backing_off(facts: TaskFacts) -> tuple[Link, ...]:
    step, until_ms = facts.step, _task(facts).backoff_until_ms
    if step is None:
        return (_pausing(facts, until_ms),)
    most = step.retry.max_attempts
    tried = f"attempt {step.attempts}" + (f" of {most}" if most else "")
    link = Link(
        cause=Cause.RETRY_BACKOFF,
        severity=Severity.WAITING,
        says=f"{described(step)} failed at {tried} ({shortened(step.last_error)}) and is tried"
        f" again at {at(until_ms, facts.now_ms)}.",
        evidence={
            **of_step(step),
            "last_error": step.last_error,
            "until": Moment(until_ms),
            "pause_ms": max(0, until_ms - facts.now_ms),
        },
        next="repair what the error names, or wait: the next attempt begins by itself",
    )
    kind = LEASE_EXPIRED_TYPE if step.last_error == LEASE_EXPIRED_ERROR else ""
    return (link, *links_of_engine(facts.run, step, kind, facts.now_ms, facts.refused))


def _pausing(facts: TaskFacts, until_ms: int) -> Link:
    """In entries of release 0.1 the reason is missing."""
    return Link(
        cause=Cause.DECISION_REFUSED,
        severity=Severity.PROBLEM,
        says=f"The workflow task is offered again at {at(until_ms, facts.now_ms)}: the last answer"
        " to it was refused.",
        evidence={**_of(facts), "until": Moment(until_ms)},
        next=_REPAIR_WORKER,
    )


def _refused_decision(facts: TaskFacts) -> tuple[Link, ...]:
    run = facts.run
    text = run.decision_refusal
    gated = "feature level" in text
    too_large = ", the limit is " in text
    cause = (
        Cause.VERSION_GATE
        if gated
        else Cause.PAYLOAD_REFUSED
        if too_large
        else Cause.DECISION_REFUSED
    )
    times = run.decision_failures
    often = f" {count(times, 'time')} in a row" if times > 1 else ""
    refusal = Link(
        cause=Cause.DECISION_REFUSED,
        severity=Severity.PROBLEM,
        says=f"The worker's answer to the workflow task was refused"
        f"{often}: {shortened(text)}.{_offered(facts)}",
        evidence={
            "refusal": text,
            "refusals": times,
            "task": run.decision.state.name,
            "workflow_type": run.workflow_type,
        },
        next="" if cause is not Cause.DECISION_REFUSED else _REPAIR_WORKER,
    )
    if cause is Cause.DECISION_REFUSED:
        return (refusal,)
    why = Link(
        cause=cause,
        severity=Severity.PROBLEM,
        says=_WHY_REFUSED[cause],
        evidence={"refusal": text},
        next=_THEN[cause],
    )
    return (refusal, why)


def _offered(facts: TaskFacts) -> str:
    task = facts.run.decision
    if task.state is TaskState.BACKOFF:
        return f" It is offered again at {at(task.backoff_until_ms, facts.now_ms)}."
    if task.state is TaskState.LEASED:
        return f" It is out again, with worker {quoted(task.worker_id)}."
    return " It is offered again."


_REPAIR_WORKER = (
    "repair or upgrade the worker: it sends what this cluster does not take. The task is offered"
    " again by itself"
)
_WHY_REFUSED = {
    Cause.VERSION_GATE: "A node of an older release holds back what the workflow asks for.",
    Cause.PAYLOAD_REFUSED: "What the workflow code sends is larger than the cluster allows.",
}
_THEN = {
    Cause.VERSION_GATE: "upgrade the nodes that the refusal names (`raftflow cluster status` shows"
    " the level of each); the task is offered again by itself",
    Cause.PAYLOAD_REFUSED: "keep large data elsewhere and pass its address, or raise the limit on"
    " all nodes (docs/configuration.md); the task is offered again by itself",
}
