"""What each release added: one table, and who may use it when."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from engine_harness import start

from raftflow.cluster.errors import FeatureUnavailable
from raftflow.cluster.features import DELETION, EAGER, MEMBERSHIP, Levels, needed
from raftflow.engine import commands as c
from raftflow.engine.retry import RetryPolicy


@dataclass(frozen=True)
class Member:
    feature_level: int
    version: str


START = start("w")
NEW, MIDDLE, OLD, UNKNOWN = (
    Member(4, "0.4.0"),
    Member(2, "0.2.0"),
    Member(1, "0.1.0"),
    Member(0, ""),
)


def levels(*members: Member, agreed: int = 0) -> Levels:
    table = {f"n{number}": member for number, member in enumerate(members, start=1)}
    return Levels(members=lambda: table, agreed=lambda: agreed)


def decision(*commands: c.WorkflowCommand) -> c.CompleteDecision:
    return c.CompleteDecision(
        namespace="default", workflow_id="w", task_token="t", commands=commands
    )


def activity(**fields: Any) -> c.ScheduleActivity:
    return c.ScheduleActivity(
        step_name="s", sequence=1, input=b"", task_queue="", **{"retry": RetryPolicy()} | fields
    )


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (START, None),
        (replace(START, memo='{"a":1}'), "memos"),
        (replace(START, signal_name="go"), "starting with a signal"),
        (decision(), None),
        (decision(activity()), None),
        (decision(activity(priority=1)), "priorities"),
        (decision(activity(retry=RetryPolicy(jitter_milli=5))), "jitter"),
        (decision(c.CancelStep(step_name="s", sequence=1)), "cancelling steps"),
        (c.UpdateNamespace(namespace="a", retention_ms=1, request_id=""), "changing a namespace"),
        (
            c.SetQuota(namespace="a", max_open_runs=1, starts_per_second=0, request_id=""),
            "quotas of namespaces",
        ),
    ],
)
def test_what_a_command_needs(command: Any, name: str | None) -> None:
    feature = needed(command)
    assert (feature and feature.name) == name


def test_the_oldest_member_counts() -> None:
    assert levels(NEW, NEW, NEW).level == 4
    assert levels(NEW, MIDDLE, NEW).level == 2
    assert levels(NEW, MIDDLE, OLD).level == 1


def test_who_was_not_heard_of_counts_as_what_the_log_says() -> None:
    fresh = levels(NEW, NEW, UNKNOWN)
    assert fresh.level == 4  # an empty log: a new cluster
    waiting = levels(NEW, NEW, UNKNOWN)
    waiting.saw_entry(1)
    assert waiting.level == 1


def test_it_never_falls() -> None:
    table = {"n1": NEW, "n2": NEW}
    tracked = Levels(members=lambda: table)
    assert tracked.level == 4
    table["n2"] = OLD
    assert tracked.level == 4


def test_a_guess_does_not_last() -> None:
    table = {"n1": NEW, "n2": UNKNOWN}
    tracked = Levels(members=lambda: table)
    assert tracked.level == 4
    table["n2"] = OLD
    assert tracked.level == 1


def test_what_the_members_agreed_on_comes_first() -> None:
    assert levels(NEW, NEW, agreed=2).level == 2
    assert levels(NEW, UNKNOWN, agreed=3).level == 3


def test_a_refusal_names_who_holds_it_back() -> None:
    mixed = levels(NEW, OLD, UNKNOWN)
    mixed.saw_entry(1)
    with pytest.raises(FeatureUnavailable) as refused:
        mixed.check(c.PauseRun(namespace="", workflow_id="", run_id="", reason="", request_id=""))
    assert (refused.value.needs_level, refused.value.level) == (2, 1)
    assert refused.value.held_back_by == ("n2", "n3")
    assert "pausing runs: this needs feature level 2 (release 0.2)" in str(refused.value)
    assert "n2 (0.1.0), n3 (not heard of yet)" in str(refused.value)


def test_each_level_opens_what_it_brought() -> None:
    middle = levels(NEW, MIDDLE)
    assert middle.allows(EAGER)
    assert middle.allows(DELETION)
    assert not middle.allows(MEMBERSHIP)
