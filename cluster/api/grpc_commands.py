"""The commands of a completed workflow task, from gRPC messages to the engine's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from raftflow.cluster.api.decisions import (
    MAX_SEQUENCE,
    jittered,
    milli,
    policy_of,
)
from raftflow.cluster.api.grpc_fields import attributes, fraction, member, number, optional_id
from raftflow.cluster.api.limits import (
    MAX_ATTEMPTS,
    MAX_COMMANDS,
    check_id,
    check_payload,
    check_sentence,
)
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.config import Config
from raftflow.engine.commands import (
    AwaitSignal,
    CancelStep,
    CompleteWorkflow,
    ContinueAsNew,
    FailWorkflow,
    ParentClosePolicy,
    RecordMarker,
    ScheduleActivity,
    StartChildWorkflow,
    StartTimer,
    UpsertSearchAttributes,
    WorkflowCommand,
)
from raftflow.engine.decide.marker import MARKERS
from raftflow.engine.limits import FIRST_PRIORITY, LAST_PRIORITY, USUAL_PRIORITY
from raftflow.engine.retry import NO_RETRY, RetryPolicy
from raftflow.proto.workflow.v1 import service_pb2 as pb


def read_commands(commands: Iterable[pb.Command], config: Config) -> tuple[WorkflowCommand, ...]:
    given = list(commands)
    if len(given) > MAX_COMMANDS:
        raise ApiError(
            "INVALID_FIELD", f"commands has {len(given)} entries, the limit is {MAX_COMMANDS}"
        )
    return tuple([_command(f"commands[{at}]", each, config) for at, each in enumerate(given)])


def _command(path: str, command: pb.Command, config: Config) -> WorkflowCommand:
    kind = command.WhichOneof("command")
    if kind is None:
        raise ApiError("INVALID_FIELD", f"{path} has no command type that this release knows")
    return READERS[kind](path, getattr(command, kind), config)


def _step(path: str, body: Any) -> dict[str, Any]:
    return {
        "step_name": check_id(f"{path}.step_name", body.step_name),
        "sequence": number(f"{path}.sequence", body.sequence, least=1, most=MAX_SEQUENCE),
    }


def _bytes(path: str, body: Any, name: str, config: Config) -> bytes:
    return check_payload(f"{path}.{name}", getattr(body, name), config.limits.payload_bytes)


def _activity(path: str, body: pb.ScheduleActivity, config: Config) -> WorkflowCommand:
    step = _step(path, body)
    retry = (
        _retry(f"{path}.retry_policy.", body.retry_policy)
        if body.HasField("retry_policy")
        else policy_of(config.activities.get(step["step_name"]))
    )

    def timeout(field: str) -> int:
        return number(f"{path}.{field}", getattr(body, field))

    priority = body.priority or USUAL_PRIORITY
    return ScheduleActivity(
        **step,
        input=_bytes(path, body, "input", config),
        retry=retry,
        task_queue=optional_id(f"{path}.task_queue", body.task_queue),
        priority=number(f"{path}.priority", priority, least=FIRST_PRIORITY, most=LAST_PRIORITY),
        start_to_close_timeout_ms=timeout("start_to_close_timeout_ms"),
        schedule_to_close_timeout_ms=timeout("schedule_to_close_timeout_ms"),
        schedule_to_start_timeout_ms=timeout("schedule_to_start_timeout_ms"),
    )


def _retry(path: str, policy: pb.ActivityRetry) -> RetryPolicy:
    attempts = policy.max_attempts if policy.HasField("max_attempts") else NO_RETRY.max_attempts
    coefficient = policy.backoff_coefficient if policy.HasField("backoff_coefficient") else 2.0
    read = RetryPolicy(
        max_attempts=number(f"{path}max_attempts", attempts, most=MAX_ATTEMPTS),
        initial_backoff_ms=number(f"{path}initial_backoff_ms", policy.initial_backoff_ms),
        max_backoff_ms=number(f"{path}max_backoff_ms", policy.max_backoff_ms),
        backoff_coefficient_milli=milli(
            fraction(f"{path}backoff_coefficient", coefficient, least=1, most=100)
        ),
        non_retryable_error_types=tuple(
            check_sentence(f"{path}non_retryable_error_types", text)
            for text in policy.non_retryable_error_types
        ),
    )
    return jittered(read, fraction(f"{path}jitter", policy.jitter, least=0, most=1))


def _timer(path: str, body: pb.StartTimer, config: Config) -> WorkflowCommand:
    return StartTimer(**_step(path, body), delay_ms=number(f"{path}.delay_ms", body.delay_ms))


def _signal(path: str, body: pb.AwaitSignal, config: Config) -> WorkflowCommand:
    name = check_id(f"{path}.signal_name", body.signal_name)
    return AwaitSignal(**_step(path, body), signal_name=name)


def _marker(path: str, body: pb.RecordMarker, config: Config) -> WorkflowCommand:
    if body.marker not in MARKERS:
        raise ApiError("INVALID_FIELD", f"{path}.marker must be one of {', '.join(MARKERS)}")
    data = _bytes(path, body, "data", config)
    return RecordMarker(**_step(path, body), marker=body.marker, data=data)


def _child(path: str, body: pb.StartChildWorkflow, config: Config) -> WorkflowCommand:
    return StartChildWorkflow(
        **_step(path, body),
        workflow_type=check_id(f"{path}.workflow_type", body.workflow_type),
        workflow_id=optional_id(f"{path}.workflow_id", body.workflow_id),
        input=_bytes(path, body, "input", config),
        task_queue=optional_id(f"{path}.task_queue", body.task_queue),
        parent_close_policy=member(
            f"{path}.parent_close_policy", ParentClosePolicy, body.parent_close_policy
        ),
    )


def _cancel(path: str, body: pb.CancelStep, config: Config) -> WorkflowCommand:
    return CancelStep(**_step(path, body), reason=check_sentence(f"{path}.reason", body.reason))


def _attributes(path: str, body: pb.UpsertSearchAttributes, config: Config) -> WorkflowCommand:
    changes = attributes(f"{path}.attributes", body.attributes, removable=True)
    return UpsertSearchAttributes(attributes=changes)


def _complete(path: str, body: pb.CompleteWorkflow, config: Config) -> WorkflowCommand:
    return CompleteWorkflow(output=_bytes(path, body, "output", config))


def _fail(path: str, body: pb.FailWorkflow, config: Config) -> WorkflowCommand:
    return FailWorkflow(
        error=check_sentence(f"{path}.error", body.error),
        error_type=check_sentence(f"{path}.error_type", body.error_type),
        cancelled=body.cancelled,
    )


def _continue(path: str, body: pb.ContinueAsNew, config: Config) -> WorkflowCommand:
    timeout_ms = body.execution_timeout_ms if body.HasField("execution_timeout_ms") else -1
    return ContinueAsNew(
        input=_bytes(path, body, "input", config),
        workflow_type=optional_id(f"{path}.workflow_type", body.workflow_type),
        task_queue=optional_id(f"{path}.task_queue", body.task_queue),
        execution_timeout_ms=number(f"{path}.execution_timeout_ms", timeout_ms, least=-1),
    )


# By the name of the field of `Command`.
READERS: Mapping[str, Callable[[str, Any, Config], WorkflowCommand]] = {
    "schedule_activity": _activity,
    "start_timer": _timer,
    "await_signal": _signal,
    "record_marker": _marker,
    "start_child_workflow": _child,
    "cancel_step": _cancel,
    "upsert_search_attributes": _attributes,
    "complete_workflow": _complete,
    "fail_workflow": _fail,
    "continue_as_new": _continue,
}
