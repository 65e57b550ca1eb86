"""Commands and entries: what travels through Raft.

A command is encoded once, on the node that took the call; the leader concatenates encoded commands
into an entry without looking inside; every node decodes the entry once, to apply it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf.message import DecodeError

from raftflow.cluster.codec.shapes import (
    OneOf,
    Shape,
    Special,
    UnknownValue,
    enum,
    member,
    optional,
    pairs,
    texts,
    usually,
)
from raftflow.cluster.codec.values import LIMITS, retry_in
from raftflow.engine import commands as c
from raftflow.engine.commands import FEATURE_LEVEL
from raftflow.engine.limits import DEFAULT_LIMITS, USUAL_PRIORITY, Limits
from raftflow.proto.raftflow.internal.v1 import entry_pb2 as pb

SCHEMA_VERSION = 1


class UndecodableEntry(Exception):
    """A committed entry that this version cannot read. Guessing would make nodes differ, so the
    node stops."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(
            f"entry {index} cannot be read: {reason}; run the version that the other nodes run"
        )
        self.index = index


_WORKFLOW_COMMANDS: OneOf[c.WorkflowCommand] = OneOf(
    "body",
    {
        "schedule_activity": member(
            c.ScheduleActivity,
            pb.ScheduleActivity,
            retry=retry_in("retry"),
            priority=usually("priority", USUAL_PRIORITY),
        ),
        "start_timer": member(c.StartTimer, pb.StartTimer),
        "await_signal": member(c.AwaitSignal, pb.AwaitSignal),
        "complete_workflow": member(c.CompleteWorkflow, pb.CompleteWorkflow),
        "fail_workflow": member(c.FailWorkflow, pb.FailWorkflow),
        "record_marker": member(c.RecordMarker, pb.RecordMarker),
        "start_child_workflow": member(
            c.StartChildWorkflow,
            pb.StartChildWorkflow,
            parent_close_policy=enum("parent_close_policy", c.ParentClosePolicy),
        ),
        "cancel_step": member(c.CancelStep, pb.CancelStep),
        "continue_as_new": member(c.ContinueAsNew, pb.ContinueAsNew),
        "upsert_search_attributes": member(
            c.UpsertSearchAttributes, pb.UpsertSearchAttributes, attributes=pairs("attributes")
        ),
    },
)


def _put_workflow_commands(message: Any, value: tuple[c.WorkflowCommand, ...]) -> None:
    for command in value:
        _WORKFLOW_COMMANDS.put(message.commands.add(), command)


def _take_workflow_commands(message: Any) -> tuple[c.WorkflowCommand, ...]:
    return tuple([_WORKFLOW_COMMANDS.take(item) for item in message.commands])


_EAGER = optional("eager", Shape(c.EagerPoll, pb.EagerPoll, names=texts("names")))

