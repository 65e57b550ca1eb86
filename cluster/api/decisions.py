"""The JSON commands of a completed workflow task as engine commands. A complaint names the place:
`commands[2].delay_ms must be an integer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from raftflow.cluster.api.limits import MAX_ATTEMPTS, MAX_COMMANDS, check_payload
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.validation import Fields
from raftflow.cluster.config import ActivityPolicy, Config
from raftflow.engine.commands import (
    AwaitSignal,
    CompleteDecision,
    CompleteWorkflow,
    FailWorkflow,
    ScheduleActivity,
    StartTimer,
    WorkflowCommand,
)
from raftflow.engine.retry import NO_RETRY, RetryPolicy

MAX_SEQUENCE = 1 << 31

# Known, and refused by name until a release carries them.
LATER_TYPES = frozenset(
    {
        "record_marker",
        "start_child_workflow",
        "cancel_step",
        "continue_as_new",
        "upsert_search_attributes",
    }
)

_STEP = frozenset({"type", "step_name", "sequence"})
_ACTIVITY = _STEP | {
    "input",
    "input_base64",
    "retry_policy",
    "start_to_close_timeout_ms",
    "schedule_to_close_timeout_ms",
    "schedule_to_start_timeout_ms",
    "task_queue",
}
_RETRY = frozenset(
    {
        "max_attempts",
        "initial_backoff_ms",
        "max_backoff_ms",
        "non_retryable_error_types",
        "backoff_coefficient",
    }
)


COMPLETION_FIELDS = frozenset(
    {"workflow_id", "task_token", "command", "commands", "replay_error", "replay_error_kind"}
)


def parse_token(fields: Fields, namespace: str) -> CompleteDecision:
    """Which workflow task is answered; nothing of the answer yet."""
    return CompleteDecision(
        namespace=namespace,
        workflow_id=fields.identifier("workflow_id"),
        task_token=fields.identifier("task_token"),
        commands=(),
    )


def parse_answer(fields: Fields, task: CompleteDecision, config: Config) -> CompleteDecision:
    """The same with its commands, or why the replay failed."""
    kind = fields.text("replay_error_kind")
    if kind not in ("", "nondeterminism"):
        raise ApiError("INVALID_FIELD", "replay_error_kind must be nondeterminism or absent")
    return replace(
        task,
        commands=parse_commands(fields, config),
        replay_error=fields.text("replay_error"),
        nondeterminism=kind == "nondeterminism",
    )


def parse_commands(body: Fields, config: Config) -> tuple[WorkflowCommand, ...]:
    """The commands of `command` (one, or null) or `commands` (a list), in order."""
    single = body.values.get("command")
    several = body.array("commands", most=MAX_COMMANDS)
    if single is not None and several:
        raise ApiError("INVALID_FIELD", "command and commands exclude each other")
    named = (
        [("command", single)]
        if single is not None
        else [(f"commands[{number}]", value) for number, value in enumerate(several)]
    )
    parsed = (parse_command(value, path, config) for path, value in named)
    return tuple(command for command in parsed if command is not None)


def parse_command(value: Any, path: str, config: Config) -> WorkflowCommand | None:
    """One command; None for a noop."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict):
        raise ApiError("INVALID_FIELD", f"{path} must be an object")
    if not isinstance(kind, str):
        raise ApiError("INVALID_FIELD", f"{path}.type must be a string")
    if kind in LATER_TYPES:
        raise ApiError("NOT_SUPPORTED", f"{path}.type {kind} is not supported yet")
    parser = _PARSERS.get(kind)
    if parser is None:
        raise ApiError("INVALID_FIELD", f"{path}.type is not a command type")
    return parser(value, path + ".", config)


def _activity(value: dict[str, Any], path: str, config: Config) -> WorkflowCommand:
    fields = Fields(value, _ACTIVITY, path=path, later=frozenset({"priority"}))
    name = fields.identifier("step_name")
    return ScheduleActivity(
        step_name=name,
        sequence=_sequence(fields),
        input=_payload(fields, "input", config),
        retry=_retry(fields, name, config),
        task_queue=fields.identifier("task_queue", ""),
        start_to_close_timeout_ms=fields.integer("start_to_close_timeout_ms", 0),
        schedule_to_close_timeout_ms=fields.integer("schedule_to_close_timeout_ms", 0),
        schedule_to_start_timeout_ms=fields.integer("schedule_to_start_timeout_ms", 0),
    )


