"""A run's family: who started it, whom it started, and the chain that it is a link of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raftflow.cluster.api.handlers import runs
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.store.views import Chain, RunSummary
from raftflow.engine.ids import RunKey
from raftflow.engine.state import Run, Step, StepKind


@dataclass(frozen=True, slots=True)
class Family:
    """``children`` are steps, each with its run: None where none is kept, or none was started yet.
    ``next_cursor``: the sequence behind which more follow, 0 where none do."""

    run: Run
    parent: RunSummary | None
    children: Sequence[tuple[Step, RunSummary | None]]
    total: int
    next_cursor: int
    chain: Chain


async def family(node: NodeServices, key: RunKey, *, after: int, limit: int) -> Family:
    """Of the run, or of the id's newest one; children whose sequence is greater than ``after``."""
    run, index = await runs.read(node, key.namespace, key.workflow_id, key.run_id)
    await node.replica.written(index)
    children = [step for step in run.steps if step.kind is StepKind.CHILD]
    rest = [step for step in children if step.sequence > after]
    found = await node.store.summaries([_child(run, step) for step in rest[:limit]])
    shown = list(zip(rest, found, strict=False))
    return Family(
        run=run,
        parent=await _parent(node, run),
        children=shown,
        total=len(children),
        next_cursor=shown[-1][0].sequence if 0 < len(shown) < len(rest) else 0,
        chain=await node.store.chain(run.key),
    )


def _child(run: Run, step: Step) -> RunKey:
    return RunKey(run.key.namespace, step.workflow_id, step.run_id)


async def _parent(node: NodeServices, run: Run) -> RunSummary | None:
    if not run.parent_workflow_id:
        return None
    key = RunKey(run.key.namespace, run.parent_workflow_id, run.parent_run_id)
    (parent,) = await node.store.summaries([key])
    return parent
