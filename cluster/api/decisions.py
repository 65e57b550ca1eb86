"""The JSON commands of a completed workflow task as engine commands. A complaint names the place:
`commands[2].delay_ms must be an integer`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from raftflow.cluster.api.attributes import parse_attributes
from raftflow.cluster.api.handlers.common import new_run_id
from raftflow.cluster.api.limits import MAX_ATTEMPTS, MAX_COMMANDS, MAX_NAMES, check_payload
from raftflow.cluster.api.schema import (
    FLAG,
    ID,
    OPTIONAL_ID,
    SENTENCE,
    TEXT,
    TOKEN,
    Object,
    Schema,
    array,
    choice,
    integer,
    ref,
)
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.validation import Fields
from raftflow.cluster.config import ActivityPolicy, Config
from raftflow.engine.commands import (
    AwaitSignal,
    CancelStep,
    CompleteDecision,
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

MAX_SEQUENCE = 1 << 31
_SEED_BITS = 63

_RETRY = Object(
    fields={
        "max_attempts": integer(0, MAX_ATTEMPTS, default=1, description="0: without a bound."),
        "initial_backoff_ms": integer(default=0),
        "max_backoff_ms": integer(default=0, description="0: no cap."),
        "backoff_coefficient": {"type": "number", "minimum": 1, "maximum": 100, "default": 2},
        "non_retryable_error_types": array(SENTENCE, MAX_NAMES),
        "jitter": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "Each wait is longer or shorter by up to this share.",
        },
    }
)

# What answers a workflow task. `command` is one, `commands` are several.
COMPLETION: Mapping[str, Schema] = {
    "workflow_id": ID,
    "task_token": TOKEN,
    "command": ref("Command"),
    "commands": array(ref("Command"), MAX_COMMANDS),
    "replay_error": SENTENCE,
    "replay_error_kind": {"type": "string", "enum": ["", "nondeterminism"]},
}
COMPLETION_FIELDS = frozenset(COMPLETION)


def parse_token(fields: Fields, namespace: str) -> CompleteDecision:
    """Which workflow task is answered; nothing of the answer yet."""
    return CompleteDecision(
        namespace=namespace,
        workflow_id=fields.identifier("workflow_id"),
        task_token=fields.token("task_token"),
        commands=(),
    )


def parse_answer(fields: Fields, task: CompleteDecision, config: Config) -> CompleteDecision:
    """The same with its commands, or why the replay failed."""
    kind = fields.text("replay_error_kind")
    if kind not in ("", "nondeterminism"):
        raise ApiError("INVALID_FIELD", "replay_error_kind must be nondeterminism or absent")
    commands = parse_commands(fields, config)
    return replace(
        task,
        commands=commands,
        new_run_id=run_id_for(commands),
        replay_error=fields.text("replay_error"),
        nondeterminism=kind == "nondeterminism",
    )


def run_id_for(commands: Iterable[WorkflowCommand]) -> str:
    """Of the run that a continue_as_new among the commands starts."""
    return new_run_id() if any(isinstance(each, ContinueAsNew) for each in commands) else ""


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
    if not isinstance(value, dict):
        raise ApiError("INVALID_FIELD", f"{path} must be an object")
    kind = value.get("type")
    if not isinstance(kind, str):
        raise ApiError("INVALID_FIELD", f"{path}.type must be a string")
    known = COMMANDS.get(kind)
    if known is None:
        raise ApiError("INVALID_FIELD", f"{path}.type is not a command type")
    return known.parse(Fields(value, known.takes.names, path=path + "."), config)


def _activity(fields: Fields, config: Config) -> WorkflowCommand:
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
        priority=fields.integer(
            "priority", USUAL_PRIORITY, least=FIRST_PRIORITY, most=LAST_PRIORITY
        ),
    )


def _timer(fields: Fields, config: Config) -> WorkflowCommand:
    return StartTimer(
        step_name=fields.identifier("step_name"),
        sequence=_sequence(fields),
        delay_ms=fields.integer("delay_ms"),
    )


def _signal(fields: Fields, config: Config) -> WorkflowCommand:
    return AwaitSignal(
        step_name=fields.identifier("step_name"),
        sequence=_sequence(fields),
        signal_name=fields.identifier("signal_name"),
    )


def _marker(fields: Fields, config: Config) -> WorkflowCommand:
    marker = fields.text("marker")
    if marker not in MARKERS:
        raise fields.bad("marker", f"must be one of {', '.join(MARKERS)}")
    return RecordMarker(
        step_name=fields.identifier("step_name"),
        sequence=_sequence(fields),
        marker=marker,
        data=_payload(fields, "data", config),
    )


def _child(fields: Fields, config: Config) -> WorkflowCommand:
    return StartChildWorkflow(
        step_name=fields.identifier("step_name"),
        sequence=_sequence(fields),
        workflow_type=fields.identifier("workflow_type"),
        workflow_id=fields.identifier("workflow_id", ""),
        input=_payload(fields, "input", config),
        task_queue=fields.identifier("task_queue", ""),
        parent_close_policy=fields.choice(
            "parent_close_policy", ParentClosePolicy, ParentClosePolicy.TERMINATE
        ),
    )


def _cancel(fields: Fields, config: Config) -> WorkflowCommand:
    return CancelStep(
        step_name=fields.identifier("step_name"),
        sequence=_sequence(fields),
        reason=fields.text("reason"),
    )


def _attributes(fields: Fields, config: Config) -> WorkflowCommand:
    path = fields.path + "attributes"
    return UpsertSearchAttributes(
        attributes=parse_attributes(path, fields.values.get("attributes"), removable=True)
    )


def _complete(fields: Fields, config: Config) -> WorkflowCommand:
    return CompleteWorkflow(output=_payload(fields, "output", config))


def _fail(fields: Fields, config: Config) -> WorkflowCommand:
    return FailWorkflow(
        error=fields.text("error"),
        error_type=fields.text("error_type"),
        cancelled=fields.flag("cancelled"),
    )


def _continue(fields: Fields, config: Config) -> WorkflowCommand:
    return ContinueAsNew(
        input=_payload(fields, "input", config),
        workflow_type=fields.identifier("workflow_type", ""),
        task_queue=fields.identifier("task_queue", ""),
        execution_timeout_ms=fields.integer("execution_timeout_ms", -1, least=-1),
    )


def _noop(fields: Fields, config: Config) -> None:
    return None


@dataclass(frozen=True, slots=True)
class CommandType:
    """How a command is read, and the fields that it may have beside its type."""

    parse: Callable[[Fields, Config], WorkflowCommand | None]
    takes: Object


def _of_step(
    parse: Callable[[Fields, Config], WorkflowCommand],
    *required: str,
    payloads: tuple[str, ...] = (),
    **fields: Schema,
) -> CommandType:
    step = {"type": TEXT, "step_name": ID, "sequence": integer(1, MAX_SEQUENCE)}
    needed = ("type", "step_name", "sequence", *required)
    return CommandType(parse, Object(fields=step | fields, required=needed, payloads=payloads))


def _of_run(
    parse: Callable[[Fields, Config], WorkflowCommand], *payloads: str, **fields: Schema
) -> CommandType:
    takes = Object(fields={"type": TEXT} | fields, required=("type",), payloads=payloads)
    return CommandType(parse, takes)


COMMANDS: Mapping[str, CommandType] = {
    "schedule_activity": _of_step(
        _activity,
        payloads=("input",),
        retry_policy=_RETRY.schema(),
        start_to_close_timeout_ms=integer(),
        schedule_to_close_timeout_ms=integer(),
        schedule_to_start_timeout_ms=integer(),
        task_queue=OPTIONAL_ID,
        priority=integer(FIRST_PRIORITY, LAST_PRIORITY, default=USUAL_PRIORITY),
    ),
    "start_timer": _of_step(_timer, "delay_ms", delay_ms=integer()),
    "await_signal": _of_step(_signal, "signal_name", signal_name=ID),
    "record_marker": _of_step(
        _marker, "marker", payloads=("data",), marker={"type": "string", "enum": list(MARKERS)}
    ),
    "start_child_workflow": _of_step(
        _child,
        "workflow_type",
        payloads=("input",),
        workflow_type=ID,
        workflow_id=OPTIONAL_ID,
        task_queue=OPTIONAL_ID,
        parent_close_policy=choice(ParentClosePolicy, ParentClosePolicy.TERMINATE),
    ),
    "cancel_step": _of_step(_cancel, reason=SENTENCE),
    "upsert_search_attributes": _of_run(_attributes, attributes=ref("AttributeChanges")),
    "complete_workflow": _of_run(_complete, "output"),
    "fail_workflow": _of_run(_fail, error=SENTENCE, error_type=SENTENCE, cancelled=FLAG),
    "continue_as_new": _of_run(
        _continue,
        "input",
        workflow_type=OPTIONAL_ID,
        task_queue=OPTIONAL_ID,
        execution_timeout_ms=integer(-1, description="-1: as long as this run had."),
    ),
    "noop": CommandType(
        _noop,
        Object(fields={"type": TEXT, "step_name": {}, "sequence": {}}, required=("type",)),
    ),
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
    policy = Fields(value, _RETRY.names, path=fields.path + "retry_policy.")
    read = RetryPolicy(
        max_attempts=policy.integer("max_attempts", 1, most=MAX_ATTEMPTS),
        initial_backoff_ms=policy.integer("initial_backoff_ms", 0),
        max_backoff_ms=policy.integer("max_backoff_ms", 0),
        backoff_coefficient_milli=milli(policy.number("backoff_coefficient", 2, least=1, most=100)),
        non_retryable_error_types=policy.texts("non_retryable_error_types"),
    )
    return jittered(read, policy.number("jitter", 0, least=0, most=1))


def jittered(policy: RetryPolicy, share: float) -> RetryPolicy:
    """The seed is drawn here, where the command is made: every node then waits alike."""
    if not milli(share):
        return policy
    return replace(policy, jitter_milli=milli(share), jitter_seed=secrets.randbits(_SEED_BITS))


def milli(value: float) -> int:
    """In thousandths, since the engine knows no floats."""
    return round(value * 1_000)


def policy_of(configured: ActivityPolicy | None) -> RetryPolicy:
    """The server's own policy for an activity, as the engine counts."""
    if configured is None:
        return NO_RETRY
    policy = RetryPolicy(
        max_attempts=configured.max_attempts,
        initial_backoff_ms=configured.initial_backoff_ms,
        max_backoff_ms=configured.max_backoff_ms,
        backoff_coefficient_milli=milli(configured.backoff_coefficient),
        non_retryable_error_types=configured.non_retryable_error_types,
    )
    return jittered(policy, configured.jitter)
