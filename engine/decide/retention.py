"""Forgetting closed runs: because a user asked, or because the retention of their namespace did."""

from __future__ import annotations

from raftflow.engine.commands import DeleteRun
from raftflow.engine.decide.context import Context, Verdict, no_namespace, no_run, refuse
from raftflow.engine.decide.lease import dropped
from raftflow.engine.rejections import Done, Reason, Rejection
from raftflow.engine.state import Run
from raftflow.engine.transitions import RunForgotten


def delete(ctx: Context, command: DeleteRun) -> Verdict:
    if not ctx.has_namespace(command.namespace):
        return no_namespace(command.namespace)
    run = ctx.run(command.namespace, command.workflow_id, command.run_id)
    if run is None:
        return no_run(command.workflow_id, command.run_id)
    run_id = run.key.run_id
    if run.open:
        message = f"run {run_id!r} is open: end it first"
        return Verdict(Rejection(reason=Reason.RUN_OPEN, message=message, run_id=run_id))
    if command.closed_before_ms and not _outdated(ctx, run, command.closed_before_ms):
        return dropped("the run is to be kept longer")
    if run.outbox:
        message = f"run {run_id!r} has {len(run.outbox)} messages on their way: try again"
        return refuse(Reason.MESSAGES_PENDING, message)
    newest = ctx.run(command.namespace, command.workflow_id, "") is run
    if newest and run.older_runs:
        message = f"{run.older_runs} older runs are kept: the newest goes last"
        return refuse(Reason.OLDER_RUNS_KEPT, message)
    return Verdict(Done(forgotten=command.older + 1), run, (RunForgotten(newest),))


def _outdated(ctx: Context, run: Run, closed_before_ms: int) -> bool:
    """Whether the namespace lets it go: its retention may have grown since the leader looked."""
    record = ctx.state.catalog.namespaces.get(run.key.namespace)
    retention_ms = 0 if record is None else record.retention_ms
    if not retention_ms or run.closed_ms + retention_ms > ctx.time_ms:
        return False
    return run.closed_ms < closed_before_ms
