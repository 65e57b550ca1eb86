"""Remembered request ids: the same call again gets the same answer and has no second effect.

Refused calls are not remembered, since they had no effect: the same id may try again.
"""

from __future__ import annotations

from raftflow.engine.commands import (
    CancelRun,
    Command,
    CreateNamespace,
    DeleteRun,
    MintToken,
    PauseRun,
    RevokeToken,
    SetQuota,
    SignalRun,
    StartRun,
    TerminateRun,
    UnpauseRun,
    UpdateNamespace,
)
from raftflow.engine.decide.context import Context
from raftflow.engine.digest import of_parts
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.rejections import Answer, Reason, Rejection
from raftflow.engine.state import RequestRecord

REQUEST_TTL_MS = 10 * 60_000

OfWorkflow = SignalRun | TerminateRun | CancelRun | PauseRun | UnpauseRun | DeleteRun
OF_WORKFLOW = (SignalRun, TerminateRun, CancelRun, PauseRun, UnpauseRun, DeleteRun)
OfNamespace = CreateNamespace | UpdateNamespace | SetQuota
OF_NAMESPACE = (CreateNamespace, UpdateNamespace, SetQuota)
Identified = OfNamespace | MintToken | RevokeToken | StartRun | OfWorkflow
IDENTIFIED = (*OF_NAMESPACE, MintToken, RevokeToken, StartRun, *OF_WORKFLOW)


def request_key(command: Command) -> tuple[str, str] | None:
    """The key under which the command's request id is remembered; None when it has none. What is
    sent to a workflow has ids of that workflow; a line feed stands in no id. What is of no
    namespace has the ids of none."""
    if not isinstance(command, IDENTIFIED) or not command.request_id:
        return None
    if isinstance(command, OF_WORKFLOW):
        return (command.namespace, f"{command.workflow_id}\n{command.request_id}")
    if isinstance(command, MintToken | RevokeToken):
        return ("", command.request_id)
    return (command.namespace, command.request_id)


def payload_digest(command: Identified) -> bytes:
    """What the caller said. The run id of a start (and a workflow id that the caller left open) is
    made up anew by each node that takes the call, as are the id and the secret of a token, and
    trace headers differ from try to try: none of them is part of it. What release 0.1 did not know
    adds to it only when it is said, so that ids remembered by then stay good."""
    match command:
        case StartRun():
            return of_parts(
                f"start {command.execution_timeout_ms} "
                f"{int(command.id_reuse_policy)} {int(command.id_conflict_policy)}",
                "" if command.workflow_id_generated else command.workflow_id,
                command.workflow_type,
                command.task_queue,
                command.input,
                *_more_of_start(command),
            )
        case SignalRun():
            return of_parts(
                "signal", command.workflow_id, command.run_id, command.name, command.payload
            )
        case TerminateRun():
            return of_parts("terminate", command.workflow_id, command.run_id, command.reason)
        case CancelRun():
            verb = "cancel graceful" if command.graceful else "cancel"
            return of_parts(verb, command.workflow_id, command.run_id, command.reason)
        case PauseRun():
            return of_parts("pause", command.workflow_id, command.run_id, command.reason)
        case UnpauseRun():
            return of_parts("unpause", command.workflow_id, command.run_id)
        case DeleteRun():
            verb = f"delete {command.closed_before_ms}"
            return of_parts(verb, command.workflow_id, command.run_id)
        case MintToken():
            rights = f"{int(command.role)} {command.sees_payloads:d} {command.lifetime_ms}"
            return of_parts(f"mint {rights}", command.name, command.parent, *command.namespaces)
        case RevokeToken():
            return of_parts("revoke", command.token_id)
        case CreateNamespace():
            return of_parts(f"create_namespace {command.retention_ms}")
        case UpdateNamespace():
            return of_parts(f"update_namespace {command.retention_ms}")
        case SetQuota():
            return of_parts(f"quota {command.max_open_runs} {command.starts_per_second}")


def _more_of_start(command: StartRun) -> list[str | bytes]:
    more: list[str | bytes] = []
    if command.search_attributes:
        count = len(command.search_attributes)
        more += [f"attributes {count}", *[p for pair in command.search_attributes for p in pair]]
    if command.memo:
        more += ["memo", command.memo]
    if command.signal_name:
        more += ["signal", command.signal_name, command.signal_payload]
    return more


def remembered(ctx: Context, key: tuple[str, str], digest: bytes) -> Answer | None:
    """The answer given before, a refusal when the id meant something else, None when it is new.
    An expired record counts as absent, whether its row is still there or not."""
    record = ctx.state.requests.get(key)
    if record is None or record.expires_ms <= ctx.time_ms:
        return None
    if record.payload_digest == digest:
        return record.answer
    given = key[1].rpartition("\n")[2]
    message = f"request id {given!r} was used for another request"
    return Rejection(reason=Reason.REQUEST_ID_REUSED, message=message)


def is_remembered(ctx: Context, command: Command) -> bool:
    """Whether something was answered under the command's request id."""
    key = request_key(command)
    record = None if key is None else ctx.state.requests.get(key)
    return record is not None and record.expires_ms > ctx.time_ms


def remember(rec: Recorder, key: tuple[str, str], digest: bytes, answer: Answer) -> None:
    record = RequestRecord(key[0], key[1], digest, answer, rec.time_ms + REQUEST_TTL_MS)
    rec.state.requests[key] = record
    rec.changes.requests[key] = record
