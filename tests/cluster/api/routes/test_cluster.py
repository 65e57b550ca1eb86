"""The cluster page's calls over HTTP: what is taken, and how a stream of events ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from eventually import eventually
from json_client import Client
from ports import free_ports
from single_node import Served, config_for, serve
from token_kinds import mint, revoke

from raftflow.cluster.api.auth import Tokens
from raftflow.cluster.errors import OperationRefused
from raftflow.engine.commands import RecordCall, Role

EVENTS = "/api/cluster/events"


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Served]:
    running = await serve(config_for(free_ports(3), tmp_path), tokens=Tokens(on=True))
    yield running
    await running.server.stop()


async def event(answer: aiohttp.ClientResponse) -> tuple[str, Any]:
    """The next one, and its name."""
    name = ""
    async with asyncio.timeout(10):
        while True:
            line = (await answer.content.readline()).decode()
            if line.startswith("event: "):
                name = line.removeprefix("event: ").strip()
            if line.startswith("data: "):
                return name, json.loads(line.removeprefix("data: "))
            assert line, "the stream ended"


async def test_events_of_the_cluster(served: Served) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(served.http + EVENTS) as answer,
    ):
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        name, shown = await event(answer)
        assert (name, shown["leader"], shown["node"]) == ("cluster", "n1", "n1")
        name, _ = await event(answer)  # a second later at most
        assert name == "cluster"


async def test_a_stream_ends_with_its_token(guarded: Served) -> None:
    token = mint(guarded.node, Role.VIEWER)
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(guarded.http + EVENTS, headers=headers) as answer,
    ):
        await event(answer)
        revoke(guarded.node, token)
        while (told := await event(answer))[0] == "cluster":
            pass
        assert told[0] == "end"
        assert told[1]["reason"] == "UNAUTHENTICATED"
        assert await answer.content.read() == b"\n"


async def test_a_stream_ends_with_its_node(tmp_path: Path) -> None:
    running = await serve(config_for(free_ports(3), tmp_path))
    async with (
        aiohttp.ClientSession() as session,
        session.get(running.http + EVENTS) as answer,
    ):
        await event(answer)
        stopping = asyncio.create_task(running.server.stop())
        while (told := await event(answer))[0] == "cluster":
            pass
        assert (told[0], told[1]["reason"]) == ("end", "UNAVAILABLE")
        await stopping


async def test_a_stream_counts_as_a_poll_while_it_lasts(tmp_path: Path) -> None:
    config = config_for(free_ports(3), tmp_path)
    running = await serve(config)
    admission = running.server._admission
    async with aiohttp.ClientSession() as session:
        async with session.get(running.http + EVENTS) as answer:
            await event(answer)
            assert admission._held_by_polls == 1
            admission._polls["anonymous"] = config.limits.polls_per_token
            refused = await Client(session, running.http).get(EVENTS)
            assert (refused.status, refused.json["reason"]) == (429, "TOO_MANY_POLLS")
            admission._polls["anonymous"] = 1
        await eventually(lambda: admission._held_by_polls == 0)
        await eventually(lambda: len(running.server.http._feed) == 0)
    await running.server.stop()


async def test_the_last_hour(served: Served, client: Client) -> None:
    samples = served.services.samples
    await samples.take()  # type: ignore[attr-defined]
    shown = (await client.get("/api/cluster/history?minutes=1")).json
    assert (shown["node"], shown["every_ms"]) == ("n1", 5_000)
    assert shown["samples"]["leases"] == [0]
    assert shown["samples"]["fsync_p99_ms"] == [None]
    assert shown["from"].endswith("Z")


@pytest.mark.parametrize("query", ["minutes=0", "minutes=61", "minutes=x", "hours=1"])
async def test_what_the_last_hour_does_not_take(client: Client, query: str) -> None:
    reply = await client.get(f"/api/cluster/history?{query}")
    assert reply.status == 400


async def test_leadership_and_snapshots_are_noted(served: Served, client: Client) -> None:
    handed = (await client.post("/api/cluster/transfer", {"to": "n2"})).json
    assert handed == {"from": "n1", "leader": "n2", "term": 2}
    assert (await client.post("/api/cluster/transfer")).json["leader"] == "n1"
    made = (await client.call("POST", "/api/cluster/nodes/n2/snapshot")).json
    assert (made["id"], made["first_index"], made["bytes_freed"]) == ("n2", 1, 0)
    noted = [each for each in served.node.executed if isinstance(each, RecordCall)]
    assert [(each.call, each.target, each.outcome) for each in noted] == [
        ("TransferLeadership", "n2", "ASKED"),
        ("TransferLeadership", "n2", "OK"),
        ("TransferLeadership", "", "ASKED"),
        ("TransferLeadership", "", "OK"),
        ("SnapshotNode", "n2", "ASKED"),
        ("SnapshotNode", "n2", "OK"),
    ]


async def test_what_is_refused_is_noted_too(served: Served, client: Client) -> None:
    async def refuses(_node: object, _to: str) -> None:
        raise OperationRefused("NODE_REFUSED", "n2 is not connected to the leader")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(served.node), "transfer", refuses)
        reply = await client.post("/api/cluster/transfer", {"to": "n2"})
    assert (reply.status, reply.json["reason"]) == (409, "NODE_REFUSED")
    noted = [each for each in served.node.executed if isinstance(each, RecordCall)]
    assert [each.outcome for each in noted] == ["ASKED", "NODE_REFUSED"]
