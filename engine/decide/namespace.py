"""Namespaces and the workflow types known in each."""

from __future__ import annotations

from raftflow.engine.commands import CreateNamespace, RegisterTypes, SetQuota, UpdateNamespace
from raftflow.engine.decide.context import DONE, Context, Verdict, no_namespace, refuse
from raftflow.engine.ids import id_problem
from raftflow.engine.limits import MAX_DURATION_MS
from raftflow.engine.rejections import Reason, Rejection
from raftflow.engine.transitions import (
    Move,
    NamespaceCreated,
    NamespaceUpdated,
    QuotaSet,
    StartPaid,
    TypesRegistered,
)

_MAX_OPEN_RUNS = 1 << 53
_MAX_STARTS_PER_SECOND = 1_000_000
_SECOND_US = 1_000_000
_WAIT_FOR_AN_END_MS = 1_000


def create(ctx: Context, command: CreateNamespace) -> Verdict:
    if problem := id_problem("name", command.namespace):
        return refuse(Reason.INVALID_COMMAND, problem)
    if problem := _retention_problem(command.retention_ms):
        return refuse(Reason.INVALID_COMMAND, problem)
    if ctx.has_namespace(command.namespace):
        return refuse(Reason.NAMESPACE_EXISTS, f"namespace {command.namespace!r} exists")
    return Verdict(DONE, None, (NamespaceCreated(command.namespace, command.retention_ms),))


def update(ctx: Context, command: UpdateNamespace) -> Verdict:
    if not ctx.has_namespace(command.namespace):
        return no_namespace(command.namespace)
    if problem := _retention_problem(command.retention_ms):
        return refuse(Reason.INVALID_COMMAND, problem)
    return Verdict(DONE, None, (NamespaceUpdated(command.namespace, command.retention_ms),))


def set_quota(ctx: Context, command: SetQuota) -> Verdict:
    if not ctx.has_namespace(command.namespace):
        return no_namespace(command.namespace)
    for name, value, most in (
        ("max_open_runs", command.max_open_runs, _MAX_OPEN_RUNS),
        ("starts_per_second", command.starts_per_second, _MAX_STARTS_PER_SECOND),
    ):
        if not 0 <= value <= most:
            message = f"{name} is {value}, it must be 0 (no bound) to {most}"
            return refuse(Reason.INVALID_COMMAND, message)
    quota = QuotaSet(command.namespace, command.max_open_runs, command.starts_per_second)
    return Verdict(DONE, None, (quota,))


def admit_start(ctx: Context, namespace: str) -> tuple[Move, ...] | Rejection:
    """What a start from outside costs its namespace, or why there is no room for it. Children and
    runs that continue as new count, too, but follow from work that was let in."""
    record = ctx.state.catalog.namespaces.get(namespace)
    if record is None:
        return ()
    open_runs = ctx.state.catalog.open_runs.get(namespace, 0)
    if record.max_open_runs and open_runs >= record.max_open_runs:
        what = f"has {open_runs} open runs"
        return _no_room(namespace, what, "max_open_runs", record.max_open_runs, _WAIT_FOR_AN_END_MS)
    rate = record.starts_per_second
    if not rate:
        return ()
    # A second's starts may come at once: each moves on the moment at which all are paid for, and
    # that is never more than a second ahead.
    now_us = ctx.time_ms * 1_000
    paid_us = max(record.starts_paid_us, now_us) + _SECOND_US // rate
    excess_us = paid_us - now_us - _SECOND_US
    if excess_us > 0:
        what = "starts no more runs within this second"
        return _no_room(namespace, what, "starts_per_second", rate, -(-excess_us // 1_000))
    return (StartPaid(namespace, paid_us),)


def _no_room(namespace: str, what: str, limit: str, value: int, wait_ms: int) -> Rejection:
    return Rejection(
        reason=Reason.QUOTA_EXCEEDED,
        message=f"namespace {namespace!r} {what}, its quota {limit} is {value}"
        " (`raftflow namespace quota` changes it)",
        limit=limit,
        value=value,
        retry_after_ms=wait_ms,
    )


def register_types(ctx: Context, command: RegisterTypes) -> Verdict:
    namespace = command.namespace
    if not ctx.has_namespace(namespace):
        return no_namespace(namespace)
    for workflow_type in command.workflow_types:
        if problem := id_problem("workflow type", workflow_type):
            return refuse(Reason.INVALID_COMMAND, problem)
    known = ctx.state.catalog.types
    fresh = tuple(t for t in command.workflow_types if (namespace, t) not in known)
    if not fresh:
        return Verdict(DONE)
    return Verdict(DONE, None, (TypesRegistered(namespace, fresh),))


def _retention_problem(retention_ms: int) -> str | None:
    if 0 <= retention_ms <= MAX_DURATION_MS:
        return None
    return f"retention_ms is {retention_ms}, it must be 0 (for ever) to {MAX_DURATION_MS}"
