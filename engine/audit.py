"""The audit log's row of a command: which call it was, upon what, and what came of it.

Only what somebody changes is in it, not what workers do all day. A row never holds a payload, a
reason or a secret: what it says are names.
"""

from __future__ import annotations

from typing import NamedTuple

from raftflow.engine import commands as c
from raftflow.engine.decide.context import Context
from raftflow.engine.rejections import Answer, Rejection, Started
from raftflow.engine.state import AuditRecord

# An entry has far fewer commands.
PLACE_BITS = 16
_DETAIL_CHARACTERS = 500


class _Said(NamedTuple):
    call: str
    namespace: str
    target: str
    run_id: str = ""
    detail: str = ""


def audited(command: c.Fact) -> bool:
    """Whether it leaves a row behind when it is somebody's."""
    return type(command) in _AUDITED


def row(ctx: Context, place: int, attributed: c.Attributed, answer: Answer) -> AuditRecord:
    """``place`` is index and number of the command in its entry."""
    origin, command = attributed.origin, attributed.command
    said = _said(ctx, command)
    run_id, outcome = said.run_id, "OK"
    match answer:
        case Rejection():
            outcome = answer.reason.value
        case Started():
            run_id = answer.run_id
        case _ if isinstance(command, c.RecordCall):
            outcome = command.outcome
    return AuditRecord(
        audit_no=place,
        time_ms=ctx.time_ms,
        actor=origin.actor,
        role=origin.role,
        node=origin.node,
        address=origin.address,
        token_id=origin.token_id,
        call=said.call,
        namespace=said.namespace,
        target=said.target,
        run_id=run_id,
        detail=said.detail[:_DETAIL_CHARACTERS],
        outcome=outcome,
    )


def place(index: int, number: int) -> int:
    assert number < 1 << PLACE_BITS, number
    return index << PLACE_BITS | number


def _said(ctx: Context, command: c.Fact) -> _Said:
    match command:
        case c.StartRun():
            return _Said(
                "StartWorkflow",
                command.namespace,
                command.workflow_id,
                detail=_joined(command.workflow_type, command.signal_name and "with a signal"),
            )
        case c.SignalRun():
            return _of_run("SignalWorkflow", command, command.name)
        case c.TerminateRun():
            return _of_run("TerminateWorkflow", command)
        case c.CancelRun():
            return _of_run("CancelWorkflow", command, "graceful" if command.graceful else "")
        case c.PauseRun():
            return _of_run("PauseWorkflow", command)
        case c.UnpauseRun():
            return _of_run("UnpauseWorkflow", command)
        case c.DeleteRun():
            return _of_run("DeleteWorkflow", command)
        case c.RegisterTypes():
            types = ",".join(command.workflow_types)
            return _Said("RegisterWorkflowTypes", command.namespace, "", detail=types)
        case c.CreateNamespace():
            return _of_namespace("CreateNamespace", command)
        case c.UpdateNamespace():
            return _of_namespace("UpdateNamespace", command)
        case c.SetQuota():
            runs, starts = command.max_open_runs, command.starts_per_second
            detail = f"max_open_runs {runs}; starts_per_second {starts}"
            return _Said("SetNamespaceQuota", command.namespace, command.namespace, detail=detail)
        case c.MintToken():
            return _minted(command)
        case c.RevokeToken():
            known = ctx.state.catalog.tokens.get(command.token_id)
            call = "EndSession" if known is not None and known.parent else "RevokeToken"
            return _Said(call, "", command.token_id, detail=known.name if known else "")
        case c.RecordCall():
            return _Said(command.call, "", command.target)
    raise AssertionError(type(command).__name__)


_OfRun = c.SignalRun | c.TerminateRun | c.CancelRun | c.PauseRun | c.UnpauseRun | c.DeleteRun

_AUDITED = frozenset(
    {
        c.StartRun,
        c.SignalRun,
        c.TerminateRun,
        c.CancelRun,
        c.PauseRun,
        c.UnpauseRun,
        c.DeleteRun,
        c.RegisterTypes,
        c.CreateNamespace,
        c.UpdateNamespace,
        c.SetQuota,
        c.MintToken,
        c.RevokeToken,
        c.RecordCall,
    }
)


def _of_run(call: str, command: _OfRun, detail: str = "") -> _Said:
    return _Said(call, command.namespace, command.workflow_id, command.run_id, detail)


def _of_namespace(call: str, command: c.CreateNamespace | c.UpdateNamespace) -> _Said:
    detail = f"retention_ms {command.retention_ms}"
    return _Said(call, command.namespace, command.namespace, detail=detail)


def _minted(command: c.MintToken) -> _Said:
    detail = _joined(
        command.name,
        command.role.name.lower(),
        ",".join(command.namespaces) or "all namespaces",
        "sees payloads" if command.sees_payloads else "",
        f"for {command.lifetime_ms} ms" if command.lifetime_ms else "",
    )
    call = "CreateSession" if command.parent else "MintToken"
    return _Said(call, "", command.token_id, detail=detail)


def _joined(*parts: str) -> str:
    return "; ".join([part for part in parts if part])
