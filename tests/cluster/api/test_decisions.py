"""JSON commands as the engine's; the server's retry policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raftflow.cluster.api.decisions import parse_commands
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.validation import Fields
from raftflow.cluster.config import ActivityPolicy, Config
from raftflow.engine.commands import (
    AwaitSignal,
    CompleteWorkflow,
    FailWorkflow,
    ScheduleActivity,
    StartTimer,
)
from raftflow.engine.retry import NO_RETRY, RetryPolicy

KNOWN = frozenset({"command", "commands"})


@pytest.fixture
def config(tmp_path: Path) -> Config:
    policy = ActivityPolicy(max_attempts=5, initial_backoff_ms=200, backoff_coefficient=1.5)
    return Config(data_dir=tmp_path, activities={"charge": policy})


def parse(config: Config, **body: Any) -> tuple[Any, ...]:
    return parse_commands(Fields(body, KNOWN), config)


def activity(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "schedule_activity", "step_name": name, "sequence": 1} | fields


def test_every_command(config: Config) -> None:
    step = {"step_name": "s", "sequence": 1}
    parsed = parse(
        config,
        commands=[
            activity("s", input="x", task_queue="q", start_to_close_timeout_ms=5),
            {"type": "start_timer", "delay_ms": 7, **step},
            {"type": "await_signal", "signal_name": "go", **step},
            {"type": "noop"},
            {"type": "complete_workflow", "output_base64": "/w=="},
            {"type": "fail_workflow", "error": "no", "error_type": "T", "cancelled": True},
        ],
    )
    assert parsed == (
        ScheduleActivity(
            step_name="s",
            sequence=1,
            input=b"x",
            retry=NO_RETRY,
            task_queue="q",
            start_to_close_timeout_ms=5,
        ),
        StartTimer(step_name="s", sequence=1, delay_ms=7),
        AwaitSignal(step_name="s", sequence=1, signal_name="go"),
        CompleteWorkflow(output=b"\xff"),
        FailWorkflow(error="no", error_type="T", cancelled=True),
    )


@pytest.mark.parametrize("body", [{}, {"command": None}, {"commands": []}, {"commands": None}])
def test_no_command_means_blocked(config: Config, body: dict[str, Any]) -> None:
    assert parse(config, **body) == ()


def test_the_servers_policy_fills_in_for_an_absent_one(config: Config) -> None:
    (filled,) = parse(config, command=activity("charge"))
    assert filled.retry == RetryPolicy(
        max_attempts=5, initial_backoff_ms=200, backoff_coefficient_milli=1_500
    )
    (own,) = parse(config, command=activity("charge", retry_policy={"max_attempts": 2}))
    assert own.retry == RetryPolicy(max_attempts=2)
    (none,) = parse(config, command=activity("ship"))
    assert none.retry == NO_RETRY


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (activity("s", retry_policy=[]), "command.retry_policy must be an object"),
        (
            activity("s", retry_policy={"max_attempts": "3"}),
            "command.retry_policy.max_attempts must be an integer",
        ),
        (activity("s", retry_policy={"backoff_coefficient": 0.5}), "must be 1 to 100"),
        (activity("s", retry_policy={"backoff_coefficient": 10**400}), "must be 1 to 100"),
        (activity("s", retry_policy={"jitter": 0.1}), "jitter is not supported yet"),
        (activity("s", priority=1), "command.priority is not supported yet"),
        (
            activity("s", retry_policy={"non_retryable_error_types": [1]}),
            "command.retry_policy.non_retryable_error_types[0] must be a string",
        ),
        (activity("s") | {"sequence": 0}, "command.sequence must be 1 to"),
        (activity(""), "command.step_name must not be empty"),
        ({"type": "await_signal", "step_name": "s", "sequence": 1}, "signal_name is required"),
    ],
)
def test_complaints_name_the_place(config: Config, command: Any, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse(config, command=command)
    assert message in refused.value.message


def test_one_or_several_but_not_both(config: Config) -> None:
    with pytest.raises(ApiError, match="exclude each other"):
        parse(config, command={"type": "noop"}, commands=[{"type": "noop"}])
