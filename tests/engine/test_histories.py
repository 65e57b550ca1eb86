"""Histories of every release, folded into runs: what an event meant when it was written it means
for ever. A recorded file is never written again; `--rewrite` only adds those that are missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from history_fold import fold, read_history

from raftflow.cluster.api import views
from raftflow.cluster.api.handlers.runs import DescribedRun
from raftflow.testing.run import as_json

HISTORIES = Path(__file__).parent / "histories"
FILES = sorted(HISTORIES.rglob("*.history"))

# Of a step that is open or was cancelled, history does not tell who had it and how often; nor who
# a child was before it reported.
_UNTOLD = frozenset({"attempts", "started_at", "worker_id", "node", "last_error", "run_id"})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(HISTORIES).as_posix())
def test_a_recorded_history_folds_into_the_run_that_it_was(path: Path) -> None:
    recorded = json.loads(path.with_suffix(".json").read_text())
    run, signals = fold(read_history(path))
    folded = as_json(views.described(DescribedRun(run, signals)))
    for name, value in recorded.items():
        if name == "steps":
            assert [_told(each) for each in folded[name]] == [_told(each) for each in value]
        else:
            assert folded[name] == value, name


def test_there_are_histories() -> None:
    assert {path.parts[-2] for path in FILES} >= {"v0.2.0"}


def _told(step: dict[str, Any]) -> dict[str, Any]:
    settled = step["kind"] == "ACTIVITY" and step["status"] in ("COMPLETED", "FAILED")
    untold = _UNTOLD - {"attempts"} if settled else _UNTOLD
    return {name: value for name, value in step.items() if name not in untold}
