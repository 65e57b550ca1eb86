"""Recorded histories replay: at each decision point the commands that were given then, for ever.

`--rewrite` records the scenarios that have no record yet; a record is never written again.
"""

from __future__ import annotations

import json
from pathlib import Path

import conformance
import conformance_records
import pytest
from conformance_code import IMPLEMENTATIONS, code_of, decode_of
from history_fold import read_history

from raftflow.cluster.api.views import history_event
from raftflow_sdk.replay import Replayer

RECORDED = [each for each in conformance.scenarios() if each.recorded]
FILES = sorted(conformance_records.FOLDER.glob("*.json"))


@pytest.mark.parametrize("scenario", RECORDED, ids=lambda each: each.name)
def test_every_scenario_is_recorded(scenario: conformance.Scenario, rewrite: bool) -> None:
    stage = conformance.InProcess(scenario, "sync")
    conformance.play(scenario, stage)
    if rewrite:
        conformance_records.write(scenario, stage)
    for name in conformance_records.record(scenario, stage):
        path = conformance_records.FOLDER / f"{name}.json"
        assert path.exists(), f"{path.name} is missing; --rewrite records it"


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_replay_decides_as_recorded(path: Path, implementation: str) -> None:
    conformance_records.check(json.loads(path.read_text()), implementation)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_both_forms_tell_the_same(path: Path) -> None:
    recorded = json.loads(path.read_text())["events"]
    shown = [history_event(event) for event in read_history(path.with_suffix(".history"))]
    for event, was in zip(shown, recorded, strict=True):
        assert {name: event[name] for name in was} == was


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_replayer_agrees_with_the_history(path: Path, implementation: str) -> None:
    document = json.loads(path.read_text())
    name, last = document["workflow_type"], document["decisions"][-1]
    workflow = code_of(implementation, name, last.get("variant", ""))
    replayer = Replayer({name: workflow}, decode=decode_of(name))
    for history in (document, path.with_suffix(".history")):
        replayed = replayer.check(history)
        assert replayed.run_id == document["run_id"]
