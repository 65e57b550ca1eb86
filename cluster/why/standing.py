"""Why a run stands still: paused, over a limit, or its code cannot replay it."""

from __future__ import annotations

import re

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.facts import RunFacts
from raftflow.cluster.why.model import Fact, Link, Moment, Severity
from raftflow.cluster.why.steps import of_run
from raftflow.cluster.why.words import at, command, quoted, shortened
from raftflow.engine.state import Run, RunStatus, TaskState

# What the engine, the store and our SDKs say. Other SDKs park with words of their own: those are
# nondeterminism without a step.
_PAUSED = "paused: "
_LIMIT = re.compile(r"history: (?P<size>\d+) (?P<unit>events|bytes), the limit is (?P<limit>\d+)")
_STEP = re.compile(
    r"at sequence (?P<sequence>\d+): the code (?P<code>.*), the history has (?P<history>.*)", re.S
)
_VERSION = re.compile(
    r"the run has version (?P<has>-?\d+) of change (?P<change>.*),"
    r" the code supports (?P<least>-?\d+) to (?P<most>-?\d+)",
    re.S,
)
_BROKEN = " broke the run: "


def links_of_standing(facts: RunFacts, run: Run) -> tuple[Link, ...]:
    stands = Link(
        cause=Cause.SUSPENDED,
        severity=Severity.PROBLEM,
        says=f"{run.workflow_type} {quoted(run.key.workflow_id)} is {run.status.name}:"
        " its workflow code is not asked to go on.",
        evidence={
            **of_run(run),
            "history_length": run.history_length,
            "updated_at": Moment(run.updated_ms),
        },
    )
    return (stands, _why(facts, run))


def _why(facts: RunFacts, run: Run) -> Link:
    reason = run.suspended_reason
    if run.status is RunStatus.PAUSED:
        limit = _LIMIT.search(reason)
        return _over_limit(facts, run, limit) if limit else _paused(facts, run)
    if _BROKEN in reason:
        return _broken(facts, run)
    if run.decision.state is TaskState.NONE and not run.steps:
        return _damaged(facts, run)  # the stand-in of a run whose rows cannot be read
    version = _VERSION.search(reason)
    return _old_worker(facts, run, version) if version else _nondeterminism(facts, run)


def _paused(facts: RunFacts, run: Run) -> Link:
    reason = run.suspended_reason.removeprefix(_PAUSED)
    said = f": {shortened(reason)}" if reason else ""
    return Link(
        cause=Cause.PAUSED,
        severity=Severity.PROBLEM,
        says=f"Somebody paused it{said}. Activities that are out go on; their results wait.",
        evidence={"reason": reason},
        next=f"let it go on, if its reason is over: {_unpause(facts, run)}; who paused it is in the"
        " audit log (`raftflow audit list --call PauseWorkflow`)",
    )


def _over_limit(facts: RunFacts, run: Run, limit: re.Match[str]) -> Link:
    flag = "--limits-history-events" if limit["unit"] == "events" else "--limits-history-bytes"
    end = _command(facts, run, "terminate")
    return Link(
        cause=Cause.HISTORY_LIMIT,
        severity=Severity.PROBLEM,
        says=f"Its history would have {int(limit['size']):,} {limit['unit']}, and the limit is"
        f" {int(limit['limit']):,}.",
        evidence={
            "size": int(limit["size"]),
            "unit": limit["unit"],
            "limit": int(limit["limit"]),
            "history_bytes": run.history_bytes,
        },
        next=f"end it: {end}; or raise the limit ({flag} of `raftflow serve`) on all nodes, then"
        f" {_unpause(facts, run)}. Code that runs for long should continue as new",
    )


def _nondeterminism(facts: RunFacts, run: Run) -> Link:
    step = _STEP.search(run.suspended_reason)
    evidence = _parked(run)
    where = ""
    if step is not None:
        sequence = int(step["sequence"])
        where = f" at step {sequence}"
        evidence |= {
            "sequence": sequence,
            "code": step["code"],
            "history": step["history"],
        }
    return Link(
        cause=Cause.NONDETERMINISM,
        severity=Severity.PROBLEM,
        says=f"The worker's code does not do{where} what the history has:"
        f" {shortened(run.suspended_reason)}.{_next_try(facts, run)}",
        evidence=evidence,
        next="start workers with the code that this run began with, or put the change behind"
        f" `ctx.version`; then do not wait for the next try: {_unpause(facts, run)}",
    )


def _old_worker(facts: RunFacts, run: Run, version: re.Match[str]) -> Link:
    has, most = int(version["has"]), int(version["most"])
    older = has > most
    return Link(
        cause=Cause.VERSION_MARKER,
        severity=Severity.PROBLEM,
        says=f"The run has version {has} of the change {version['change']}, and the worker's code"
        f" knows {version['least']} to {most}: that worker is {'older' if older else 'newer'} than"
        f" the run.{_next_try(facts, run)}",
        evidence={
            **_parked(run),
            "change": version["change"],
            "version": has,
            "code_least": int(version["least"]),
            "code_most": most,
        },
        next=f"{'replace the old workers' if older else 'start workers that still know it'}, then"
        f" {_unpause(facts, run)}",
    )


def _broken(facts: RunFacts, run: Run) -> Link:
    return Link(
        cause=Cause.BROKEN,
        severity=Severity.PROBLEM,
        says=f"A command could not be applied to it: {shortened(run.suspended_reason)}.",
        evidence=_parked(run),
        next="this is a bug of raftflow: keep its history (`raftflow history export`) and report"
        f" it; {_unpause(facts, run)} tries again, {_command(facts, run, 'terminate')} ends it",
    )


def _damaged(facts: RunFacts, run: Run) -> Link:
    return Link(
        cause=Cause.HISTORY_DAMAGED,
        severity=Severity.PROBLEM,
        says=f"What this node stored of it cannot be read: {shortened(run.suspended_reason)}.",
        evidence=_parked(run),
        next="let the node fetch a whole copy from the others: docs/operating.md, damage; `raftflow"
        " doctor` shows which nodes differ",
    )


def _parked(run: Run) -> dict[str, Fact]:
    fields: dict[str, Fact] = {"reason": run.suspended_reason, "tries": run.decision_failures}
    if run.decision.state is TaskState.BACKOFF:
        fields["next_try_at"] = Moment(run.decision.backoff_until_ms)
    return fields


def _next_try(facts: RunFacts, run: Run) -> str:
    if run.decision.state is not TaskState.BACKOFF:
        return ""
    return f" It is tried again at {at(run.decision.backoff_until_ms, facts.now_ms)}."


def _unpause(facts: RunFacts, run: Run) -> str:
    return _command(facts, run, "unpause")


def _command(facts: RunFacts, run: Run, verb: str) -> str:
    return command(
        f"workflow {verb}",
        run.key.workflow_id,
        namespace=run.key.namespace,
        run_id=facts.run_id,
    )
