"""What is done to runs from outside, over real sockets with the real engine behind them."""

from __future__ import annotations

from typing import Any

import pytest
from json_client import Client
from single_node import Served

from raftflow.cluster.api.handlers import deletion
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.engine.commands import Command

PATH = "/api/workflows/order-42"


async def started(client: Client, **fields: Any) -> Any:
    await client.post("/api/workflow-types", {"workflow_types": ["Order"]})
    body = {"type": "Order", "workflow_id": "order-42", **fields}
    reply = await client.post("/api/workflows", body)
    assert reply.status == 201, reply.content
    return reply.json


async def decide(client: Client, *commands: dict[str, Any]) -> Any:
    task = (await client.get("/api/workflow-tasks?types=Order")).json
    body = {"workflow_id": task["workflow_id"], "task_token": task["task_token"]}
    reply = await client.post("/api/workflow-tasks/complete", body | {"commands": list(commands)})
    assert reply.status == 200, reply.content
    return task


def timer(sequence: int) -> dict[str, Any]:
    return {"type": "start_timer", "step_name": "t", "sequence": sequence, "delay_ms": 60_000}


async def test_a_graceful_cancel_tells_the_code(client: Client) -> None:
    await started(client)
    await decide(client, timer(1))
    body = {"graceful": True, "reason": "no stock", "request_id": "r1"}
    for _ in range(2):
        reply = await client.post(PATH + "/cancel", body)
        assert (reply.status, reply.json["status"]) == (200, "cancel_requested")
    shown = (await client.get(PATH)).json
    assert (shown["status"], shown["cancel_reason"]) == ("WAITING", "no stock")
    assert shown["cancel_requested_at"].endswith("Z")
    marker = {"type": "record_marker", "step_name": "cancellation", "sequence": 2}
    task = await decide(
        client,
        marker | {"marker": "cancel", "data": "3"},
        {"type": "cancel_step", "step_name": "t", "sequence": 1, "reason": "cancelled"},
        {"type": "fail_workflow", "error": "no stock", "cancelled": True},
    )
    assert task["cancel_requested_event_id"] == task["history_length"]
    assert (task["cancel_requested_at"], task["cancel_reason"]) == (
        shown["cancel_requested_at"],
        "no stock",
    )
    closed = (await client.get(PATH)).json
    assert closed["status"] == "CANCELLED"
    assert [step["status"] for step in closed["steps"]] == ["CANCELLED", "COMPLETED"]
    assert closed["steps"][1]["marker"] == "cancel"


async def test_a_paused_run_gets_no_decision(client: Client) -> None:
    await started(client)
    for _ in range(2):
        reply = await client.post(PATH + "/pause", {"reason": "audit"})
        assert (reply.status, reply.json["status"]) == (200, "paused")
    shown = (await client.get(PATH)).json
    assert (shown["status"], shown["error"]) == ("PAUSED", "paused: audit")
    for _ in range(2):
        reply = await client.post(PATH + "/unpause", {})
        assert (reply.status, reply.json["status"]) == (200, "unpaused")
    assert (await decide(client, timer(1)))["workflow_id"] == "order-42"
    assert "error" not in (await client.get(PATH)).json
    assert (await client.post(PATH + "/pause", {"x": 1})).status == 400
    await client.post(PATH + "/terminate", {})
    for verb in ("pause", "unpause"):
        reply = await client.post(f"{PATH}/{verb}", {})
        assert (reply.status, reply.json["reason"]) == (409, "RUN_CLOSED")


async def test_only_closed_runs_are_forgotten(client: Client) -> None:
    await started(client)
    reply = await client.call("DELETE", PATH)
    assert (reply.status, reply.json["reason"]) == (409, "RUN_OPEN")
    await client.post(PATH + "/terminate", {})
    for _ in range(2):  # the same request id: the same answer, though there is nothing any more
        reply = await client.call("DELETE", PATH + "?request_id=d1")
        assert (reply.status, reply.json) == (200, {"status": "deleted", "runs": 1})
    assert (await client.get(PATH)).status == 404
    reply = await client.call("DELETE", PATH)
    assert (reply.status, reply.json["reason"]) == (404, "WORKFLOW_NOT_FOUND")


async def test_all_runs_of_an_id_go_oldest_first(client: Client) -> None:
    run_ids = []
    for _ in range(3):
        run_ids.append((await started(client, id_reuse_policy="ALLOW_DUPLICATE"))["run_id"])
        await client.post(PATH + "/terminate", {})
    newest = await client.call("DELETE", f"{PATH}?run_id={run_ids[2]}")
    assert (newest.status, newest.json["reason"]) == (409, "OLDER_RUNS_KEPT")
    one = await client.call("DELETE", f"{PATH}?run_id={run_ids[1]}")
    assert one.json == {"status": "deleted", "runs": 1}
    rest = await client.call("DELETE", PATH)
    assert rest.json == {"status": "deleted", "runs": 2}
    assert (await client.get(PATH + "/runs")).status == 404


