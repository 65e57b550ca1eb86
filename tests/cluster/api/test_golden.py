"""The shapes that clients rely on, word for word. `pytest --rewrite` writes them anew; a change of
a documented field is a breaking change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from json_client import Client
from single_node import Served

from raftflow.cluster.api.handlers import runs

GOLDEN = Path(__file__).parent / "golden"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
async def scene(client: Client, served: Served, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A run with a step of every kind: done, failed, in flight, waiting."""
    monkeypatch.setattr(runs, "new_run_id", lambda: "5d1c")
    await client.post("/api/workflow-types", {"workflow_types": ["Order"]})
    start = {"type": "Order", "workflow_id": "order/42", "input": "book", "request_id": "r1"}
    start |= {"execution_timeout_ms": 60_000, "memo": {"by": ["ann", 1]}}
    start |= {"search_attributes": {"vip": True, "amount": 1e2, "city": "Köln"}}
    await client.post("/api/workflows", start, traceparent=TRACE)
    signal = {"name": "approved", "payload_base64": "/w==", "request_id": "r2"}
    await client.post("/api/workflows/order%2F42/signal", signal)
    await client.post("/api/workflows/order%2F42/signal", {"name": "late", "request_id": "r3"})
    retry = {"max_attempts": 2, "initial_backoff_ms": 10, "backoff_coefficient": 1.5}
    await _decide(
        client,
        {"type": "schedule_activity", "step_name": "reserve", "sequence": 1, "input": "book"},
        {"type": "schedule_activity", "step_name": "charge", "sequence": 2},
        {"type": "await_signal", "step_name": "gate", "sequence": 3, "signal_name": "approved"},
        {"type": "start_timer", "step_name": "settle", "sequence": 4, "delay_ms": 2_000},
        {"type": "await_signal", "step_name": "end", "sequence": 5, "signal_name": "closed"},
        {"type": "schedule_activity", "step_name": "ship", "sequence": 6, "retry_policy": retry},
        {"type": "schedule_activity", "step_name": "mail", "sequence": 7, "input": "dear"},
        {
            "type": "record_marker",
            "step_name": "v2",
            "sequence": 8,
            "marker": "version",
            "data": "2",
        },
        {
            "type": "start_child_workflow",
            "step_name": "pack",
            "sequence": 9,
            "workflow_type": "Order",
            "workflow_id": "order/42/pack",
            "parent_close_policy": "REQUEST_CANCEL",
        },
        {"type": "start_timer", "step_name": "remind", "sequence": 10, "delay_ms": 9_000},
        {"type": "cancel_step", "step_name": "remind", "sequence": 10, "reason": "no need"},
        {"type": "upsert_search_attributes", "attributes": {"city": None, "step": "sent"}},
    )
    await _work(client, "reserve", output="held")
    await _work(client, "charge", error="declined", error_type="Declined", non_retryable=True)
    await _work(client, "ship", error="no van", error_type="NoVan")
    graceful = {"graceful": True, "reason": "changed my mind", "request_id": "r4"}
    await client.post("/api/workflows/order%2F42/cancel", graceful)
    return client


async def _decide(client: Client, *commands: dict[str, Any]) -> None:
    task = (await client.get("/api/workflow-tasks")).json
    body = {"workflow_id": task["workflow_id"], "task_token": task["task_token"]}
    reply = await client.post("/api/workflow-tasks/complete", body | {"commands": list(commands)})
    assert reply.status == 200, reply.content


async def _work(client: Client, name: str, **outcome: Any) -> None:
    task = (await client.get(f"/api/activity-tasks?activities={name}&worker_id=w1")).json
    body = {key: task[key] for key in ("workflow_id", "step_name", "sequence", "lease_token")}
    reply = await client.post("/api/activity-tasks/complete", body | outcome)
    assert reply.status == 200, reply.content


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("describe", "/api/workflows/order%2F42"),
        ("list", "/api/workflows"),
        ("runs", "/api/workflows/order%2F42/runs"),
        ("history", "/api/workflows/order%2F42/history"),
        ("workflow_task", "/api/workflow-tasks?worker_id=w1"),
        ("activity_task", "/api/activity-tasks?activities=mail&worker_id=w1"),
    ],
)
async def test_shapes(scene: Client, rewrite: bool, name: str, path: str) -> None:
    reply = await scene.get(path)
    assert reply.status == 200
    said = json.dumps(reply.json, indent=2, ensure_ascii=False) + "\n"
    golden = GOLDEN / f"{name}.json"
    if rewrite:
        golden.write_text(said)
    assert said == golden.read_text(), f"{golden.name}: see `pytest --rewrite`"
