"""Recorded histories: what a run of a scenario wrote, and what replay must decide at each point."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import conformance
from conformance import Json, Scenario
from conformance_code import code_of, decode_of

from raftflow.testing import Run
from raftflow_sdk import payloads
from raftflow_sdk.replay import decide

FOLDER = conformance.SUITE / "recorded"
HISTORIES = Path(__file__).resolve().parents[1] / "engine" / "histories" / "v0.2.0"

# A command without the field means these.
_DEFAULTS: Mapping[str, object] = {"backoff_coefficient": 2.0, "priority": 3}


def record(scenario: Scenario, stage: conformance.InProcess) -> dict[str, Json]:
    """The documents of all runs of a played scenario, by name."""
    documents = {}
    for workflow_id in stage.ids():
        for number, run in enumerate(stage.env.runs(workflow_id), start=1):
            name = f"{scenario.topic}.{scenario.document['name']}.{workflow_id}-{number}"
            documents[name] = _document(scenario, stage, run)
    return documents


def _document(scenario: Scenario, stage: conformance.InProcess, run: Run) -> Json:
    described = run.describe()
    decisions = []
    for number, decision in enumerate(stage.env.workers.decisions):
        if decision.task["run_id"] != run.run_id:
            continue
        point: Json = {}
        if described["workflow_type"] in stage.variants:
            point["variant"] = stage.variant_at(number)
        point["task"] = decision.task
        point["commands"] = decision.answer["commands"]
        if "replay_error_kind" in decision.answer:
            point["replay_error_kind"] = decision.answer["replay_error_kind"]
        decisions.append(point)
    head = ("workflow_type", "workflow_id", "run_id", "status")
    return {
        "scenario": scenario.name,
        **{name: described[name] for name in head},
        "not_compared": scenario.document.get("not_compared", []),
        "events": run.history,
        "decisions": decisions,
    }


def write(scenario: Scenario, stage: conformance.InProcess) -> None:
    """Add what is missing; what was recorded stays."""
    FOLDER.mkdir(exist_ok=True)
    HISTORIES.mkdir(parents=True, exist_ok=True)
    runs = {run.run_id: run for workflow_id in stage.ids() for run in stage.env.runs(workflow_id)}
    for name, document in record(scenario, stage).items():
        run = runs[document["run_id"]]
        _write(FOLDER / f"{name}.json", _pretty(document).encode())
        _write(FOLDER / f"{name}.history", run.export())
        _write(HISTORIES / f"{name}.history", run.export())
        _write(HISTORIES / f"{name}.json", json.dumps(run.describe(), indent=1).encode() + b"\n")


def _write(path: Path, content: bytes) -> None:
    if not path.exists():
        path.write_bytes(content)


def _pretty(document: Json) -> str:
    """An event or a decision a line."""
    lines = []
    for name, value in document.items():
        if name in ("events", "decisions"):
            rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in value)
            lines.append(f"{json.dumps(name)}: [\n{rows}\n]")
        else:
            lines.append(f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def check(document: Json, implementation: str) -> None:
    """Replay gives the recorded commands at each decision point."""
    name = document["workflow_type"]
    for point in document["decisions"]:
        workflow = code_of(implementation, name, point.get("variant", ""))
        answer = decide(workflow, point["task"], decode=decode_of(name))
        assert answer.get("replay_error_kind") == point.get("replay_error_kind"), answer
        ignored = document["not_compared"]
        decided = [_plain(command, ignored) for command in answer["commands"]]
        recorded = [_plain(command, ignored) for command in point["commands"]]
        assert decided == recorded, f"at {point['task']['history_length']} events"


def _plain(command: Mapping[str, Any], ignored: list[str]) -> Json:
    """A command as it compares: payloads as bytes, nothing that is as if it were absent."""
    plain: Json = {}
    for field in ("input", "output", "data"):
        if field in command or f"{field}_base64" in command:
            plain[field] = payloads.get(command, field)
    for name, value in command.items():
        if name.removesuffix("_base64") in ("input", "output", "data"):
            continue
        compared = _plain(value, []) if name == "retry_policy" else value
        if compared not in (None, "", 0, False, [], {}) and compared != _DEFAULTS.get(name):
            plain[name] = compared
    return {name: value for name, value in plain.items() if name not in ignored}
