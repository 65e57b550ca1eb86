"""Pausing a run from outside, and letting it go on."""

from __future__ import annotations

from raftflow.engine.commands import PauseRun, UnpauseRun
from raftflow.engine.decide.context import DONE, Context, Verdict, closed
from raftflow.engine.decide.run import target
from raftflow.engine.state import Run, RunStatus
from raftflow.engine.transitions import RunResumed, RunSuspended


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
    """Lets a run go on that met a bound, too; it comes back if the bound still holds."""
    run = target(ctx, command)
    if not isinstance(run, Run):
        return run
    if not run.open:
        return Verdict(closed(run))
    if run.status is not RunStatus.PAUSED:
        return Verdict(DONE)
    return Verdict(DONE, run, (RunResumed(),))
