"""Replay: golden scripts, purity, and that any prefix of a history decides the same."""

import copy
import json
import shlex
from pathlib import Path
from typing import Any

import datadriven
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_workflows import WORKFLOWS, order

from raftflow_sdk.replay import Suspended, decide

SCRIPTS = Path(__file__).parent / "scripts"

Step = dict[str, Any]


def task(steps: list[Step], *, text: str = "order-1") -> dict[str, Any]:
    dense = [{**step, "sequence": n} for n, step in enumerate(steps, start=1)]
    return {
        "workflow_id": "w",
        "run_id": "r",
        "workflow_type": "Order",
        "task_token": "t",
        "history_length": len(steps) + 1,
        "started_at": "2026-01-01T00:00:00.000000Z",
        "input": text,
        "steps": dense,
        "signals": [],
    }


def parse_step(line: str) -> Step:
    """`KIND name STATUS [@event of the result] [output | error] [field=value...]`."""
    kind, name, status, *rest = shlex.split(line)
    step: Step = {"kind": kind, "step_name": name, "status": status, "attempts": 1}
    for word in rest:
        if word.startswith("@"):
            step["resolved_event_id"] = int(word[1:])
            step["resolved_at"] = f"2026-01-01T00:00:{int(word[1:]):02}.000000Z"
        elif "=" in word:
            field, _, value = word.partition("=")
            step[field] = json.loads(value) if value in ("true", "false") else value
        else:
            step["error" if status == "FAILED" else "output"] = word
    return step


def show(body: dict[str, Any]) -> str:
    assert (body["workflow_id"], body["task_token"]) == ("w", "t")
    if "replay_error" in body:
        assert body["commands"] == []
        kind = body.get("replay_error_kind", "")
        return f"replay_error {kind}\n  {body['replay_error']}".replace(" \n", "\n")
    lines = []
    for command in body["commands"]:
        fields = {k: v for k, v in command.items() if k not in ("type", "step_name", "sequence")}
        head = [command["type"]]
        if "sequence" in command:
            head.append(f"{command['step_name']} #{command['sequence']}")
        lines.append(" ".join([*head, json.dumps(fields)]))
    return "\n".join(lines) or "nothing new"


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_script(script: Path, *, rewrite: bool) -> None:
    def say(directive: str, lines: tuple[str, ...]) -> str:
        facts = {}
        if lines and lines[0].startswith("task "):
            first, *lines = lines
            facts = dict(word.split("=", 1) for word in shlex.split(first)[1:])
        given = task([parse_step(line) for line in lines]) | facts
        return show(decide(WORKFLOWS[directive], given))

    datadriven.run(script, say, rewrite=rewrite)


outcomes = st.one_of(
    st.builds(
        lambda out: {"status": "COMPLETED", "output": out}, st.sampled_from(["yes", "no", ""])
    ),
    st.builds(
        lambda error: {"status": "FAILED", "error": error, "error_type": "E"},
        st.sampled_from(["declined", ""]),
    ),
)


def play(answers: list[Step]) -> list[tuple[list[Step], dict[str, Any]]]:
    """Run `order` to its end against the answers; each decision with the history that it saw."""
    steps: list[Step] = []
    decisions = []
    for answer in answers:
        body = decide(order, task(steps))
        decisions.append((copy.deepcopy(steps), body))
        (command,) = body["commands"]
        if "sequence" not in command:
            break
        kind = {"schedule_activity": "ACTIVITY", "start_timer": "TIMER", "await_signal": "SIGNAL"}
        step = {"kind": kind[command["type"]], "step_name": command["step_name"], "attempts": 1}
        certain = {"status": "COMPLETED", "output": answer.get("output", "yes")}
        steps.append({**step, **(answer if step["kind"] == "ACTIVITY" else certain)})
    return decisions


@pytest.mark.slow
@given(st.lists(outcomes, min_size=8, max_size=8))
def test_any_prefix_of_a_history_decides_the_same(answers: list[Step]) -> None:
    decisions = play(answers)
    assert "sequence" not in decisions[-1][1]["commands"][0], "the run ended"
    longest = decisions[-1][0]
    for length, (steps, body) in enumerate(decisions):
        assert steps == longest[:length]
        assert decide(order, task(longest[:length])) == body


@pytest.mark.slow
@given(st.lists(outcomes, min_size=8, max_size=8))
def test_a_step_in_flight_adds_nothing(answers: list[Step]) -> None:
    for steps, body in play(answers)[:-1]:
        (command,) = body["commands"]
        kind = {"schedule_activity": "ACTIVITY", "start_timer": "TIMER", "await_signal": "SIGNAL"}
        pending = {"kind": kind[command["type"]], "step_name": command["step_name"]}
        again = decide(order, task([*steps, {**pending, "status": "SCHEDULED"}]))
        assert again["commands"] == []


def test_the_task_is_only_read() -> None:
    given_task = task([{"kind": "ACTIVITY", "step_name": "reserve", "status": "SCHEDULED"}])
    before = copy.deepcopy(given_task)
    decide(order, given_task)
    assert given_task == before


def test_input_is_read_as_the_type_asks() -> None:
    body = decide(WORKFLOWS["nothing"], task([], text='{"a": 1}'), decode="json")
    assert body["commands"] == [{"type": "complete_workflow", "output": '{"a":1}'}]


def test_binary_output_is_exact() -> None:
    body = decide(lambda ctx: b"\xff\x00", task([]))
    assert body["commands"] == [{"type": "complete_workflow", "output_base64": "/wA="}]


def test_keyboard_interrupt_is_for_the_worker() -> None:
    def interrupted(ctx: object) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decide(interrupted, task([]))


def test_suspension_is_not_an_exception() -> None:
    assert not issubclass(Suspended, Exception)


def test_the_context_knows_its_run() -> None:
    def who(ctx: Any) -> object:
        return [ctx.workflow_id, ctx.run_id, ctx.workflow_type]

    assert json.loads(decide(who, task([]))["commands"][0]["output"]) == ["w", "r", "Order"]


def test_a_negative_sleep_is_a_bug_of_the_code() -> None:
    body = decide(lambda ctx: ctx.sleep("back", -1), task([]))
    assert body["commands"][0]["error"].startswith("ValueError: cannot sleep -1 seconds (test_deci")
