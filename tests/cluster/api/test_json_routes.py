"""The JSON API over real sockets, with the real engine behind it."""

from __future__ import annotations

import asyncio
import base64
import re
import time
from typing import Any
from urllib.parse import quote

import pytest
from eventually import eventually
from json_client import Client
from single_node import STATE, Served

from raftflow.cluster.api.handlers import runs
from raftflow.cluster.backup.manifest import decode as decode_manifest


async def started(client: Client, workflow_id: str = "order-42", **fields: Any) -> Any:
    await client.post("/api/workflow-types", {"workflow_types": ["Order"], "worker_id": "w1"})
    body = {"type": "Order", "workflow_id": workflow_id, "input": "book", **fields}
    reply = await client.post("/api/workflows", body)
    assert reply.status == 201, reply.content
    return reply.json


async def decide(client: Client, *commands: dict[str, Any]) -> Any:
    task = (await client.get("/api/workflow-tasks?types=Order&worker_id=w1")).json
    body = {
        "workflow_id": task["workflow_id"],
        "task_token": task["task_token"],
        "commands": list(commands),
    }
    reply = await client.post("/api/workflow-tasks/complete", body)
    assert reply.status == 200, reply.content
    return task


async def test_a_run_from_start_to_end(client: Client) -> None:
    run = await started(client)
    assert run["started"] is True
    await decide(
        client,
        {"type": "schedule_activity", "step_name": "reserve", "sequence": 1, "input": "book"},
    )
    task = (await client.get("/api/activity-tasks?activities=reserve&worker_id=w1")).json
    assert task["step_name"] == "reserve"
    assert task["input"] == "book"
    done = {
        "workflow_id": "order-42",
        "step_name": "reserve",
        "sequence": 1,
        "lease_token": task["lease_token"],
        "output": "held",
    }
    beat = {"workflow_id": "order-42", "lease_token": task["lease_token"], "worker_id": "w1"}
    assert (await client.post("/api/activity-tasks/heartbeat", beat)).status == 200
    assert (await client.post("/api/activity-tasks/complete", done)).status == 200
    assert (await client.post("/api/activity-tasks/complete", done)).status == 200  # the same again
    lost = await client.post("/api/activity-tasks/heartbeat", beat)
    assert lost.status == 409
    assert lost.json["reason"] == "LEASE_LOST"
    await decide(client, {"type": "complete_workflow", "output": "shipped"})
    shown = (await client.get("/api/workflows/order-42")).json
    assert shown["status"] == "COMPLETED"
    assert shown["output"] == "shipped"
    assert [step["status"] for step in shown["steps"]] == ["COMPLETED"]


async def test_ids_of_every_kind_stand_in_paths(client: Client) -> None:
    for workflow_id in ("a/b", "%2F", "{braces}", "q?x=1#f", 'it"s', "späß 🙂", "signal", ".."):
        await started(client, workflow_id)
        path = f"/api/workflows/{quote(workflow_id, safe='')}"
        assert (await client.get(path)).json["workflow_id"] == workflow_id
        assert (await client.post(path + "/signal", {"name": "go"})).status == 200


