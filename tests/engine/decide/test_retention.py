"""Scripts tell the ordinary cases; here is what one entry may do to a run and forget."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import engine_harness as make
import pytest
from engine_harness import EngineHarness
from engine_script import play, scripts

from raftflow.engine.commands import FEATURE_LEVEL, IdReusePolicy, TerminateRun
from raftflow.engine.rejections import Done, Reason, Rejection, Started
from raftflow.engine.state import Changes


@pytest.mark.parametrize("script", scripts("retention"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite: bool) -> None:
    play(script, rewrite=rewrite)


END = TerminateRun(namespace="default", workflow_id="w", run_id="", reason="", request_id="")


@pytest.fixture
def harness() -> EngineHarness:
    harness = EngineHarness()
    harness.register("Order")
    return harness


def test_a_whole_life_in_one_entry_leaves_nothing(harness: EngineHarness) -> None:
    start = make.start("w", execution_timeout_ms=50)
    applied = harness.apply(start, make.signal("w", "go"), END, make.delete("w"))
    changes = applied.changes
    assert list(changes.deleted) == [("default", "w", "r1")]
    assert list(changes.current.values()) == [None]
    assert changes == Changes(current=changes.current, deleted=changes.deleted)
    assert not any(harness.rows.of_runs())


def test_what_the_entry_did_to_other_runs_stays(harness: EngineHarness) -> None:
    harness.start("w")
    harness.do(END)
    again = make.start("w", run_id="r2", reuse=IdReusePolicy.ALLOW_DUPLICATE)
    applied = harness.apply(again, make.start("other"), make.delete("w"), make.signal("w", "go"))
    assert [type(reply.answer) for reply in applied.replies] == [Started, Started, Done, Done]
    assert [key.run_id for key in applied.changes.runs] == ["r2", "r1"]
    assert harness.run("w").older_runs == 0


def test_a_run_does_not_begin_anew_in_the_entry_that_forgets_it(harness: EngineHarness) -> None:
    """Its rows go with that entry, and those of its namesake would go, too."""
    harness.start("w")
    harness.do(END)
    applied = harness.apply(make.delete("w"), make.start("w"), make.start("w", run_id="r2"))
    _, same, other = [reply.answer for reply in applied.replies]
    assert isinstance(same, Rejection)
    assert same.reason is Reason.INVALID_COMMAND
    assert other == Started("r2", True)
    assert harness.rows.runs.keys() == {("default", "w", "r2")}


@pytest.mark.parametrize("restarted", [False, True])
def test_runs_of_an_older_release_count_on_every_node(
    harness: EngineHarness, restarted: bool
) -> None:
    """Also on one that has had them in memory ever since."""
    harness.feature_level = 1
    for run_id in ("r1", "r2"):
        harness.do(make.start("w", run_id=run_id, reuse=IdReusePolicy.ALLOW_DUPLICATE))
        harness.do(END)
    harness.feature_level = FEATURE_LEVEL
    if restarted:
        harness.reload()
    refused = harness.do(make.delete("w", "r2"))
    assert isinstance(refused, Rejection)
    assert refused.reason is Reason.OLDER_RUNS_KEPT
    assert harness.do(make.delete("w", "r1")) == Done(forgotten=1)
    last = dataclasses.replace(make.delete("w", "r2"), older=1)
    assert harness.do(last) == Done(forgotten=2)
