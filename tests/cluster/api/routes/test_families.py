"""A run's family, over real sockets with the real engine behind them."""

from __future__ import annotations

from typing import Any

from json_client import Client

TYPES = ["Order", "Parcel"]


async def started(client: Client, workflow_id: str, **fields: Any) -> Any:
    await client.post("/api/workflow-types", {"workflow_types": TYPES})
    body = {"type": "Order", "workflow_id": workflow_id, **fields}
    reply = await client.post("/api/workflows", body)
    assert reply.status == 201, reply.content
    return reply.json


async def decide(client: Client, *commands: dict[str, Any], types: str = "Order") -> Any:
    task = (await client.get(f"/api/workflow-tasks?types={types}")).json
    body = {"workflow_id": task["workflow_id"], "task_token": task["task_token"]}
    reply = await client.post("/api/workflow-tasks/complete", body | {"commands": list(commands)})
    assert reply.status == 200, reply.content
    return task


def child(sequence: int, workflow_id: str) -> dict[str, Any]:
    return {
        "type": "start_child_workflow",
        "step_name": "ship",
        "sequence": sequence,
        "workflow_type": "Parcel",
        "workflow_id": workflow_id,
    }


async def family(client: Client, workflow_id: str, query: str = "") -> Any:
    reply = await client.get(f"/api/workflows/{workflow_id}/family{query}")
    assert reply.status == 200, reply.content
    return reply.json


async def test_a_run_without_relatives(client: Client) -> None:
    run = await started(client, "order-1")
    found = await family(client, "order-1")
    (link,) = found.pop("chain")
    assert (link["run_id"], link["status"]) == (run["run_id"], "WAITING")
    assert link["started_at"].endswith("Z")
    assert found == {
        "workflow_id": "order-1",
        "run_id": run["run_id"],
        "parent": None,
        "children": {"items": [], "total": 0},
        "chain_more": {"older": False, "newer": False},
    }


async def test_parent_and_children_know_each_other(client: Client) -> None:
    parent = await started(client, "order-1", memo={"note": "fragile"})
    await decide(client, *[child(n, f"parcel-{n}") for n in (1, 2, 3)])
    found = (await family(client, "order-1"))["children"]
    assert (found["total"], "next_cursor" in found) == (3, False)
    assert [each["workflow_id"] for each in found["items"]] == ["parcel-1", "parcel-2", "parcel-3"]
    first = found["items"][0]
    assert (first["kept"], first["sequence"], first["step_name"]) == (True, 1, "ship")
    assert (first["status"], first["step_status"]) == ("WAITING", "SCHEDULED")
    assert (first["workflow_type"], first["history_length"]) == ("Parcel", 1)
    shown = (await family(client, "parcel-2"))["parent"]
    assert (shown["workflow_id"], shown["run_id"]) == ("order-1", parent["run_id"])
    assert (shown["sequence"], shown["kept"], shown["memo"]) == (2, True, {"note": "fragile"})


async def test_children_page_by_page(client: Client) -> None:
    await started(client, "order-1")
    await decide(client, *[child(n, f"parcel-{n}") for n in range(1, 6)])
    seen: list[int] = []
    cursor, pages = "", 0
    while pages == 0 or cursor:
        page = (await family(client, "order-1", f"?limit=2&cursor={cursor}"))["children"]
        assert page["total"] == 5
        seen += [each["sequence"] for each in page["items"]]
        cursor, pages = page.get("next_cursor", ""), pages + 1
    assert (seen, pages) == ([1, 2, 3, 4, 5], 3)
    for query in ("cursor=x", "cursor=-1", "cursor=9999999999", "limit=0", "x=1"):
        reply = await client.get(f"/api/workflows/order-1/family?{query}")
        assert reply.status == 400, query


async def test_a_child_that_was_deleted_is_known_by_name(client: Client) -> None:
    await started(client, "order-1")
    await decide(client, child(1, "parcel-1"))
    await decide(client, {"type": "complete_workflow"}, types="Parcel")
    assert (await client.call("DELETE", "/api/workflows/parcel-1")).status == 200
    (found,) = (await family(client, "order-1"))["children"]["items"]
    assert (found["workflow_id"], found["kept"], found["step_status"]) == (
        "parcel-1",
        False,
        "COMPLETED",
    )
    assert "status" not in found


async def test_the_chain_of_a_run(client: Client) -> None:
    first = await started(client, "order-1")
    await decide(client, {"type": "continue_as_new"})
    newest = await family(client, "order-1")
    oldest = await family(client, "order-1", f"?run_id={first['run_id']}")
    assert newest["chain"] == oldest["chain"]
    assert [link["status"] for link in newest["chain"]] == ["CONTINUED_AS_NEW", "WAITING"]
    assert [link["run_id"] for link in newest["chain"]] == [first["run_id"], newest["run_id"]]
    unknown = await client.get("/api/workflows/order-1/family?run_id=none")
    assert unknown.json["reason"] == "WORKFLOW_NOT_FOUND"