async def test_payload_bytes_come_back_as_they_went_in(client: Client) -> None:
    binary = base64.b64encode(b"\xff\x00\x01").decode()
    await client.post("/api/workflow-types", {"workflow_types": ["Order"]})
    body = {"type": "Order", "workflow_id": "w", "input_base64": binary}
    assert (await client.post("/api/workflows", body)).status == 201
    shown = (await client.get("/api/workflows/w")).json
    assert shown["input_base64"] == binary
    assert "input" not in shown
    signal = {"name": "n", "payload_base64": base64.b64encode("ä".encode()).decode()}
    await client.post("/api/workflows/w/signal", signal)
    assert (await client.get("/api/workflows/w")).json["signals"][0]["payload"] == "ä"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"\xff", "not valid UTF-8"),
        (b'{"type": NaN}', "NaN is not JSON"),
        (b"[" * 200_000, "nests too deeply"),
        (b'{"type": "Order", "typ": 1}', 'unknown field "typ"'),
        (b'{"type": 1}', "type must be a string"),
        (b"{}", "type is required"),
        (b'{"type": "Order", "input": {}}', "input must be a string"),
        (b'{"type": "Order", "input": "\\ud800"}', "input is not valid Unicode"),
        (b'{"type": "Order", "input": "a", "input_base64": "YQ=="}', "exclude each other"),
        (b'{"type": "Order", "input_base64": "?"}', "input_base64 is not base64"),
        (b'{"type": "Order", "workflow_id": "a\\u0000"}', "control character"),
        (b'{"type": "Order", "execution_timeout_ms": 1.5}', "must be an integer"),
        (b'{"type": "Order", "execution_timeout_ms": true}', "must be an integer"),
        (b'{"type": "Order", "execution_timeout_ms": -1}', "must be 0 to"),
        (b'{"type": "Order", "execution_timeout_ms": ' + b"9" * 5_000 + b"}", "not valid JSON"),
        (b'{"type": "Order", "id_reuse_policy": "X"}', "must be one of REJECT_DUPLICATE"),
        (b'{"type": "Order", "search_attributes": {"a": []}}', "search_attributes.a must be"),
        (b'{"type": "Order", "search_attributes": {"a": null}}', "search_attributes.a must be"),
        (b'{"type": "Order", "search_attributes": {"": 1}}', "must not be empty"),
        (b'{"type": "Order", "search_attributes": {"a": 1e999}}', "is not a JSON value"),
        (b'{"type": "Order", "memo": "x"}', "memo must be an object"),
        (b'{"type": "Order", "memo": {"a": ["\\ud800"]}}', "memo is not valid Unicode"),
        (b'{"type": "Order", "signal": {}}', "signal.name is required"),
        (b'{"type": "Order", "signal": {"name": "n", "x": 1}}', 'unknown field "x" in signal'),
        (b'{"type": "Nobody"}', "Nobody"),
    ],
)
async def test_malformed_starts_are_refused(client: Client, body: bytes, message: str) -> None:
    reply = await client.call("POST", "/api/workflows", data=body)
    assert reply.status == 400, reply.content
    assert message in reply.json["error"]
    assert reply.json["code"] == "INVALID_ARGUMENT"


async def test_what_is_not_json_is_415(client: Client) -> None:
    form = await client.call("POST", "/api/workflows", data=b"{}", Content_Type="text/plain")
    assert form.status == 415
    zipped = await client.call("POST", "/api/workflows", data=b"{}", Content_Encoding="gzip")
    assert zipped.status == 415
    assert zipped.json["reason"] == "NOT_JSON"


async def test_sizes_are_bounded(client: Client) -> None:
    body = {"type": "Order", "input": "x" * (2 * 1024 * 1024 + 1)}
    payload = await client.post("/api/workflows", body)
    assert payload.status == 413
    assert "input has 2097153 bytes, the limit is 2097152" in payload.json["error"]
    whole = await client.call("POST", "/api/workflows", data=b" " * (8 * 1024 * 1024 + 1))
    assert whole.status == 413
    assert whole.json["reason"] == "BODY_TOO_LARGE"


async def test_paths_and_methods_that_do_not_exist(client: Client) -> None:
    for path in ("/api/nothing", "/api/workflows/a/b", "/api/workflows/", "/nothing"):
        reply = await client.get(path)
        assert (reply.status, reply.json["reason"]) == (404, "ROUTE_NOT_FOUND")
    reply = await client.call("PUT", "/api/workflows")
    assert (reply.status, reply.json["reason"]) == (405, "METHOD_NOT_ALLOWED")


async def test_unknown_runs_and_namespaces(client: Client) -> None:
    for path in ("", "/runs", "/history"):
        reply = await client.get("/api/workflows/nobody" + path)
        assert (reply.status, reply.json["reason"]) == (404, "WORKFLOW_NOT_FOUND")
    reply = await client.get("/api/workflows", X_Workflowd_Namespace="nowhere")
    assert (reply.status, reply.json["reason"]) == (404, "NAMESPACE_NOT_FOUND")
    created = await client.post("/api/namespaces", {"name": "nowhere"})
    assert created.status == 201
    reply = await client.get("/api/workflows", X_Workflowd_Namespace="nowhere")
    assert reply.json["total"] == 0
    again = await client.post("/api/namespaces", {"name": "nowhere"})
    assert again.status == 409