def _timer(value: dict[str, Any], path: str, config: Config) -> WorkflowCommand:
    fields = Fields(value, _STEP | {"delay_ms"}, path=path)
    return StartTimer(
        step_name=fields.identifier("step_name"),
        sequence=_sequence(fields),
        delay_ms=fields.integer("delay_ms"),
    )


def _signal(value: dict[str, Any], path: str, config: Config) -> WorkflowCommand:
    fields = Fields(value, _STEP | {"signal_name"}, path=path)
    return AwaitSignal(
        step_name=fields.identifier("step_name"),
        sequence=_sequence(fields),
        signal_name=fields.identifier("signal_name"),
    )


def _complete(value: dict[str, Any], path: str, config: Config) -> WorkflowCommand:
    fields = Fields(value, frozenset({"type", "output", "output_base64"}), path=path)
    return CompleteWorkflow(output=_payload(fields, "output", config))


def _fail(value: dict[str, Any], path: str, config: Config) -> WorkflowCommand:
    fields = Fields(value, frozenset({"type", "error", "error_type", "cancelled"}), path=path)
    return FailWorkflow(
        error=fields.text("error"),
        error_type=fields.text("error_type"),
        cancelled=fields.flag("cancelled"),
    )


def _noop(value: dict[str, Any], path: str, config: Config) -> None:
    Fields(value, _STEP, path=path)


_PARSERS: Mapping[str, Callable[[dict[str, Any], str, Config], WorkflowCommand | None]] = {
    "schedule_activity": _activity,
    "start_timer": _timer,
    "await_signal": _signal,
    "complete_workflow": _complete,
    "fail_workflow": _fail,
    "noop": _noop,
}


def _sequence(fields: Fields) -> int:
    return fields.integer("sequence", least=1, most=MAX_SEQUENCE)


def _payload(fields: Fields, name: str, config: Config) -> bytes:
    data = fields.payload(name) or b""
    return check_payload(fields.path + name, data, config.limits.payload_bytes)


def _retry(fields: Fields, activity: str, config: Config) -> RetryPolicy:
    """The command's policy, else the server's for this activity: recorded with the step."""
    value = fields.values.get("retry_policy")
    if value is None:
        return policy_of(config.activities.get(activity))
    policy = Fields(value, _RETRY, path=fields.path + "retry_policy.", later=frozenset({"jitter"}))
    return RetryPolicy(
        max_attempts=policy.integer("max_attempts", 1, most=MAX_ATTEMPTS),
        initial_backoff_ms=policy.integer("initial_backoff_ms", 0),
        max_backoff_ms=policy.integer("max_backoff_ms", 0),
        backoff_coefficient_milli=_coefficient(policy),
        non_retryable_error_types=policy.texts("non_retryable_error_types"),
    )


def policy_of(configured: ActivityPolicy | None) -> RetryPolicy:
    """The server's own policy for an activity, as the engine counts."""
    if configured is None:
        return NO_RETRY
    return RetryPolicy(
        max_attempts=configured.max_attempts,
        initial_backoff_ms=configured.initial_backoff_ms,
        max_backoff_ms=configured.max_backoff_ms,
        backoff_coefficient_milli=round(configured.backoff_coefficient * 1_000),
        non_retryable_error_types=configured.non_retryable_error_types,
    )


def _coefficient(policy: Fields) -> int:
    value = policy.values.get("backoff_coefficient")
    if value is None:
        return NO_RETRY.backoff_coefficient_milli
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise policy.bad("backoff_coefficient", "must be a number")
    return coefficient_milli(policy.path + "backoff_coefficient", value)


def coefficient_milli(field: str, value: float) -> int:
    """In thousandths, since the engine knows no floats."""
    if not 1 <= value <= 100:
        raise ApiError("INVALID_FIELD", f"{field} must be 1 to 100")
    return round(value * 1_000)
