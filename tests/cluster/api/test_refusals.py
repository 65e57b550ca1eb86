"""Refused calls are counted all, and logged in bounds."""

from __future__ import annotations

import pytest
import structlog

from raftflow.cluster.api import refusals
from raftflow.cluster.api.refusals import LINES_PER_S, Refusals
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.metrics import Metrics


def test_whoever_guesses_does_not_fill_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, now = Metrics(), [100.0]
    monkeypatch.setattr(refusals.time, "monotonic", lambda: now[0])
    noted = Refusals(metrics)
    error = ApiError("UNAUTHENTICATED", "this node does not know the token")
    with structlog.testing.capture_logs() as logged:
        for _ in range(LINES_PER_S + 7):
            noted.note("StartWorkflow", error, "10.0.0.9")
        now[0] += 1
        noted.note("StartWorkflow", ApiError("PERMISSION_DENIED", "no"), "10.0.0.9")
        noted.note("StartWorkflow", ApiError("INVALID_FIELD", "x"), "10.0.0.9")
        noted.note("StartWorkflow", None, "10.0.0.9")
    assert len(logged) == LINES_PER_S + 1
    assert (logged[-1]["untold"], logged[-1]["address"]) == (7, "10.0.0.9")
    refused = 'workflowd_calls_refused_total{limit="",reason="UNAUTHENTICATED"}'
    assert f"{refused} {LINES_PER_S + 7}.0" in metrics.render().decode()


def test_whose_token_is_good_no_more_is_told() -> None:
    noted = Refusals(Metrics())
    error = ApiError("UNAUTHENTICATED", "the token was revoked")
    error.actor = "a2b3c4d5e6f7"
    with structlog.testing.capture_logs() as logged:
        noted.note("PollTask", error, "10.0.0.9")
    assert logged[0]["actor"] == "a2b3c4d5e6f7"


def test_a_full_leader_is_counted_by_its_cause_and_told_by_nobody() -> None:
    metrics = Metrics()
    noted = Refusals(metrics)
    with structlog.testing.capture_logs() as logged:
        noted.note("StartWorkflow", ApiError("OVERLOADED", "full", cause="proposals"), "10.0.0.9")
    assert logged == []
    counted = 'workflowd_backpressure_rejected_total{cause="proposals"} 1.0'
    assert counted in metrics.render().decode()
