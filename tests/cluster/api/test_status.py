"""The error table: complete, mapped alike for both transports, and documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from raftflow.cluster.api.status import TABLE, ApiError, of_exception, of_rejection
from raftflow.cluster.errors import HistoryDamaged, LeaseLost, Overloaded, Unavailable
from raftflow.engine.rejections import Reason, Rejection

PAGES = Path(__file__).resolve().parents[3] / "docs" / "errors"


@pytest.mark.parametrize("reason", list(Reason))
def test_every_rejection_has_a_situation(reason: Reason) -> None:
    error = of_rejection(Rejection(reason=reason, message="no", run_id="r"))
    assert error.situation.http >= 400
    assert error.body()["error"] == "no"


@pytest.mark.parametrize(
    ("raised", "http", "code", "details"),
    [
        (
            Unavailable("no leader"),
            503,
            "UNAVAILABLE",
            {"maybe_applied": False, "retry_after_ms": 1_000, "reason": "UNAVAILABLE"},
        ),
        (
            Unavailable("lost", maybe_applied=True, leader_http="h:1"),
            503,
            "UNAVAILABLE",
            {"maybe_applied": True, "leader_http": "h:1", "reason": "MAYBE_APPLIED"},
        ),
        (
            Overloaded("full", cause="proposals_pending", retry_after_ms=200),
            429,
            "RESOURCE_EXHAUSTED",
            {"cause": "proposals_pending", "retry_after_ms": 200},
        ),
        (LeaseLost(cancelled=True), 409, "FAILED_PRECONDITION", {"cancelled": True}),
        (HistoryDamaged("bad"), 500, "DATA_LOSS", {"reason": "HISTORY_DAMAGED"}),
        (ApiError("NOT_JSON", "no"), 415, "INVALID_ARGUMENT", {"reason": "NOT_JSON"}),
    ],
)
def test_what_the_node_raises(
    raised: Exception, http: int, code: str, details: dict[str, object]
) -> None:
    error = of_exception(raised)
    assert error is not None
    assert error.situation.http == http
    body = error.body()
    assert body["code"] == code
    assert {name: body[name] for name in details} == details


def test_a_bug_is_not_in_the_table() -> None:
    assert of_exception(KeyError("x")) is None


@pytest.mark.parametrize(
    ("reason", "http", "code"),
    [
        ("WORKFLOW_ID_IN_USE", 409, "ALREADY_EXISTS"),
        ("DECISION_STALE", 409, "ABORTED"),
        ("LEASE_LOST", 409, "FAILED_PRECONDITION"),
        ("RUN_CLOSED", 409, "FAILED_PRECONDITION"),
        ("TYPE_NOT_REGISTERED", 400, "INVALID_ARGUMENT"),
        ("BAD_SEQUENCE", 400, "INVALID_ARGUMENT"),
        ("WORKFLOW_NOT_FOUND", 404, "NOT_FOUND"),
        ("PAYLOAD_TOO_LARGE", 413, "INVALID_ARGUMENT"),
        ("UNAUTHENTICATED", 401, "UNAUTHENTICATED"),
        ("PERMISSION_DENIED", 403, "PERMISSION_DENIED"),
        ("NOT_JSON", 415, "INVALID_ARGUMENT"),
    ],
)
def test_the_public_contract(reason: str, http: int, code: str) -> None:
    assert (TABLE[reason].http, TABLE[reason].code.name) == (http, code)


def test_every_reason_has_a_page_that_says_the_same() -> None:
    pages = {path.stem for path in PAGES.glob("*.md")} - {"README"}
    assert pages == set(TABLE), "docs/errors/: one page for each reason of status.TABLE"
    for reason, situation in TABLE.items():
        text = (PAGES / f"{reason}.md").read_text()
        said = re.search(r"HTTP (\d+), gRPC ([A-Z_]+)", text)
        assert said, f"docs/errors/{reason}.md: begin with `HTTP nnn, gRPC CODE`"
        assert (int(said[1]), said[2]) == (situation.http, situation.code.name), reason
        assert "## What to do" in text, reason
    index = (PAGES / "README.md").read_text()
    assert all(f"({reason}.md)" in index for reason in TABLE)