_COMMANDS: OneOf[Any] = OneOf(
    "body",
    {
        "create_namespace": member(c.CreateNamespace, pb.CreateNamespace),
        "update_namespace": member(c.UpdateNamespace, pb.UpdateNamespace),
        "set_quota": member(c.SetQuota, pb.SetQuota),
        "mint_token": member(
            c.MintToken, pb.MintToken, role=enum("role", c.Role), namespaces=texts("namespaces")
        ),
        "revoke_token": member(c.RevokeToken, pb.RevokeToken),
        "record_call": member(c.RecordCall, pb.RecordCall),
        "register_types": member(
            c.RegisterTypes, pb.RegisterTypes, workflow_types=texts("workflow_types")
        ),
        "start_run": member(
            c.StartRun,
            pb.StartRun,
            id_reuse_policy=enum("id_reuse_policy", c.IdReusePolicy),
            id_conflict_policy=enum("id_conflict_policy", c.IdConflictPolicy),
            search_attributes=pairs("search_attributes"),
        ),
        "signal_run": member(c.SignalRun, pb.SignalRun),
        "terminate_run": member(c.TerminateRun, pb.TerminateRun),
        "cancel_run": member(c.CancelRun, pb.CancelRun),
        "pause_run": member(c.PauseRun, pb.PauseRun),
        "unpause_run": member(c.UnpauseRun, pb.UnpauseRun),
        "delete_run": member(c.DeleteRun, pb.DeleteRun),
        "complete_decision": member(
            c.CompleteDecision,
            pb.CompleteDecision,
            commands=Special(_put_workflow_commands, _take_workflow_commands),
            eager=_EAGER,
        ),
        "complete_activity": member(c.CompleteActivity, pb.CompleteActivity, eager=_EAGER),
        "record_heartbeat": member(c.RecordHeartbeat, pb.RecordHeartbeat),
        "grant_decision": member(c.GrantDecision, pb.GrantDecision),
        "grant_activity": member(c.GrantActivity, pb.GrantActivity),
        "return_task": member(c.ReturnTask, pb.ReturnTask),
        "expire_lease": member(c.ExpireLease, pb.ExpireLease),
        "fire_timer": member(c.FireTimer, pb.FireTimer, kind=enum("kind", c.TimerKind)),
        "deliver_message": member(c.DeliverMessage, pb.DeliverMessage),
        "forget_requests": member(c.ForgetRequests, pb.ForgetRequests),
        "forget_audit": member(c.ForgetAudit, pb.ForgetAudit),
    },
)
_ORIGIN: Shape[c.Origin] = Shape(c.Origin, pb.Origin, role=enum("role", c.Role))


def encode_command(command_id: str, command: c.Command) -> bytes:
    """Raises ValueError for what cannot be written (text that is not UTF-8, a number too large):
    the caller's mistake, told before anything is proposed."""
    message = pb.Command()
    message.command_id = command_id
    if isinstance(command, c.Attributed):
        _ORIGIN.put(message.origin, command.origin)
        command = command.command
    _COMMANDS.put(message, command)
    return message.SerializeToString()


def decode_command(data: bytes) -> tuple[str, c.Command]:
    message = pb.Command.FromString(data)
    command = _COMMANDS.take(message)
    if message.HasField("origin"):
        command = c.Attributed(origin=_ORIGIN.take(message.origin), command=command)
    return message.command_id, command


def encode_entry(
    commands: Sequence[bytes],
    *,
    time_ms: int,
    term: int,
    node: str,
    limits: Limits,
    feature_level: int = FEATURE_LEVEL,
) -> bytes:
    """Build an entry from encoded commands."""
    message = pb.Entry()
    message.schema_version = SCHEMA_VERSION
    message.feature_level = feature_level
    message.time_ms = time_ms
    message.term = term
    message.node = node
    LIMITS.put(message.limits, limits)
    message.commands.extend(commands)
    return message.SerializeToString()


def entry_level(payload: bytes) -> int:
    """The feature level under which an entry was written. Raises DecodeError."""
    return pb.Entry.FromString(payload).feature_level


def decode_entry(index: int, term: int, payload: bytes) -> c.Batch:
    """Read a committed entry. The no-op of a new term (no payload) is a batch without commands,
    whose time is that of the batch before it: it says 0."""
    if not payload:
        return c.Batch(index=index, term=term, time_ms=0, commands=(), limits=DEFAULT_LIMITS)
    try:
        message = pb.Entry.FromString(payload)
        if message.schema_version != SCHEMA_VERSION:
            raise UnknownValue(f"its schema version is {message.schema_version}")
        if message.feature_level > FEATURE_LEVEL:
            raise UnknownValue(f"its feature level is {message.feature_level}")
        return c.Batch(
            index=index,
            term=term,
            time_ms=message.time_ms,
            commands=tuple([decode_command(data) for data in message.commands]),
            limits=LIMITS.take(message.limits),
            feature_level=message.feature_level,
        )
    except (DecodeError, UnknownValue) as error:
        raise UndecodableEntry(index, str(error)) from error
