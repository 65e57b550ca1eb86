"""What the HTTP side does around the routes: hang-ups, stopping, pages, other members, bytes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from eventually import eventually
from json_client import Client
from single_node import Served, SingleNode

from raftflow.cluster.api.handlers import runs
from raftflow.cluster.api.page import Page
from raftflow.cluster.errors import HistoryDamaged, Overloaded, Unavailable
from raftflow.engine.commands import RegisterTypes


async def raw(served: Served, text: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = served.services.config.http_addr
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(text)
    return reader, writer


async def test_a_caller_without_a_majority_hears_what_became_of_the_call(
    served: Served, client: Client
) -> None:
    served.node.fault = Unavailable("no leader", maybe_applied=True, retry_after_ms=1_500)
    body = {"name": "go", "request_id": "r1"}
    reply = await client.post("/api/workflows/w/signal", body)
    assert (reply.status, reply.headers["Retry-After"]) == (503, "2")
    assert reply.json["request_id"] == "r1"
    assert (reply.json["maybe_applied"], reply.json["reason"]) == (True, "MAYBE_APPLIED")
    assert (await client.get("/api/workflows/w")).status == 503  # rather than old state


async def test_a_full_leader_refuses_with_the_cause(served: Served, client: Client) -> None:
    served.node.fault = Overloaded("full", cause="proposals_pending", retry_after_ms=10)
    reply = await client.post("/api/workflows/w/signal", {"name": "go"})
    assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
    assert reply.json["cause"] == "proposals_pending"
    metrics = served.services.metrics.render().decode()
    assert 'workflowd_backpressure_rejected_total{cause="proposals_pending"} 1.0' in metrics


async def test_a_bug_shows_no_details(served: Served, client: Client) -> None:
    served.node.fault = KeyError("secret")
    reply = await client.get("/api/workflows/w")
    assert (reply.status, reply.json["reason"]) == (500, "INTERNAL")
    assert b"secret" not in reply.content


async def test_a_task_for_a_caller_who_has_gone_goes_back(served: Served, client: Client) -> None:
    _, writer = await raw(served, b"GET /api/workflow-tasks HTTP/1.1\r\nHost: n\r\n\r\n")
    await eventually(lambda: served.node.parked, "the poll is parked")
    writer.transport.abort()
    await eventually(lambda: not served.node.parked, "the poll is gone")
    served.node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    await client.post("/api/workflows", {"type": "Order", "workflow_id": "w"})
    assert (await client.get("/api/workflow-tasks")).json["workflow_id"] == "w"


async def test_a_task_that_meets_a_closed_connection_goes_back(
    served: Served, client: Client
) -> None:
    served.node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    held = await raw(served, b"GET /api/workflow-tasks HTTP/1.1\r\nHost: n\r\n\r\n")
    (parked,) = await eventually(lambda: list(served.node.parked), "the poll is parked")
    web = served.server.http._web
    assert web is not None
    (connection,) = web.connections
    # The socket breaks in the same turn of the loop in which the task arrives.
    parked.future.add_done_callback(lambda _future: connection.force_close())
    await client.post("/api/workflows", {"type": "Order", "workflow_id": "w"})
    await eventually(lambda: served.node.returned, "the task is given back")
    held[1].close()
    assert (await client.get("/api/workflow-tasks")).json["workflow_id"] == "w"


async def test_a_stopping_node_ends_polls_and_names_the_leader(
    served: Served, client: Client
) -> None:
    served.node.leader = "n2"
    served.node.members["n2"] = SimpleNamespace(id="n2", http="10.0.0.2:8233")
    poll = asyncio.create_task(client.get("/api/workflow-tasks"))
    await eventually(lambda: served.node.parked, "the poll is parked")
    await served.server.stop()
    reply = await poll
    assert (reply.status, reply.json["leader_http"]) == (503, "10.0.0.2:8233")
    assert reply.json["maybe_applied"] is False


async def test_a_large_body_is_asked_for_before_it_is_sent(served: Served) -> None:
    body = b'{"workflow_types": ["Order"]}'
    head = (
        b"POST /api/workflow-types HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\n"
        b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    reader, writer = await raw(served, head)
    assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
    await reader.readline()
    writer.write(body)
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    writer.close()


async def test_pages_of_other_members_may_ask(client: Client) -> None:
    for member in ("http://127.0.0.1:8233", "http://localhost:8233"):
        reply = await client.get("/api/health", Origin=member)
        assert reply.headers["Access-Control-Allow-Origin"] == member
    asked = await client.call("OPTIONS", "/api/workflows", Origin=member)
    assert (asked.status, asked.headers["Access-Control-Allow-Methods"]) == (204, "GET, POST")
    for stranger in ("http://evil.example", "null"):
        for reply in (
            await client.get("/api/health", Origin=stranger),
            await client.call("OPTIONS", "/api/workflows", Origin=stranger),
        ):
            assert "Access-Control-Allow-Origin" not in reply.headers


async def test_metrics_have_every_public_name(served: Served, client: Client) -> None:
    await client.get("/api/health")
    reply = await Client(client._session, served.metrics).get("/metrics")
    assert reply.status == 200
    text = reply.content.decode()
    for name in (
        "workflows_started_total",
        "workflows_finished_total",
        "task_queue_depth",
        "workflow_task_queue_depth",
        "step_duration_seconds",
        "leases_expired_total",
        "timer_lag_seconds",
        "polls_waiting",
        "raft_role",
        "raft_term",
        "raft_commit_index",
        "raft_applied_index",
        "raft_apply_lag",
        "raft_elections_total",
        "raft_fsync_seconds",
        "raft_proposals_pending",
        "raft_snapshot_age_seconds",
        "request_seconds",
        "backpressure_rejected_total",
    ):
        assert f"# TYPE workflowd_{name}" in text or f"\nworkflowd_{name}" in text, name
    assert 'workflowd_request_seconds_count{code="OK",method="Health"} 1.0' in text


async def test_the_page_is_guarded(served: Served, client: Client, tmp_path: Path) -> None:
    (tmp_path / "static" / "views").mkdir(parents=True)
    (tmp_path / "static" / "index.html").write_text("<!doctype html>")
    (tmp_path / "static" / "views" / "runs.js").write_text("export {}")
    served.server.http._page = Page(tmp_path / "static")
    index = await client.get("/")
    assert index.content == b"<!doctype html>"
    policy = index.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self' http://127.0.0.1:8233" in policy
    script = await client.get("/views/runs.js")
    assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
    again = await client.get("/views/runs.js", If_None_Match=script.headers["ETag"])
    assert again.status == 304
    for path in ("/../index.html", "/views", "/%2e%2e/x", "//index.html"):
        assert (await client.get(path)).status == 404


async def test_a_file_that_cannot_be_read_to_its_end_is_broken_off(
    served: Served, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    await client.post("/api/workflows", {"type": "Order", "workflow_id": "w"})
    await client.post("/api/workflows/w/signal", {"name": "go"})
    intact = SingleNode.events

    async def events(self: SingleNode, run: Any, *, start: int, limit: int) -> Any:
        if start > 1:
            raise HistoryDamaged("event 2: checksum does not match")
        return await intact(self, run, start=start, limit=1)

    monkeypatch.setattr(SingleNode, "events", events)
    monkeypatch.setattr(runs, "PAGE_BYTES", 1)
    with pytest.raises(aiohttp.ClientPayloadError):
        await client.get("/api/workflows/w/history?format=binary")
    damaged = await client.get("/api/workflows/w/history?from=2")
    assert (damaged.status, damaged.json["code"]) == (500, "DATA_LOSS")


async def test_broken_http_is_refused_in_silence(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await raw(served, b"GET / HTTP/1.1\r\nContent-Length: abc\r\n\r\n")
    assert b" 400 " in await reader.readline()
    writer.close()
    assert not caplog.records


async def test_a_request_target_may_have_scheme_and_host(served: Served) -> None:
    reader, writer = await raw(served, b"GET http://node/api/ready HTTP/1.1\r\nHost: node\r\n\r\n")
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    writer.close()


async def test_connections_at_rest_hold_no_stop_up(served: Served) -> None:
    health = b"GET /api/health HTTP/1.1\r\nHost: n1\r\n\r\n"
    silent, used, busy = [await raw(served, text) for text in (b"", health, health)]
    for reader, _ in (used, busy):
        await reader.readuntil(b"}")
    stopping = asyncio.create_task(served.server.http.stop())
    await asyncio.sleep(0)
    began = asyncio.get_running_loop().time()
    busy[1].write(health)
    told = await busy[0].read()
    assert b" 503 " in told
    assert b"this node is shutting down" in told
    assert b"connection: close" in told.lower()
    await stopping
    assert asyncio.get_running_loop().time() - began < 1.0
    assert (await silent[0].read(), await used[0].read()) == (b"", b"")
    for _, writer in (silent, used, busy):
        writer.close()
