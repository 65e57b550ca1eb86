"""Pausing a run from outside, and letting it go on."""

from __future__ import annotations

from raftflow.engine.commands import PauseRun, UnpauseRun
from raftflow.engine.decide.context import DONE, Context, Verdict, closed
from raftflow.engine.decide.run import target
from raftflow.engine.state import Run, RunStatus, TaskState
from raftflow.engine.transitions import DecisionRequeued, RunResumed, RunSuspended


def pause(ctx: Context, command: PauseRun) -> Verdict:
    run = target(ctx, command, command.reason)
    if not isinstance(run, Run):
        return run
    if not run.open:
        return Verdict(closed(run))
    if run.status is RunStatus.PAUSED:
        return Verdict(DONE)
    return Verdict(DONE, run, (RunSuspended(f"paused: {command.reason}"),))


def unpause(ctx: Context, command: UnpauseRun) -> Verdict:
    """Lets a run go on that met a bound, too; it comes back if the bound still holds. The task of
    one that is UNKNOWN is offered now instead of after its pause: repaired code may be there."""
    run = target(ctx, command)
    if not isinstance(run, Run):
        return run
    if not run.open:
        return Verdict(closed(run))
    if run.status is RunStatus.UNKNOWN and run.decision.state is TaskState.BACKOFF:
        return Verdict(DONE, run, (DecisionRequeued(),))
    if run.status is not RunStatus.PAUSED:
        return Verdict(DONE)
    return Verdict(DONE, run, (RunResumed(),))
