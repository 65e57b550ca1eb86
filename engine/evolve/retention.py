"""Closed runs that are forgotten."""

from __future__ import annotations

from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.state import Run
from raftflow.engine.transitions import RunForgotten


def forgotten(rec: Recorder, run: Run, move: RunForgotten) -> None:
    """The newest run of an id counts those kept beside it; with it the id itself goes."""
    state = rec.state
    workflow = WorkflowKey(run.key.namespace, run.key.workflow_id)
    del state.runs[run.key]
    rec.forget(run)
    if move.newest:
        del state.current[workflow]
        rec.changes.current[workflow] = None
    elif workflow in state.current:
        newest = state.runs[RunKey(*workflow, state.current[workflow])]
        newest.older_runs = max(0, newest.older_runs - 1)
        rec.run(newest)