async def test_a_list_says_how_far_its_store_is(client: Client) -> None:
    for number in range(3):
        await started(client, f"order-{number}")
    reply = await client.get("/api/workflows?q=ORDER&status=WAITING&limit=2&offset=1")
    assert reply.json["total"] == 3
    assert [run["workflow_id"] for run in reply.json["workflows"]] == ["order-1", "order-0"]
    assert int(reply.headers["X-Workflowd-Applied-Index"]) == 4
    wrong = ("status=NO", "limit=x", "limit=-1", "started_after=today", "x=1", "cursor=x")
    for query in (*wrong, "q=%00", "q=ord%00er", "q=order%00"):
        assert (await client.get(f"/api/workflows?{query}")).status == 400, query


async def test_counts_by_status(client: Client) -> None:
    for number in range(3):
        await started(client, f"order-{number}")
    await client.post("/api/workflows/order-1/terminate", {})
    reply = await client.get("/api/workflow-counts")
    by_status = {"WAITING": 2, "TERMINATED": 1}
    assert reply.json == {"total": 3, "exact": True, "by_status": by_status}
    assert int(reply.headers["X-Workflowd-Applied-Index"]) == 5
    found = (await client.get("/api/workflow-counts?q=order-1&type=Order&attr.tier=")).json
    assert (found["total"], found["by_status"]) == (0, {})
    found = (await client.get("/api/workflow-counts?q=order-1&type=Order")).json
    assert found["by_status"] == {"TERMINATED": 1}
    for query in ("status=WAITING", "limit=1", "q=%00", "started_after=today"):
        assert (await client.get(f"/api/workflow-counts?{query}")).status == 400, query
    elsewhere = await client.get("/api/workflow-counts", **{"X-Workflowd-Namespace": "none"})
    assert elsewhere.json["reason"] == "NAMESPACE_NOT_FOUND"


async def test_a_run_may_have_the_name_of_a_collection(client: Client) -> None:
    await started(client, "counts")
    assert (await client.get("/api/workflows/counts")).json["workflow_id"] == "counts"


async def test_the_same_id_twice(client: Client) -> None:
    run = await started(client)
    again = await client.post("/api/workflows", {"type": "Order", "workflow_id": "order-42"})
    assert again.status == 409
    assert again.json["run_id"] == run["run_id"]
    body = {"type": "Order", "workflow_id": "order-42", "id_conflict_policy": "USE_EXISTING"}
    existing = await client.post("/api/workflows", body)
    assert (existing.status, existing.json["started"]) == (200, False)
    assert existing.json["run_id"] == run["run_id"]


async def test_the_same_request_id_twice(client: Client) -> None:
    await started(client, request_id="r1")
    body = {"type": "Order", "workflow_id": "order-42", "input": "book", "request_id": "r1"}
    again = await client.post("/api/workflows", body)
    assert (again.status, again.json["started"]) == (201, True)
    other = await client.post("/api/workflows", body | {"input": "pen"})
    assert (other.status, other.json["reason"]) == (409, "REQUEST_ID_REUSED")


async def test_a_start_without_an_id_is_repeatable(client: Client) -> None:
    await client.post("/api/workflow-types", {"workflow_types": ["Order"]})
    body = {"type": "Order", "input": "book", "request_id": "r1"}
    first = (await client.post("/api/workflows", body)).json
    assert re.fullmatch(r"Order-\d{13}-[0-9a-f]{8}", first["workflow_id"])
    assert (await client.post("/api/workflows", body)).json == first
    other = (await client.post("/api/workflows", body | {"request_id": "r2"})).json
    assert other["workflow_id"] != first["workflow_id"]


async def test_ending_a_run(client: Client) -> None:
    await started(client)
    path = "/api/workflows/order-42"
    assert (await client.post(path + "/cancel", {"reason": "late"})).json["status"] == "cancelled"
    assert (await client.post(path + "/cancel", {"reason": "late"})).status == 200
    closed = await client.post(path + "/terminate", {})
    assert (closed.status, closed.json["reason"]) == (409, "RUN_CLOSED")


