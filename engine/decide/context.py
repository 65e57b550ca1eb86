"""What every decision reads, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from raftflow.engine.ids import DEFAULT_NAMESPACE, RunKey, TokenParts, WorkflowKey, parse_token
from raftflow.engine.limits import Limits
from raftflow.engine.rejections import Answer, Done, Reason, Rejection
from raftflow.engine.state import Run, Step, WorkingSet
from raftflow.engine.transitions import Move

DONE = Done()


@dataclass(frozen=True, slots=True)
class Context:
    """The state and the moment. Decisions read it and change nothing. ``forgotten``: the runs that
    this very entry deleted."""

    state: WorkingSet
    time_ms: int
    limits: Limits
    feature_level: int
    forgotten: Mapping[RunKey, None] = field(default_factory=dict)

    def has_namespace(self, namespace: str) -> bool:
        return namespace == DEFAULT_NAMESPACE or namespace in self.state.catalog.namespaces

    def run(self, namespace: str, workflow_id: str, run_id: str) -> Run | None:
        """The run named; without a run id, the newest of the workflow id."""
        if not run_id:
            newest = self.state.current.get(WorkflowKey(namespace, workflow_id))
            if newest is None:
                return None
            run_id = newest
        return self.state.runs.get(RunKey(namespace, workflow_id, run_id))

    def used(self, key: RunKey) -> bool:
        """Whether a run may not begin under this key. One that was deleted in this entry is no part
        of its rows, so that it cannot begin anew in it."""
        return key in self.state.runs or key in self.forgotten

    def holder(self, namespace: str, workflow_id: str, token: str) -> tuple[Run, TokenParts] | None:
        """The run that a token of this workflow speaks of. A token of another namespace or another
        workflow is worth nothing here."""
        parts = parse_token(token)
        if parts is None or parts.namespace != namespace:
            return None
        run = self.state.runs.get(RunKey(namespace, workflow_id, parts.run_id))
        return None if run is None else (run, parts)


class Verdict(NamedTuple):
    """The answer, and the moves that make it true. A refusal may come with moves, too: a stale
    decision is refused and its task queued again. ``also``: what a message does to another run."""

    answer: Answer
    run: Run | None = None
    moves: tuple[Move, ...] = ()
    also: tuple[tuple[Run | None, tuple[Move, ...]], ...] = ()


def refuse(reason: Reason, message: str) -> Verdict:
    return Verdict(Rejection(reason=reason, message=message))


def no_namespace(namespace: str) -> Verdict:
    return refuse(Reason.NAMESPACE_NOT_FOUND, f"there is no namespace {namespace!r}")


def no_run(workflow_id: str, run_id: str) -> Verdict:
    which = f" with run id {run_id!r}" if run_id else ""
    return refuse(Reason.WORKFLOW_NOT_FOUND, f"there is no workflow {workflow_id!r}{which}")


def unregistered(ctx: Context, namespace: str, workflow_type: str) -> Rejection | None:
    """Why no run of this type may begin, None when one may."""
    if (namespace, workflow_type) in ctx.state.catalog.types:
        return None
    message = (
        f"workflow type {workflow_type!r} is not registered in namespace {namespace!r}:"
        " start a worker that has it, or correct the name"
    )
    return Rejection(reason=Reason.TYPE_NOT_REGISTERED, message=message)


def closed(run: Run) -> Rejection:
    return Rejection(
        reason=Reason.RUN_CLOSED,
        message=f"run {run.key.run_id!r} has ended: {run.status.name}",
        run_id=run.key.run_id,
    )


def step_at(run: Run, sequence: int) -> Step | None:
    return run.steps[sequence - 1] if 0 < sequence <= len(run.steps) else None


def too_large(field: str, size: int, limit: int) -> str | None:
    """Name field, size and limit when a payload is over it."""
    if size <= limit:
        return None
    return f"{field} has {size} bytes, the limit is {limit}"


def text_too_large(field: str, text: str, limit: int) -> str | None:
    if len(text) * 4 <= limit:  # no character takes more
        return None
    return too_large(field, len(text.encode("utf-8", "surrogatepass")), limit)
