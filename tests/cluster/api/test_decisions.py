"""JSON commands as the engine's; the server's retry policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raftflow.cluster.api.decisions import COMMANDS, COMPLETION_FIELDS, parse_answer, parse_commands
from raftflow.cluster.api.grpc_commands import READERS, read_commands
from raftflow.cluster.api.limits import MAX_COMMANDS
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
    RecordMarker,
    ScheduleActivity,
    StartChildWorkflow,
    StartTimer,
    UpsertSearchAttributes,
)
from raftflow.engine.retry import NO_RETRY, RetryPolicy
from raftflow.proto.workflow.v1 import service_pb2 as pb

KNOWN = frozenset({"command", "commands"})
STEP = {"step_name": "s", "sequence": 1}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    policy = ActivityPolicy(max_attempts=5, initial_backoff_ms=200, backoff_coefficient=1.5)
    return Config(data_dir=tmp_path, activities={"charge": policy})


def parse(config: Config, **body: Any) -> tuple[Any, ...]:
    return parse_commands(Fields(body, KNOWN), config)


def activity(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "schedule_activity", "step_name": name, "sequence": 1} | fields


def test_every_command(config: Config) -> None:
    step = STEP
    parsed = parse(
        config,
        commands=[
            activity("s", input="x", task_queue="q", start_to_close_timeout_ms=5, priority=1),
            {"type": "start_timer", "delay_ms": 7, **step},
            {"type": "await_signal", "signal_name": "go", **step},
            {"type": "record_marker", "marker": "side_effect", "data_base64": "/w==", **step},
            {"type": "start_child_workflow", "workflow_type": "C", "input": "i", **step},
            {"type": "cancel_step", "reason": "late", **step},
            {
                "type": "upsert_search_attributes",
                "attributes": {"b": 2.0, "a": "x", "c": None, "d": True},
            },
            {"type": "continue_as_new", "input": "n", "workflow_type": "Next"},
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
            priority=1,
        ),
        StartTimer(step_name="s", sequence=1, delay_ms=7),
        AwaitSignal(step_name="s", sequence=1, signal_name="go"),
        RecordMarker(step_name="s", sequence=1, marker="side_effect", data=b"\xff"),
        StartChildWorkflow(
            step_name="s", sequence=1, workflow_type="C", workflow_id="", input=b"i", task_queue=""
        ),
        CancelStep(step_name="s", sequence=1, reason="late"),
        UpsertSearchAttributes(attributes=(("a", '"x"'), ("b", "2"), ("c", "null"), ("d", "true"))),
        ContinueAsNew(input=b"n", workflow_type="Next"),
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
        (activity("s", retry_policy={"jitter": 1.5}), "retry_policy.jitter must be 0 to 1"),
        (activity("s", priority=6), "command.priority must be 1 to 5"),
        ({"type": "record_marker", "marker": "x"} | STEP, "command.marker must be one of version"),
        (
            {"type": "upsert_search_attributes", "attributes": {"a": [1]}},
            "command.attributes.a must be a string, a number, true or false, or null",
        ),
        (
            {"type": "start_child_workflow", "workflow_type": "C", "parent_close_policy": "x"}
            | STEP,
            "command.parent_close_policy must be one of TERMINATE, REQUEST_CANCEL, ABANDON",
        ),
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


def test_a_decision_has_room_for_all_open_steps_twice_and_not_for_everything(
    config: Config,
) -> None:
    assert 2 * config.limits.open_steps < MAX_COMMANDS
    message = f"commands has {MAX_COMMANDS + 1} entries, the limit is {MAX_COMMANDS}"
    noop, command = {"type": "noop"}, pb.Command(complete_workflow=pb.CompleteWorkflow())
    assert parse(config, commands=[noop] * MAX_COMMANDS) == ()
    assert len(read_commands([command] * MAX_COMMANDS, config)) == MAX_COMMANDS
    with pytest.raises(ApiError, match=message):
        parse(config, commands=[noop] * (MAX_COMMANDS + 1))
    with pytest.raises(ApiError, match=message):
        read_commands([command] * (MAX_COMMANDS + 1), config)


def test_the_protocol_page_says_how_many_commands_a_decision_has() -> None:
    page = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text()
    assert f"| commands of one decision | {MAX_COMMANDS:,} | 400 `INVALID_FIELD` |" in page


def test_one_or_several_but_not_both(config: Config) -> None:
    with pytest.raises(ApiError, match="exclude each other"):
        parse(config, command={"type": "noop"}, commands=[{"type": "noop"}])


def test_what_only_this_node_may_draw_is_drawn_here(config: Config) -> None:
    """Seeds and run ids: in the command, so that every node acts alike."""
    (one,) = parse(config, command=activity("s", retry_policy={"jitter": 0.25}))
    (other,) = parse(config, command=activity("s", retry_policy={"jitter": 0.25}))
    assert one.retry.jitter_milli == 250
    assert one.retry.jitter_seed != other.retry.jitter_seed
    (plain,) = parse(config, command=activity("s", retry_policy={"jitter": 0}))
    assert plain.retry == NO_RETRY

    task = CompleteDecision(namespace="default", workflow_id="w", task_token="t", commands=())
    answers = [
        parse_answer(Fields({"command": {"type": kind}}, COMPLETION_FIELDS), task, config)
        for kind in ("continue_as_new", "continue_as_new", "complete_workflow")
    ]
    assert len(answers[0].new_run_id) == 32
    assert answers[0].new_run_id != answers[1].new_run_id
    assert answers[2].new_run_id == ""


def test_grpc_has_the_same_commands() -> None:
    fields = pb.Command.DESCRIPTOR.fields_by_name
    assert set(READERS) == set(fields) == set(COMMANDS) - {"noop"}
    for kind, takes in COMMANDS.items():
        if kind != "noop":
            body = fields[kind].message_type.fields_by_name
            plain = {name for name in takes.takes.names if not name.endswith("_base64")}
            assert set(body) == plain - {"type"}, kind


def test_the_servers_jitter_is_drawn_for_each_step(tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path, activities={"charge": ActivityPolicy(5, 200, jitter=0.25)})
    drawn = [parse(config, command=activity("charge"))[0].retry for _ in range(20)]
    assert {policy.jitter_milli for policy in drawn} == {250}
    assert len({policy.jitter_seed for policy in drawn}) > 1