async def test_commands_are_checked_by_place(client: Client) -> None:
    await started(client)
    task = (await client.get("/api/workflow-tasks")).json
    body = {"workflow_id": task["workflow_id"], "task_token": task["task_token"]}
    timer = {"type": "start_timer", "step_name": "t", "sequence": 1, "delay_ms": 1}
    for commands, message in (
        ([timer, timer | {"delay_ms": "1"}], "commands[1].delay_ms must be an integer"),
        ([timer | {"delay": 1}], 'unknown field "delay" in commands[0]'),
        ([{"type": "record_marker"}], "commands[0].marker must be one of"),
        ([{"type": "dance"}], "commands[0].type is not a command type"),
        ([7], "commands[0] must be an object"),
        ("x", "commands must be a list"),
    ):
        reply = await client.post("/api/workflow-tasks/complete", body | {"commands": commands})
        assert reply.status == 400, reply.content
        assert message in reply.json["error"]
    # The first of them gave the task back: it is offered again at once, not after its deadline.
    task = (await client.get("/api/workflow-tasks")).json
    wrong = await client.post(
        "/api/workflow-tasks/complete",
        {
            "workflow_id": task["workflow_id"],
            "task_token": task["task_token"],
            "commands": [timer | {"sequence": 2}],
        },
    )
    assert (wrong.status, wrong.json["reason"]) == (400, "BAD_SEQUENCE")


async def test_a_poll_that_hangs_up_gives_its_place_back(served: Served, client: Client) -> None:
    poll = asyncio.create_task(client.get("/api/workflow-tasks?types=Order"))
    await eventually(lambda: served.node.parked, "the poll is parked")
    poll.cancel()
    await eventually(lambda: not served.node.parked, "the poll is gone")
    await started(client)
    task = (await client.get("/api/workflow-tasks?types=Order")).json
    assert task["workflow_id"] == "order-42"


@pytest.mark.slow
async def test_a_poll_waits_as_long_as_it_says(client: Client) -> None:
    for kind in ("workflow", "activity"):
        begun = time.monotonic()
        reply = await client.get(f"/api/{kind}-tasks?wait=1000")
        assert reply.status == 204
        assert 1.0 <= time.monotonic() - begun < 10.0
        refused = await client.get(f"/api/{kind}-tasks?wait=0")
        assert (refused.status, refused.json["reason"]) == (400, "INVALID_FIELD")


async def test_several_activities_at_once(client: Client) -> None:
    await started(client)
    steps = [
        {"type": "schedule_activity", "step_name": "pick", "sequence": number}
        for number in (1, 2, 3)
    ]
    await decide(client, *steps)
    reply = await client.get("/api/activity-tasks?max=10")
    assert sorted(task["sequence"] for task in reply.json["tasks"]) == [1, 2, 3]


async def test_a_node_is_added_as_one_that_votes_or_one_that_does_not(client: Client) -> None:
    for kind, status in (("voter", 201), ("api", 201), ("boss", 400)):
        body = {"id": "n4", "raft": "h:1", "as": kind}
        reply = await client.post("/api/cluster/nodes", body)
        assert (reply.status, kind) == (status, kind), reply.content
    assert "as: voter or api" in reply.json["error"]


async def test_a_backup_is_the_state_behind_its_manifest(client: Client) -> None:
    reply = await client.get("/api/cluster/backup")
    assert (reply.status, reply.content) == (200, STATE)
    assert reply.headers["Content-Type"] == "application/octet-stream"
    manifest = decode_manifest(reply.headers["X-Raftflow-Backup"].encode())
    assert manifest.size == len(STATE)
    assert (await client.get("/api/cluster/backup?full=1")).json["reason"] == "UNKNOWN_FIELD"


async def test_history_as_json_and_as_file(client: Client) -> None:
    await started(client)
    page = (await client.get("/api/workflows/order-42/history")).json
    assert page["history_length"] == len(page["events"]) == 1
    assert page["events"][0]["type"] == "WorkflowStarted"
    waiting = asyncio.create_task(client.get("/api/workflows/order-42/history?from=2&wait=20000"))
    await asyncio.sleep(0)
    await client.post("/api/workflows/order-42/signal", {"name": "go", "payload": "now"})
    assert (await waiting).json["events"][0]["type"] == "SignalReceived"
    file = await client.get("/api/workflows/order-42/history?format=binary")
    assert file.headers["Content-Type"] == "application/octet-stream"
    assert int.from_bytes(file.content[:4], "little") < len(file.content)
    nothing = await client.get("/api/workflows/order-42/history?from=9&wait=1")
    assert nothing.status == 204


