"""Namespaces and the workflow types known in each."""

from __future__ import annotations

from raftflow.engine.commands import CreateNamespace, RegisterTypes, UpdateNamespace
from raftflow.engine.decide.context import DONE, Context, Verdict, no_namespace, refuse
from raftflow.engine.ids import id_problem
from raftflow.engine.limits import MAX_DURATION_MS
from raftflow.engine.rejections import Reason
from raftflow.engine.transitions import NamespaceCreated, NamespaceUpdated, TypesRegistered


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
