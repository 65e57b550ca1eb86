"""What is wrong with a saga is seen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.jepsen.checker.sagas import check_sagas
from tests.jepsen.history import OK, Call

Event = tuple[str, dict[str, Any]]

GOOD: tuple[Event, ...] = (
    ("workflow_started", {}),
    ("step_scheduled", {"sequence": 1, "step_name": "reserve"}),
    ("signal_received", {"payload": "yes"}),
    ("step_completed", {"sequence": 1}),
    ("workflow_completed", {}),
)


def call(f: str, start_ns: int, *, arguments: Any = None, result: Any = None) -> Call:
    return Call("sagas/1", f, "k", arguments, OK, result, start_ns, start_ns + 1)


def errors(*events: Event, more: tuple[Call, ...] = ()) -> tuple[str, ...]:
    made = [
        call("start", 1, result={"run_id": "r"}),
        call("signal", 3, arguments="yes"),
        *more,
        call(
            "events",
            90,
            result=[
                {"id": number, "type": kind, "time_ms": number, **fields}
                for number, (kind, fields) in enumerate(events, start=1)
            ],
        ),
    ]
    return check_sagas(made).errors


def test_a_good_saga_passes() -> None:
    seen = {"status": "COMPLETED", "signals": ["yes"]}
    assert errors(*GOOD, more=(call("read", 5, result=seen),)) == ()


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ((*GOOD[:4], GOOD[3], GOOD[4]), "2 results"),
        ((*GOOD[:3], *GOOD[2:]), "recorded twice"),
        ((*GOOD[:2], *GOOD[3:]), "acknowledged"),
        ((*GOOD, GOOD[2]), "not once at the end"),
        ((*GOOD[:2], ("signal_received", {"payload": "forged"}), *GOOD[2:]), "nobody sent"),
        ((*GOOD[:4], ("workflow_failed", {})), "failed"),
        (GOOD[:4], "stays open"),
    ],
)
def test_a_bad_history_does_not(events: tuple[Event, ...], words: str) -> None:
    assert any(words in error for error in errors(*events))


def test_what_faults_make_true_is_no_complaint() -> None:
    said = ["what a lost answer held comes back with its lease: no answer", "no node has answered"]
    assert not errors(*GOOD, more=(call("said", 8, result=said),))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (call("terminate", 5), "terminated, but ends with"),
        (call("start", 5, result={"run_id": "other"}), "one request, runs"),
        (call("read", 6, result={"status": "WAITING", "signals": []}), "stale read"),
        (call("ran", 7, result={"charge k": 2}), "more than once"),
        (call("said", 8, result=["Traceback"]), "complains"),
    ],
)
def test_what_clients_and_workers_saw_counts(more: Call, words: str) -> None:
    assert any(words in error for error in errors(*GOOD, more=(more,)))