async def test_a_search_in_a_history(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await started(client)
    for number in range(9):
        payload = {"payload_base64": "//4="} if number == 5 else {"payload": f"note {number}"}
        body = {"name": "Größe" if number % 2 else "other", **payload}
        await client.post("/api/workflows/order-42/signal", body)

    async def found(query: str) -> tuple[list[int], int]:
        reply = await client.get(f"/api/workflows/order-42/history?{query}")
        assert reply.status == 200, reply.content
        events = [event["event_id"] for event in reply.json["events"]]
        return events, reply.json.get("next_from", 0)

    assert await found("q=gr%C3%96%C3%9Fe") == ([3, 5, 7, 9], 0)
    assert await found("q=signalreceived&from=4&limit=2") == ([4, 5], 6)
    assert await found("q=NOTE+7") == ([9], 0)
    assert await found("q=%2F%2F4%3D") == ([7], 0), "bytes that are no text, as they are shown"
    assert await found("q=payload") == ([], 0), "names of fields are no values"
    monkeypatch.setattr(runs, "SEARCHED_EVENTS", 4)
    monkeypatch.setattr(runs, "_SEARCHED_SLICE", 3)
    assert await found("q=note+4") == ([], 5)
    assert await found("q=note+4&from=5") == ([6], 9)
    for query in ("q=x&wait=1", "q=x&format=binary"):
        reply = await client.get(f"/api/workflows/order-42/history?{query}")
        assert (reply.status, reply.json["reason"]) == (400, "INVALID_FIELD")


async def test_the_node_and_the_cluster(client: Client) -> None:
    health = (await client.get("/api/health")).json
    assert (health["status"], health["leader"], health["role"]) == ("ok", "n1", "leader")
    assert health["workflows_active"] == 0
    await started(client)
    assert (await client.get("/api/health")).json["workflows_active"] == 1
    assert (await client.get("/api/ready")).json["ready"] is True
    cluster = (await client.get("/api/cluster")).json
    assert cluster["leader"] == "n1"
    assert cluster["nodes"][0]["connected"] is True
    assert cluster["nodes"][0]["disk_free_bytes"] > 0


async def test_a_hosted_type_is_known_from_the_first_moment(client: Client) -> None:
    reply = await client.post("/api/workflows", {"type": "Hosted", "workflow_id": "h"})
    assert reply.status == 201
    elsewhere = await client.post("/api/workflows", {"type": "Unknown", "workflow_id": "u"})
    assert (elsewhere.status, elsewhere.json["reason"]) == (400, "TYPE_NOT_REGISTERED")


async def test_the_request_id_of_a_poll_is_a_plain_word(client: Client) -> None:
    for path in ("/api/workflow-tasks", "/api/activity-tasks"):
        reply = await client.get(f"{path}?request_id=a.b")
        assert (reply.status, reply.json["reason"]) == (400, "INVALID_FIELD")
        assert "request_id" in reply.json["error"]


async def test_a_namespace_may_have_a_name_as_long_as_any_id(client: Client) -> None:
    """Its tasks' tokens say it, and are longer than an id."""
    named = {"X_Workflowd_Namespace": "n" * 1_000}
    assert (await client.post("/api/namespaces", {"name": "n" * 1_000})).status == 201
    await client.post("/api/workflow-types", {"workflow_types": ["Order"]}, **named)
    await client.post("/api/workflows", {"type": "Order", "workflow_id": "w"}, **named)
    task = (await client.get("/api/workflow-tasks", **named)).json
    schedule = {"type": "schedule_activity", "step_name": "pay", "sequence": 1}
    body = {"workflow_id": "w", "task_token": task["task_token"], "command": schedule}
    assert (await client.post("/api/workflow-tasks/complete", body, **named)).status == 200
    lease = {
        "workflow_id": "w",
        "lease_token": (await client.get("/api/activity-tasks", **named)).json["lease_token"],
    }
    assert len(lease["lease_token"]) > 1_000
    assert (await client.post("/api/activity-tasks/heartbeat", lease, **named)).status == 200
    done = {**lease, "output": "paid"}
    assert (await client.post("/api/activity-tasks/complete", done, **named)).status == 200