async def test_a_repeated_delete_is_answered_although_the_id_began_again(client: Client) -> None:
    await started(client)
    await client.post(PATH + "/terminate", {})
    first = await client.call("DELETE", f"{PATH}?request_id=d1")
    again = await started(client)
    repeated = await client.call("DELETE", f"{PATH}?request_id=d1")
    assert (first.status, repeated.status, repeated.json) == (200, 200, first.json)
    assert (await client.get(PATH)).json["status"] == "WAITING"
    other = await client.call("DELETE", f"{PATH}?request_id=d2")
    assert (other.status, other.json["reason"]) == (409, "RUN_OPEN")
    assert other.json["run_id"] == again["run_id"]


async def test_a_repeated_delete_of_all_runs_touches_none_that_came_since(client: Client) -> None:
    async def run_and_end(times: int) -> None:
        for _ in range(times):
            await started(client, id_reuse_policy="ALLOW_DUPLICATE")
            await client.post(PATH + "/terminate", {})

    await run_and_end(3)
    first = await client.call("DELETE", f"{PATH}?request_id=d1")
    assert first.json == {"status": "deleted", "runs": 3}
    await run_and_end(2)
    repeated = await client.call("DELETE", f"{PATH}?request_id=d1")
    assert (repeated.status, repeated.json) == (200, first.json)
    assert len((await client.get(PATH + "/runs")).json["runs"]) == 2
    other = await client.call("DELETE", f"{PATH}?request_id=d2")
    assert other.json == {"status": "deleted", "runs": 2}


