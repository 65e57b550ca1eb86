"""Bytes that must stay, release by release: `pytest --rewrite` records those of new messages.

What a release wrote decodes for ever to the values that it meant, and a value without what came
later is the same bytes still. The newest folder grows with the release in the making; a line in an
older one is never touched again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from any_value import Vocabulary

FOLDER = Path(__file__).parent.parent / "cluster" / "codec" / "golden"

# What each release added to the one before. Types that it added are not in the unions of older
# ones, fields are at their defaults there.
_NEW_IN_0_2 = Vocabulary(
    types=frozenset(
        {
            "UpdateNamespace",
            "PauseRun",
            "UnpauseRun",
            "DeleteRun",
            "DeliverMessage",
            "RecordMarker",
            "StartChildWorkflow",
            "CancelStep",
            "ContinueAsNew",
            "UpsertSearchAttributes",
            "WorkflowCancelRequested",
            "WorkflowContinuedAsNew",
            "SearchAttributesUpserted",
            "StepCancelled",
            "MarkerRecorded",
            "ChildStarted",
            "ChildCompleted",
            "ChildFailed",
        }
    ),
    fields=frozenset(
        {
            ("StartRun", "search_attributes"),
            ("StartRun", "memo"),
            ("StartRun", "signal_name"),
            ("StartRun", "signal_payload"),
            ("CancelRun", "graceful"),
            ("CompleteDecision", "new_run_id"),
            ("CompleteDecision", "eager"),
            ("CompleteActivity", "eager"),
            ("ScheduleActivity", "priority"),
            ("RetryPolicy", "jitter_milli"),
            ("RetryPolicy", "jitter_seed"),
            ("WorkflowStarted", "search_attributes"),
            ("WorkflowStarted", "memo"),
            ("WorkflowStarted", "continued_from_run_id"),
            ("WorkflowStarted", "parent_workflow_id"),
            ("WorkflowStarted", "parent_run_id"),
            ("WorkflowStarted", "parent_sequence"),
            ("StepScheduled", "priority"),
        }
    ),
)

# What 0.3 added is in no command.
_NEW_IN_0_4 = Vocabulary(
    types=frozenset(
        {"MintToken", "RevokeToken", "RecordCall", "ForgetAudit", "Attributed", "SetQuota"}
    ),
    fields=frozenset(
        {
            ("Rejection", "limit"),
            ("Rejection", "value"),
            ("Rejection", "retry_after_ms"),
            ("NamespaceRecord", "max_open_runs"),
            ("NamespaceRecord", "starts_per_second"),
            ("NamespaceRecord", "starts_paid_us"),
        }
    ),
)


def _without(*added: Vocabulary) -> Vocabulary:
    return Vocabulary(
        types=frozenset().union(*[each.types for each in added]),
        fields=frozenset().union(*[each.fields for each in added]),
    )


# Release -> what it did not know yet.
RELEASES = {
    "v0.1.0": _without(_NEW_IN_0_2, _NEW_IN_0_4),
    "v0.2.0": _NEW_IN_0_4,
    "v0.4.0": Vocabulary(),
}
NEWEST = "v0.4.0"


def check_golden(
    file: str, name: str, content: bytes, *, rewrite: bool, release: str = NEWEST
) -> None:
    """Compare with the line ``name`` of the release's golden ``file``, or of the last release
    before it that changed something."""
    known = {each: _lines(each, file) for each in RELEASES if each <= release}
    found = next((each for each in reversed(known) if name in known[each]), "")
    expected = known[found][name] if found else ""
    if rewrite and release == NEWEST != found and expected != content.hex():
        lines = known[NEWEST] | {name: content.hex()}
        path = FOLDER / NEWEST / f"{file}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{key} {value}\n" for key, value in sorted(lines.items())))
        return
    assert found, f"{name} is in no {file}.txt of {release} or before; --rewrite records it"
    assert expected == content.hex(), f"the bytes of {name} have changed since {found}"


def _lines(release: str, file: str) -> dict[str, str]:
    path = FOLDER / release / f"{file}.txt"
    return dict(line.split() for line in path.read_text().splitlines()) if path.exists() else {}


def releases_of(kinds: Iterable[type]) -> list[Any]:
    """Parameters: each release with each of the types that it had."""
    return [
        pytest.param(release, kind, id=f"{release}-{kind.__name__}")
        for release, without in RELEASES.items()
        for kind in kinds
        if kind.__name__ not in without.types
    ]
