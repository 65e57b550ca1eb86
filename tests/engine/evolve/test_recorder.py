from __future__ import annotations

import engine_harness as make
from engine_harness import EngineHarness

from raftflow.engine.commands import TerminateRun
from raftflow.engine.effects import HistoryGrew


def grown(effects: tuple[object, ...]) -> list[tuple[int, bool, bool, str]]:
    return [
        (e.history_length, e.opened, e.closed, e.status)
        for e in effects
        if isinstance(e, HistoryGrew)
    ]


def test_growth_is_told_once_a_run_and_batch() -> None:
    harness = EngineHarness()
    harness.register("Order")
    applied = harness.apply(make.start("w"), make.signal("w", "go"), make.signal("w", "go"))
    assert grown(applied.effects) == [(3, True, False, "WAITING")]
    applied = harness.apply(make.signal("w", "go"))
    assert grown(applied.effects) == [(4, False, False, "WAITING")]
    end = TerminateRun(namespace="default", workflow_id="w", run_id="", reason="", request_id="")
    assert grown(harness.apply(end).effects) == [(5, False, True, "TERMINATED")]
    assert grown(harness.apply(end).effects) == []


def test_a_grant_leaves_history_alone() -> None:
    harness = EngineHarness()
    harness.register("Order")
    harness.start("w")
    applied = harness.apply(make.grant_decision(harness.run("w"), nonce="n"))
    assert not applied.changes.events
    assert grown(applied.effects) == []