async def test_a_delete_that_broke_off_is_finished_by_its_repeat(
    client: Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await started(client, id_reuse_policy="ALLOW_DUPLICATE")
        await client.post(PATH + "/terminate", {})
    execute = deletion.execute
    calls = 0

    async def breaking(node: NodeServices, command: Command) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:  # asked, the oldest is gone, and then
            raise ApiError("UNAVAILABLE", "no leader")
        return await execute(node, command)

    monkeypatch.setattr(deletion, "execute", breaking)
    assert (await client.call("DELETE", f"{PATH}?request_id=d1")).status == 503
    assert len((await client.get(PATH + "/runs")).json["runs"]) == 2
    for _ in range(2):  # what it finds now; and what it said
        reply = await client.call("DELETE", f"{PATH}?request_id=d1")
        assert reply.json == {"status": "deleted", "runs": 2}


async def test_runs_stay_while_they_owe_something(client: Client, served: Served) -> None:
    served.node.post_closed = True
    object.__setattr__(served.services.config, "leader_wait_ms", 50)
    await started(client)
    await decide(
        client,
        {
            "type": "start_child_workflow",
            "step_name": "c",
            "sequence": 1,
            "workflow_type": "Order",
            "workflow_id": "child",
            "parent_close_policy": "ABANDON",
        },
    )
    await client.post(PATH + "/terminate", {})
    reply = await client.call("DELETE", PATH)
    assert (reply.status, reply.json["reason"]) == (409, "MESSAGES_PENDING")
    served.node.post_closed = False
    served.node.deliver()
    assert (await client.call("DELETE", PATH)).status == 200
    child = (await client.get("/api/workflows/child")).json
    assert child["parent"]["workflow_id"] == "order-42"


async def test_a_child_from_start_to_end(client: Client) -> None:
    await started(client)
    child = {"type": "start_child_workflow", "step_name": "pack", "workflow_type": "Order"}
    parent = await decide(client, child | {"sequence": 1, "input": "book"})
    shown = (await client.get(PATH)).json
    (step,) = shown["steps"]
    assert step["workflow_id"] == f"{shown['run_id']}.1"
    assert (step["kind"], step["status"], step["workflow_type"]) == ("CHILD", "SCHEDULED", "Order")
    assert shown["waiting_on"][0]["detail"] == "the child workflow to end"
    task = await decide(client, {"type": "complete_workflow", "output": "packed"})
    assert (task["workflow_id"], task["run_id"]) == (step["workflow_id"], step["run_id"])
    assert task["input"] == "book"
    again = await decide(client, {"type": "complete_workflow", "output": "done"})
    assert again["run_id"] == parent["run_id"]
    (seen,) = again["steps"]
    assert (seen["kind"], seen["output"], seen["run_id"]) == ("CHILD", "packed", step["run_id"])


async def test_a_chain_names_its_links(client: Client) -> None:
    first = await started(client)
    await decide(client, {"type": "continue_as_new", "input": "again"})
    newest = (await client.get(PATH)).json
    assert newest["continued_from_run_id"] == first["run_id"]
    assert (newest["input"], newest["status"]) == ("again", "WAITING")
    oldest = (await client.get(f"{PATH}?run_id={first['run_id']}")).json
    assert oldest["status"] == "CONTINUED_AS_NEW"
    assert oldest["continued_to_run_id"] == newest["run_id"]
    runs = (await client.get(PATH + "/runs")).json["runs"]
    assert [run["run_id"] for run in runs] == [newest["run_id"], first["run_id"]]


async def test_attributes_are_set_changed_and_searched(client: Client) -> None:
    given = {"vip": True, "amount": 12.5, "city": "Köln"}
    await started(client, search_attributes=given, memo={"note": ["a", 1]})
    await decide(
        client,
        {"type": "upsert_search_attributes", "attributes": {"city": None, "step": 2}},
        timer(1),
    )
    shown = (await client.get(PATH)).json
    assert shown["search_attributes"] == {"vip": True, "amount": 12.5, "step": 2}
    assert shown["memo"] == {"note": ["a", 1]}
    for query, total in (
        ("attr.vip=true", 1),
        ("attr.vip=true&attr.amount=12.5", 1),
        ("attr.step=2", 1),
        ("attr.step=3", 0),
        ("attr.city=K%C3%B6ln", 0),
    ):
        page = (await client.get(f"/api/workflows?{query}")).json
        assert page["total"] == total, query
    listed = (await client.get("/api/workflows?attr.step=2")).json["workflows"][0]
    assert (listed["search_attributes"], listed["memo"]) == (
        shown["search_attributes"],
        shown["memo"],
    )
    assert (await client.get("/api/workflows?attr.*=1")).json["reason"] == "UNKNOWN_FIELD"


async def test_a_start_can_bring_its_signal(client: Client) -> None:
    first = await started(client, signal={"name": "go", "payload": "1"})
    body = {"type": "Order", "workflow_id": "order-42", "signal": {"name": "go", "payload": "2"}}
    again = await client.post("/api/workflows", body)
    assert (again.status, again.json) == (200, first | {"started": False})
    signals = (await client.get(PATH)).json["signals"]
    assert [signal["payload"] for signal in signals] == ["1", "2"]


async def test_namespaces_change_their_retention(client: Client) -> None:
    for name, encoded in (("shop/eu", "shop%2Feu"), ("default", "default"), ("..", "%2E%2E")):
        if name != "default":
            assert (await client.post("/api/namespaces", {"name": name})).status == 201
        body = {"retention_ms": 86_400_000}
        reply = await client.call("PUT", f"/api/namespaces/{encoded}", body)
        assert (reply.status, reply.json) == (200, {"name": name, **body})
    listed = (await client.get("/api/namespaces")).json["namespaces"]
    created = {each["name"]: each.get("created_at", "") for each in listed}
    assert created.pop("default", "") == "", "nobody created it"
    assert all(created.values())
    assert {each["name"]: each["retention_ms"] for each in listed} == {
        "..": 86_400_000,
        "default": 86_400_000,
        "shop/eu": 86_400_000,
    }
    reply = await client.call("PUT", "/api/namespaces/nowhere", {"retention_ms": 1})
    assert (reply.status, reply.json["reason"]) == (404, "NAMESPACE_NOT_FOUND")
    reply = await client.call("PUT", "/api/namespaces/default", {})
    assert (reply.status, reply.json["error"]) == (400, "retention_ms is required")


async def test_a_namespace_has_a_quota(client: Client) -> None:
    await started(client)
    wanted = {"max_open_runs": 1}
    reply = await client.call("PUT", "/api/namespaces/default/quota", wanted)
    expected = {"name": "default", "max_open_runs": 1, "starts_per_second": 0}
    assert (reply.status, reply.json) == (200, expected)
    (listed,) = (await client.get("/api/namespaces")).json["namespaces"]
    assert listed == {"name": "default", "retention_ms": 0, "max_open_runs": 1}
    start = {"type": "Order", "workflow_id": "order-43", "request_id": "q"}
    refused = await client.post("/api/workflows", start)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    assert refused.json.pop("error").startswith("namespace 'default' has 1 open runs")
    assert {name: refused.json[name] for name in refused.json if name != "error"} == {
        "code": "RESOURCE_EXHAUSTED",
        "reason": "QUOTA_EXCEEDED",
        "limit": "max_open_runs",
        "value": 1,
        "retry_after_ms": 1_000,
        "maybe_applied": False,
    }
    assert (await client.post(PATH + "/terminate")).status == 200
    assert (await client.post("/api/workflows", start)).status == 201  # by the same request id
    reply = await client.call("PUT", "/api/namespaces/nowhere/quota", {})
    assert (reply.status, reply.json["reason"]) == (404, "NAMESPACE_NOT_FOUND")
    reply = await client.call("PUT", "/api/namespaces/default/quota", {"starts_per_second": -1})
    assert reply.status == 400


async def test_a_run_says_why_its_decision_was_refused(client: Client) -> None:
    """Else a workflow whose code asks for what cannot be had waits for ever, and only the log of
    its worker knows why."""
    await started(client)
    for detail in ("decision queued on default", "decision offered again after a pause"):
        task = (await client.get("/api/workflow-tasks?types=Order")).json
        body = {"workflow_id": task["workflow_id"], "task_token": task["task_token"]}
        wrong = await client.post("/api/workflow-tasks/complete", body | {"command": timer(7)})
        assert wrong.status == 400
        shown = (await client.get(PATH)).json
        (wait,) = shown["waiting_on"]
        assert wait["detail"].startswith(detail)
        assert wait["detail"].endswith(
            "; the last one was refused: sequence is 7, the next one is 1"
        )


async def test_a_refusal_is_forgotten_with_the_next_decision(client: Client) -> None:
    await started(client)
    task = (await client.get("/api/workflow-tasks?types=Order")).json
    body = {"workflow_id": task["workflow_id"], "task_token": task["task_token"]}
    await client.post("/api/workflow-tasks/complete", body | {"command": timer(7)})
    await decide(client, timer(1))
    await client.post(PATH + "/signal", {"name": "news"})
    shown = (await client.get(PATH)).json
    assert "refused" not in shown["waiting_on"][0]["detail"]


async def test_a_result_that_waits_for_a_decision_says_so(client: Client) -> None:
    await started(client)
    activity = {"type": "schedule_activity", "step_name": "pack", "sequence": 1}
    wait = {"type": "await_signal", "step_name": "w", "sequence": 2, "signal_name": "news"}
    await decide(client, activity, wait)
    await client.post(PATH + "/signal", {"name": "news"})
    work = (await client.get("/api/activity-tasks")).json
    for _ in range(2):  # stale twice: the third is protected
        task = (await client.get("/api/workflow-tasks?types=Order")).json
        await client.post(PATH + "/signal", {"name": "news"})
        body = {"workflow_id": task["workflow_id"], "task_token": task["task_token"]}
        stale = await client.post("/api/workflow-tasks/complete", body | {"commands": []})
        assert stale.json["reason"] == "DECISION_STALE"
    await client.get("/api/workflow-tasks?types=Order")
    body = {"workflow_id": "order-42", "lease_token": work["lease_token"], "output": "packed"}
    assert (await client.post("/api/activity-tasks/complete", body)).status == 200
    shown = (await client.get(PATH)).json
    (out, held) = shown["waiting_on"]
    assert out["detail"].endswith("; of what arrived since, 1 wait for it to end")
    assert held["detail"] == "its result is here: the next decision will see it"


async def test_a_signal_that_waits_for_a_decision_is_shown(client: Client) -> None:
    """It was acknowledged: a read after that has it, though it is no event yet."""
    await started(client)
    wait = {"type": "await_signal", "step_name": "w", "sequence": 2, "signal_name": "news"}
    await decide(client, timer(1), wait)
    await client.post(PATH + "/signal", {"name": "news", "payload": "1"})
    for payload in "23":  # stale twice: the third is protected
        task = (await client.get("/api/workflow-tasks?types=Order")).json
        await client.post(PATH + "/signal", {"name": "news", "payload": payload})
        body = {"workflow_id": task["workflow_id"], "task_token": task["task_token"]}
        stale = await client.post("/api/workflow-tasks/complete", body | {"commands": []})
        assert stale.json["reason"] == "DECISION_STALE"
    task = (await client.get("/api/workflow-tasks?types=Order")).json
    await client.post(PATH + "/signal", {"name": "news", "payload": "4"})
    shown = (await client.get(PATH)).json["signals"]
    assert [signal["payload"] for signal in shown] == ["1", "2", "3", "4"]
    assert ["event_id" in signal for signal in shown] == [True, True, True, False]
    body = {"workflow_id": task["workflow_id"], "task_token": task["task_token"], "commands": []}
    assert (await client.post("/api/workflow-tasks/complete", body)).status == 200
    shown = (await client.get(PATH)).json["signals"]
    assert [signal["payload"] for signal in shown] == ["1", "2", "3", "4"]
    assert all(signal["event_id"] for signal in shown)
