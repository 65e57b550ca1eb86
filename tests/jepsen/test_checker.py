"""The checker sees what it is there to see."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from checker import check_history
from workload import Saga


def events(*kinds: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"event_id": number, "type": kind, **fields}
        for number, (kind, fields) in enumerate(kinds, start=1)
    ]


GOOD = (
    ("WorkflowStarted", {}),
    ("StepScheduled", {"sequence": 1, "step_name": "reserve"}),
    ("SignalReceived", {"payload": "yes"}),
    ("StepCompleted", {"sequence": 1}),
    ("WorkflowCompleted", {}),
)


def complaints(*kinds: tuple[str, dict[str, Any]], saga: Saga | None = None) -> list[str]:
    found: list[str] = []
    saga = saga or Saga("w", "r", signals_ok=["yes"], signals_maybe={"yes"})
    check_history(saga, events(*kinds), found)
    return found


def test_a_good_history_passes() -> None:
    assert complaints(*GOOD) == []


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ((*GOOD[:4], GOOD[3], GOOD[4]), "several results"),
        ((*GOOD[:3], *GOOD[2:]), "recorded twice"),
        ((*GOOD[:2], *GOOD[3:]), "acknowledged"),
        ((*GOOD, GOOD[2]), "not once at the end"),
        ((*GOOD[:2], ("SignalReceived", {"payload": "forged"}), *GOOD[2:]), "nobody sent"),
        ((*GOOD[:4], ("WorkflowFailed", {})), "failed"),
    ],
)
def test_a_bad_history_does_not(changed: tuple[tuple[str, dict[str, Any]], ...], what: str) -> None:
    assert any(what in complaint for complaint in complaints(*changed))


def test_a_run_that_was_terminated_stays_so() -> None:
    saga = Saga("w", "r", signals_ok=["yes"], signals_maybe={"yes"}, terminated=True)
    assert any("terminated" in complaint for complaint in complaints(*GOOD, saga=saga))


def test_a_missing_event_is_seen() -> None:
    found: list[str] = []
    saga = Saga("w", "r", signals_maybe={"yes"})
    check_history(saga, [event for event in events(*GOOD) if event["event_id"] != 2], found)
    assert any("gaps" in complaint for complaint in found)
