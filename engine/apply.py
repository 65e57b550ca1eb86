"""The way in: a batch of commands, a working set; out come replies, effects and changed rows.

Everything here is a pure function of the log: the same batches give the same state and the same
answers on every node, whatever is loaded beside the keys that ``touched_keys`` names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from raftflow.engine import audit, tokens
from raftflow.engine.commands import (
    Attributed,
    Batch,
    CancelRun,
    Command,
    CompleteActivity,
    CompleteDecision,
    CreateNamespace,
    DeleteRun,
    DeliverMessage,
    ExpireLease,
    FireTimer,
    ForgetAudit,
    ForgetRequests,
    GrantActivity,
    GrantDecision,
    MintToken,
    PauseRun,
    RecordCall,
    RecordHeartbeat,
    RegisterTypes,
    ReturnTask,
    RevokeToken,
    SetQuota,
    SignalRun,
    StartRun,
    TerminateRun,
    UnpauseRun,
    UpdateNamespace,
)
from raftflow.engine.decide import (
    activity,
    decision,
    eager,
    lease,
    message,
    namespace,
    pause,
    retention,
    run,
    signal,
    timer,
    token,
)
from raftflow.engine.decide.context import DONE, Context, Verdict
from raftflow.engine.dedup import (
    IDENTIFIED,
    is_remembered,
    payload_digest,
    remember,
    remembered,
    request_key,
)
from raftflow.engine.effects import Effect
from raftflow.engine.evolve.moves import evolve
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.ids import RunKey, WorkflowKey, parse_token
from raftflow.engine.rejections import Answer, Done, Reason, Rejection, Reply
from raftflow.engine.state import Changes, Run, RunStatus, WorkingSet
from raftflow.engine.transitions import RunParked

_DECIDE: dict[type, Callable[..., Verdict]] = {
    CreateNamespace: namespace.create,
    UpdateNamespace: namespace.update,
    SetQuota: namespace.set_quota,
    MintToken: token.mint,
    RevokeToken: token.revoke,
    RecordCall: lambda _ctx, _command: Verdict(DONE),
    RegisterTypes: namespace.register_types,
    StartRun: run.start,
    SignalRun: signal.signal,
    TerminateRun: run.terminate,
    CancelRun: run.cancel,
    PauseRun: pause.pause,
    UnpauseRun: pause.unpause,
    DeleteRun: retention.delete,
    CompleteDecision: decision.complete,
    CompleteActivity: activity.complete,
    RecordHeartbeat: activity.heartbeat,
    GrantDecision: lease.grant_decision,
    GrantActivity: lease.grant_activity,
    ReturnTask: lease.return_task,
    ExpireLease: lease.expire,
    FireTimer: timer.fire,
    DeliverMessage: message.deliver,
}

_COMPLETIONS = (CompleteDecision, CompleteActivity)


@dataclass(frozen=True, slots=True)
class Touched:
    """The keys a command may read: of each workflow the pointer to its newest run, and that run."""

    workflows: tuple[WorkflowKey, ...] = ()
    runs: tuple[RunKey, ...] = ()
    requests: tuple[tuple[str, str], ...] = ()


_NOTHING = Touched()


@dataclass(frozen=True, slots=True)
class Applied:
    replies: tuple[Reply, ...]
    effects: tuple[Effect, ...]
    changes: Changes


def touched_keys(command: Command) -> Touched:
    """What must be loaded before ``apply`` sees the command."""
    match command:
        case Attributed():
            return touched_keys(command.command)
        case CompleteActivity() | RecordHeartbeat():
            return _by_token(command.namespace, command.workflow_id, command.lease_token)
        case CompleteDecision():
            touched = _by_token(command.namespace, command.workflow_id, command.task_token)
            return _with_next(touched, command) if command.new_run_id else touched
        case ReturnTask() | ExpireLease():
            return _by_token(command.namespace, command.workflow_id, command.token)
        case GrantDecision() | GrantActivity() | FireTimer():
            key = RunKey(command.namespace, command.workflow_id, command.run_id)
            return Touched(runs=(key,))
        case StartRun():
            return Touched(
                workflows=(WorkflowKey(command.namespace, command.workflow_id),),
                runs=(RunKey(command.namespace, command.workflow_id, command.run_id),),
                requests=_request_of(command),
            )
        case SignalRun() | TerminateRun() | CancelRun() | PauseRun() | UnpauseRun():
            requests = _request_of(command)
            if command.run_id:
                key = RunKey(command.namespace, command.workflow_id, command.run_id)
                return Touched(runs=(key,), requests=requests)
            workflow = WorkflowKey(command.namespace, command.workflow_id)
            return Touched(workflows=(workflow,), requests=requests)
        case DeleteRun():
            # The newest run counts the older ones, whichever is deleted.
            workflow = WorkflowKey(command.namespace, command.workflow_id)
            runs = (RunKey(*workflow, command.run_id),) if command.run_id else ()
            return Touched(workflows=(workflow,), runs=runs, requests=_request_of(command))
        case DeliverMessage():
            sender = RunKey(command.namespace, command.workflow_id, command.run_id)
            target = WorkflowKey(command.namespace, command.target_workflow_id)
            named = (RunKey(*target, command.target_run_id),) if command.target_run_id else ()
            return Touched(workflows=(target,), runs=(sender, *named))
        case CreateNamespace() | UpdateNamespace() | SetQuota() | MintToken() | RevokeToken():
            return Touched(requests=_request_of(command))
        case _:
            return _NOTHING


def apply(state: WorkingSet, batch: Batch) -> Applied:
    """Apply the commands in order. Never raises for any command: a bad one is refused, and a run
    that breaks the rules of its own is parked and named."""
    rec = Recorder(state, batch.time_ms, batch.feature_level)
    ctx = Context(
        state, batch.time_ms, batch.limits, batch.feature_level, forgotten=rec.changes.deleted
    )
    replies = []
    for number, (command_id, command) in enumerate(batch.commands, batch.first):
        if isinstance(command, Attributed):
            answer = _attributed(ctx, rec, command, audit.place(batch.index, number))
        else:
            answer = _apply_one(ctx, rec, command)
        replies.append(Reply(command_id, answer))
    rec.finish()
    return Applied(tuple(replies), tuple(rec.effects), rec.changes)


def _attributed(ctx: Context, rec: Recorder, attributed: Attributed, place: int) -> Answer:
    """Carried out only while the caller's token is good, and noted with what came of it. A repeated
    call, which changes nothing, was noted when it did."""
    origin, command = attributed.origin, attributed.command
    answer: Answer
    if origin.token_id and (
        problem := tokens.problem(ctx.state.catalog.tokens, origin.token_id, ctx.time_ms)
    ):
        answer = Rejection(reason=Reason.UNAUTHENTICATED, message=problem)
        noted = False
    else:
        noted = is_remembered(ctx, command)
        answer = _apply_one(ctx, rec, command)
    if audit.audited(command) and not noted:
        rec.changes.audit.append(audit.row(ctx, place, attributed, answer))
    return answer


def _apply_one(ctx: Context, rec: Recorder, command: Command) -> Answer:
    verdict = None
    try:
        if getattr(command, "request_id", ""):
            assert isinstance(command, IDENTIFIED)
            key = request_key(command)
            assert key is not None
            digest = payload_digest(command)
            known = remembered(ctx, key, digest)
            if known is not None:
                return known
            verdict = _DECIDE[type(command)](ctx, command)
            evolve(rec, verdict.run, verdict.moves)
            if not isinstance(verdict.answer, Rejection):
                remember(rec, key, digest, verdict.answer)
            return verdict.answer
        if isinstance(command, ForgetRequests):
            return _forget(rec, command)
        if isinstance(command, ForgetAudit):
            before_ms = min(command.before_ms, rec.time_ms)
            rec.changes.forget_audit = replace(command, before_ms=before_ms)
            return DONE
        verdict = _DECIDE[type(command)](ctx, command)
        if verdict.moves:
            evolve(rec, verdict.run, verdict.moves)
            for other, moves in verdict.also:
                evolve(rec, other, moves)
            if isinstance(command, _COMPLETIONS) and command.eager is not None:
                return _hand_over(rec, command, verdict)
    except MemoryError:
        raise  # of this machine, not of the log: it must not decide what the state is
    except Exception as error:  # noqa: BLE001 - rule 7 of DESIGN.md: apply never raises
        return _poisoned(ctx, rec, command, error)
    return verdict.answer


def _hand_over(
    rec: Recorder, command: CompleteDecision | CompleteActivity, verdict: Verdict
) -> Answer:
    """Whoever completed a task takes the next ones along. Only who completed it: a repeated
    completion makes no moves, and a refused one is not done."""
    if verdict.run is None or not isinstance(verdict.answer, Done):
        return verdict.answer
    grants = eager.handed(verdict.run, command, verdict.moves)
    evolve(rec, verdict.run, grants)
    return Done(tuple([grant.token for grant in grants])) if grants else verdict.answer


def _forget(rec: Recorder, command: ForgetRequests) -> Answer:
    """Only what has expired may go, whatever the leader believed."""
    before_ms = min(command.before_ms, rec.time_ms)
    if command.limit > 0:
        rec.changes.forget_requests = ForgetRequests(before_ms=before_ms, limit=command.limit)
    return DONE


def _poisoned(ctx: Context, rec: Recorder, command: Command, error: Exception) -> Answer:
    """Park the run that the command broke. The reason names what every node sees alike: the text of
    an exception may hold addresses."""
    reason = f"{type(command).__name__} broke the run: {type(error).__name__}"
    for poisoned in _runs_of(ctx, touched_keys(command)):
        if not poisoned.open:
            continue
        try:
            pause_ms = decision.parked_pause_ms(poisoned)
            evolve(rec, poisoned, (RunParked(reason, pause_ms, b""),))
        except Exception:  # noqa: BLE001 - not even that: it stands still until an operator ends it
            poisoned.status, poisoned.suspended_reason = RunStatus.UNKNOWN, reason
            rec.run(poisoned)
    return Rejection(reason=Reason.UNREADABLE, message=reason)


def _runs_of(ctx: Context, touched: Touched) -> list[Run]:
    keys = list(touched.runs)
    for workflow in touched.workflows:
        newest = ctx.state.current.get(workflow)
        if newest is not None:
            keys.append(RunKey(workflow.namespace, workflow.workflow_id, newest))
    return [ctx.state.runs[key] for key in dict.fromkeys(keys) if key in ctx.state.runs]


def _by_token(namespace: str, workflow_id: str, token: str) -> Touched:
    parts = parse_token(token)
    if parts is None or parts.namespace != namespace:
        return _NOTHING
    return Touched(runs=(RunKey(namespace, workflow_id, parts.run_id),))


def _with_next(touched: Touched, command: CompleteDecision) -> Touched:
    """A continue_as_new starts another run of the id."""
    workflow = WorkflowKey(command.namespace, command.workflow_id)
    following = RunKey(command.namespace, command.workflow_id, command.new_run_id)
    return Touched(workflows=(workflow,), runs=(*touched.runs, following))


def _request_of(command: Command) -> tuple[tuple[str, str], ...]:
    key = request_key(command)
    return () if key is None else (key,)
