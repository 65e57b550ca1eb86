"""Steps of every kind, as the code of a foreign client sees them, with a worker on each node."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import workflowd
from dev_cluster import wait_for

from tests.compat.workflows import release, seen

pytestmark = pytest.mark.cluster

Through = Callable[[], workflowd.Worker]
Ended = Callable[..., dict]


def waits_for(through: Through, workflow_id: str, kind: str, name: str) -> dict:
    """The run, once its step of this name is open."""

    def open_step() -> dict | None:
        run = through().describe(workflow_id)
        found = [
            wait
            for wait in run["waiting_on"]
            if (wait["kind"], wait.get("step_name")) == (kind, name)
        ]
        return run if found else None

    return wait_for(f"{workflow_id} waits for {name}", open_step)


@pytest.mark.parametrize(
    ("card", "good_at", "end"),
    [
        ("good", 1, "paid at 1"),
        ("good", 3, "paid at 3"),
        ("broken", 9, ["pay", "ConnectionError", "attempt 3", False]),
        ("declined", 1, ["pay", "Declined", "no money", False]),
        ("stolen", 1, ["pay", "Stolen", "call the police", True]),
    ],
)
def test_a_saga_with_retries_and_compensation(
    through: Through, ended: Ended, card: str, good_at: int, end: object
) -> None:
    order = {"id": 7, "card": card, "good_at": good_at}
    workflow_id = f"saga-{card}-{good_at}"
    through().start("Saga", order, workflow_id)
    run = ended(workflow_id)
    attempts = [n for what, n in seen[workflow_id] if what == "pay"]
    assert attempts == list(range(1, {"broken": 3}.get(card, good_at) + 1))
    assert run["steps"][2]["attempts"] == len(attempts)
    if isinstance(end, str):
        assert run["status"] == "COMPLETED", run
        assert json.loads(run["output"]) == {"paid": end, "sent": "sent 7"}
    else:
        assert run["status"] == "FAILED", run
        assert json.loads(run["error"]) == end
        assert seen[workflow_id][-1] == ("refund", True)


def test_twenty_activities_at_once(through: Through, ended: Ended) -> None:
    through().start("FanOut", "20", "fan-out")
    run = ended("fan-out")
    assert json.loads(run["output"]) == [n * n for n in range(20)]
    assert [step["attempts"] for step in run["steps"]] == [1] * 20
    order = [step["resolved_event_id"] for step in run["steps"]]
    assert len(set(order)) == 20


def test_a_race_is_decided_once_and_the_losers_are_told(through: Through, ended: Ended) -> None:
    through().start("Race", "", "race")
    answer = json.loads(ended("race")["output"])
    assert answer["won"] == 1
    assert answer["lost"] == [["hold", "cancelled"], "", ["reply", "cancelled"]]
    cancelled = [step.get("error") for step in through().describe("race")["steps"]]
    assert cancelled == ["lost a wait_any race", None, "lost a wait_any race"]
    note = seen["race/hold"]
    wait_for("the activity that lost is told", lambda: ("cancelled", True) in note or not note)


def test_a_late_signal_goes_to_the_next_wait(through: Through, ended: Ended) -> None:
    through().start("LateSignal", "", "late")
    waits_for(through, "late", "SIGNAL", "second")
    through().signal("late", "go", {"n": 1})
    waits_for(through, "late", "SIGNAL", "third")
    through().signal("late", "go", "three")
    run = ended("late")
    assert json.loads(run["output"]) == [None, {"n": 1}, "three"]
    assert [signal["taken_by"] for signal in run["signals"]] == [3, 4]
    assert run["steps"][0]["status"] == "CANCELLED"


def test_a_wait_that_is_cancelled_in_its_own_decision_takes_no_signal(
    through: Through, ended: Ended
) -> None:
    through().start("Withdrawn", "", "withdrawn")
    through().signal("withdrawn", "go", "mine")
    run = ended("withdrawn")
    assert json.loads(run["output"]) == ["never", "nobody cares", "mine"]
    assert [signal["taken_by"] for signal in run["signals"]] == [2]


def test_code_changes_while_runs_are_in_flight(through: Through, ended: Ended) -> None:
    through().start("Versioned", "", "old")
    waits_for(through, "old", "SIGNAL", "gate")
    release["old"], release["new"] = 1, 1
    through().start("Versioned", "", "new")
    waits_for(through, "new", "SIGNAL", "gate")
    for workflow_id, version in (("old", workflowd.DEFAULT_VERSION), ("new", 1)):
        through().signal(workflow_id, "go", "x")
        assert json.loads(ended(workflow_id)["output"]) == [version, "x"]
    marker = through().describe("new")["steps"][0]
    assert (marker["kind"], marker["marker"], marker["output"]) == ("MARKER", "version", "1")


def test_code_that_dropped_a_version_or_diverges_fails_its_run(
    through: Through, ended: Ended
) -> None:
    release["dropped"] = 1
    through().start("Versioned", "", "dropped")
    through().start("Diverging", "", "diverging")
    waits_for(through, "dropped", "SIGNAL", "gate")
    waits_for(through, "diverging", "SIGNAL", "now")
    release["dropped"], release["diverging"] = 2, 1
    for workflow_id, said in (("dropped", "recorded version 1"), ("diverging", '"now"')):
        through().signal(workflow_id, "go", "x")
        run = ended(workflow_id)
        assert run["status"] == "FAILED"
        assert said in run["error"]


def test_a_side_effect_happens_once(through: Through, ended: Ended) -> None:
    through().start("SideEffect", "", "side-effect")
    drawn, text = json.loads(ended("side-effect")["output"])
    assert seen["side-effect"] == ["drawn"]
    assert seen["side-effect/values"] == [drawn] * len(seen["side-effect/values"])
    assert text == "plain"


def test_clock_and_random_numbers_are_the_same_on_every_replay(
    through: Through, ended: Ended
) -> None:
    through().start("Clock", "", "clock")
    run = ended("clock")
    told = json.loads(run["output"])
    assert seen["clock"] == [told]
    steps = run["steps"]
    assert len(steps) == 3
    moments = [told[0], told[2], told[4]]
    times = [run["started_at"], steps[0]["resolved_at"], steps[2]["resolved_at"]]
    assert moments == [f"{t[:-1]}+00:00" if t[-8:] != ".000000Z" else _whole(t) for t in times]
    assert len({told[1], told[3], told[5]}) == 3
    assert moments == sorted(moments)


def _whole(moment: str) -> str:
    return moment.replace(".000000Z", "+00:00")


def test_timeouts_of_an_activity(through: Through, ended: Ended) -> None:
    through().start("Timeouts", "", "timeouts")
    run = ended("timeouts")
    assert json.loads(run["output"]) == [
        "OSError",  # another attempt would have come too late: the last one's error stands
        "StartToCloseTimeout",
        "StartToCloseTimeout",
        "ScheduleToCloseTimeout",
    ]
    assert [step["attempts"] for step in run["steps"]][1:] == [2, 1, 1]
    assert run["steps"][0]["attempts"] > 3
    told = [(2, 1), (2, 2), (3, 1), (4, 1)]
    wait_for("each attempt is told", lambda: sorted(seen["timeouts"]) == told)


def test_a_worker_that_vanishes_loses_its_lease(through: Through, ended: Ended) -> None:
    through().start("Abandoned", "", "abandoned")
    task = through().conn.request("GET", "/api/activity-tasks?activities=abandoned&worker_id=gone")
    assert task["lease_duration_ms"] == 4_000
    assert ended("abandoned")["output"] == "LeaseExpired"
    late = {key: task[key] for key in ("workflow_id", "step_name", "sequence", "lease_token")}
    with pytest.raises(Exception, match="409") as refused:
        through().conn.request("POST", "/api/activity-tasks/complete", {**late, "output": "x"})
    assert refused.value.body["reason"] == "LEASE_LOST"


PAYLOADS = {
    "text:empty": "",
    "text:words": "text é ✓ 🎈\n\0 and a NUL",
    "json:object": {"a": [1, None, "é"], "b": {"c": 1.5}},
    "json:number": 0,
    "bytes:raw": b"\xff\x00raw",
    "bytes:empty": b"",
    "text:mebibyte": "x" * (1 << 20),
    "bytes:mebibyte": bytes(range(256)) * (1 << 12),
}


@pytest.mark.parametrize("workflow_id", PAYLOADS)
def test_payloads_of_every_kind(through: Through, ended: Ended, workflow_id: str) -> None:
    payload = PAYLOADS[workflow_id]
    kind = workflow_id.partition(":")[0]
    through().start("Echo", payload, workflow_id)
    through().signal(workflow_id, "go", payload)
    run = ended(workflow_id)
    assert run["status"] == "COMPLETED", run.get("error")
    assert workflowd.read_payload(run, "output", kind) == payload
    assert workflowd.read_payload(run, "input", kind) == payload
