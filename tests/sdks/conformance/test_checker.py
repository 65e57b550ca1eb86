"""The suite finds what it must: workflows that do not as the words say, replays that differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import conformance
import conformance_records
import conformance_sync
import pytest

from raftflow_sdk import ActivityFailure, Context, WorkflowFailure


def forgets_to_compensate(ctx: Context) -> Any:
    booked = [ctx.activity("book_flight", ctx.input), ctx.activity("book_hotel", ctx.input)]
    try:
        return ",".join([*booked, ctx.activity("book_car", ctx.input)])
    except ActivityFailure as err:
        raise WorkflowFailure(f"booking failed: {err}", error_type=err.error_type) from err


def never_tries_again(ctx: Context) -> Any:
    names = ("book_flight", "book_hotel", "book_car")
    return ",".join(ctx.activity(name, ctx.input) for name in names)


@pytest.mark.parametrize(
    ("name", "workflow"),
    [
        ("saga/compensates-in-reverse-order", forgets_to_compensate),
        ("saga/completes-after-retries", never_tries_again),
    ],
)
def test_a_wrong_workflow_is_found(name: str, workflow: Callable[..., Any]) -> None:
    (scenario,) = [each for each in conformance.scenarios() if each.name == name]
    stage = conformance.InProcess(scenario, "sync")
    stage.env.deploy({"Saga": workflow})
    with pytest.raises(AssertionError):
        conformance.play(scenario, stage)


def test_a_replay_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    path = conformance_records.FOLDER / "saga.completes.saga-1.json"
    document = json.loads(path.read_text())
    conformance_records.check(document, "sync")
    monkeypatch.setattr(conformance_sync, "saga", never_tries_again)
    with pytest.raises(AssertionError, match="at 3 events"):
        conformance_records.check(document, "sync")


def test_no_run_must_decide_faster_than_an_election() -> None:
    """A run that ended before its first decision has no steps, which a busy machine can bring."""
    starts = [
        call["start"]
        for scenario in conformance.scenarios()
        for call in scenario.document["calls"]
        if "start" in call
    ]
    limits = [each["execution_timeout_ms"] for each in starts if "execution_timeout_ms" in each]
    assert min(limits) >= 5_000
