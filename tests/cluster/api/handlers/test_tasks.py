"""Several tasks in one answer, and the next tasks in the answer to a completion."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from json_client import Client
from single_node import Served

FAN_OUT = [
    {"type": "schedule_activity", "step_name": name, "sequence": number}
    for number, name in enumerate(("pay", "ship", "pay"), start=1)
]


async def started(client: Client, workflow_id: str = "w", **fields: Any) -> dict[str, Any]:
    """The workflow task of a new run."""
    await client.post("/api/workflow-types", {"workflow_types": ["Order"]})
    await client.post(
        "/api/workflows", {"type": "Order", "workflow_id": workflow_id, "input": "x", **fields}
    )
    task = (await client.get(f"/api/workflow-tasks?task_queue={fields.get('task_queue', '')}")).json
    assert task["workflow_id"] == workflow_id
    return {"workflow_id": workflow_id, "task_token": task["task_token"]}


def outcome(task: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "workflow_id": task["workflow_id"],
        "lease_token": task["lease_token"],
        "output": "done",
        **fields,
    }


async def test_a_poll_for_several_tasks_gets_a_list(client: Client) -> None:
    await client.post(
        "/api/workflow-tasks/complete", {**await started(client), "commands": FAN_OUT}
    )
    first = (await client.get("/api/activity-tasks?activities=pay&max=2")).json["tasks"]
    assert [task["sequence"] for task in first] == [1, 3]
    rest = (await client.get("/api/activity-tasks?max=100")).json["tasks"]
    assert [task["step_name"] for task in rest] == ["ship"]


async def test_a_poll_for_several_workflow_tasks_too(client: Client) -> None:
    await client.post("/api/workflow-types", {"workflow_types": ["Order"]})
    for number in range(3):
        await client.post("/api/workflows", {"type": "Order", "workflow_id": f"w{number}"})
    tasks = (await client.get("/api/workflow-tasks?types=Order&max=2")).json["tasks"]
    assert [task["workflow_id"] for task in tasks] == ["w0", "w1"]
    assert tasks[0]["steps"] == []
    assert (await client.get("/api/workflow-tasks?max=1")).json["workflow_id"] == "w2"


@pytest.mark.parametrize("most", ["0", "101", "many"])
async def test_max_has_bounds(client: Client, most: str) -> None:
    for path in ("/api/workflow-tasks", "/api/activity-tasks"):
        assert (await client.get(f"{path}?max={most}")).status == 400


async def test_an_eager_caller_runs_a_whole_workflow_without_a_poll(client: Client) -> None:
    decision = await started(client)
    eager = {"worker_id": "w1", "activities": ["pay"], "max": 5, "request_id": "q1"}
    answer = (
        await client.post(
            "/api/workflow-tasks/complete", {**decision, "commands": FAN_OUT, "eager": eager}
        )
    ).json
    assert [task["sequence"] for task in answer["activity_tasks"]] == [1, 3]
    assert answer["activity_tasks"][0]["attempt"] == 1
    done = outcome(answer["activity_tasks"][0], eager={"worker_id": "w1", "types": ["Order"]})
    task = (await client.post("/api/activity-tasks/complete", done)).json["workflow_task"]
    assert task["steps"][0]["output"] == "done"
    # The same completion again hands over nothing: who lost an answer polls with its request id.
    assert (await client.post("/api/activity-tasks/complete", done)).json == {"status": "completed"}
    end = {
        "workflow_id": "w",
        "task_token": task["task_token"],
        "command": {"type": "complete_workflow", "output": "shipped"},
        "eager": {"worker_id": "w1"},
    }
    answer = (await client.post("/api/workflow-tasks/complete", end)).json
    assert answer == {"status": "completed", "activity_tasks": []}


async def test_an_eager_caller_gets_what_it_asked_for_only(client: Client) -> None:
    decision = await started(client)
    eager = {"worker_id": "w1", "task_queue": "elsewhere"}
    body = {**decision, "commands": FAN_OUT, "eager": eager}
    answer = (await client.post("/api/workflow-tasks/complete", body)).json
    assert answer["activity_tasks"] == []
    task = (await client.get("/api/activity-tasks")).json
    for wanted in ({"types": ["Invoice"]}, {"types": ["Order"], "task_queue": "elsewhere"}):
        done = outcome(task, eager=wanted)
        answer = await client.post("/api/activity-tasks/complete", done)
        assert answer.json == {"status": "completed"}


async def test_without_eager_answers_are_as_before(client: Client) -> None:
    body = {**await started(client), "commands": FAN_OUT}
    answer = await client.post("/api/workflow-tasks/complete", body)
    assert answer.json == {"status": "completed"}


@pytest.mark.parametrize(
    ("eager", "complaint"),
    [
        ("yes", "eager must be an object"),
        ({"types": ["Order"]}, "types"),
        ({"max": 101}, "eager.max must be 1 to 100"),
        ({"activities": "pay"}, "eager.activities must be a list"),
        ({"activities": [""]}, "activities must not be empty"),
        ({"request_id": "a.b"}, "request_id"),
    ],
)
async def test_a_bad_eager_field_is_named(client: Client, eager: Any, complaint: str) -> None:
    body = {**await started(client), "commands": [], "eager": eager}
    reply = await client.post("/api/workflow-tasks/complete", body)
    assert reply.status == 400
    assert complaint in reply.json["error"]


async def test_queues_do_not_meet(served: Served, client: Client) -> None:
    """The run's queue for its workflow tasks, the activity's own for its tasks, in each namespace
    anew."""
    decision = await started(client, task_queue="blue")
    commands = [FAN_OUT[0], {**FAN_OUT[1], "task_queue": "red"}]
    await client.post("/api/workflow-tasks/complete", {**decision, "commands": commands})
    blue = (await client.get("/api/activity-tasks?task_queue=blue&max=9")).json["tasks"]
    assert [(task["step_name"], task["sequence"]) for task in blue] == [("pay", 1)]
    red = (await client.get("/api/activity-tasks?task_queue=red&max=9")).json["tasks"]
    assert [task["step_name"] for task in red] == ["ship"]
    assert not served.node.parked


@pytest.fixture
def older(served: Served) -> None:
    """Another member is of release 0.1."""
    served.node.members["n2"] = SimpleNamespace(feature_level=1, version="0.1.0")


async def test_a_completion_goes_without_its_eager_poll_where_a_member_is_older(
    client: Client, older: None
) -> None:
    eager = {"worker_id": "w1", "activities": ["pay"], "max": 5, "request_id": "q1"}
    body = {**await started(client), "commands": FAN_OUT[:1], "eager": eager}
    answer = (await client.post("/api/workflow-tasks/complete", body)).json
    assert not answer.get("activity_tasks")
    task = (await client.get("/api/activity-tasks")).json
    done = outcome(task, eager={"worker_id": "w1", "types": ["Order"]})
    assert (await client.post("/api/activity-tasks/complete", done)).status == 200
    assert (await client.get("/api/workflow-tasks?types=Order")).json["workflow_id"] == "w"


async def test_a_decision_with_what_a_member_does_not_know_gives_its_task_back(
    client: Client, older: None
) -> None:
    child = {"type": "start_child_workflow", "workflow_type": "Order", "step_name": "c"}
    body = {**await started(client), "commands": [child | {"sequence": 1}]}
    refused = await client.post("/api/workflow-tasks/complete", body)
    assert (refused.status, refused.json["reason"]) == (409, "FEATURE_UNAVAILABLE")
    assert refused.json["feature"] == "child workflows"
    assert refused.json["held_back_by"] == ["n2"]
    again = await client.post("/api/workflow-tasks/complete", body)
    assert again.json["reason"] in ("FEATURE_UNAVAILABLE", "LEASE_LOST")
