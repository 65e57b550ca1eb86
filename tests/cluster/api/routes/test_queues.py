"""Queues and workers over HTTP: who may see which, and the shape that is promised."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from eventually import eventually
from json_client import Client
from ports import free_ports
from single_node import Served, config_for, serve
from token_kinds import mint

from raftflow.cluster.api.auth import Tokens
from raftflow.engine.commands import CreateNamespace, Role

POLL = "/api/activity-tasks?task_queue=payments&worker_id=w%3Cb%3E&activities=charge"


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Served]:
    running = await serve(config_for(free_ports(3), tmp_path), tokens=Tokens(on=True))
    running.node.apply(CreateNamespace(namespace="shop", retention_ms=0, request_id=""))
    yield running
    await running.server.stop()


@pytest.mark.parametrize(("namespaces", "seen"), [((), ["default", "shop"]), (("shop",), ["shop"])])
async def test_a_token_of_some_namespaces_sees_those_alone(
    guarded: Served, namespaces: tuple[str, ...], seen: list[str]
) -> None:
    worker = mint(guarded.node, Role.WORKER)
    viewer = mint(guarded.node, Role.VIEWER, namespaces=namespaces)
    async with aiohttp.ClientSession() as session:
        client = Client(session, guarded.http)
        polls = [
            asyncio.create_task(
                client.get(POLL, Authorization=f"Bearer {worker}", X_Workflowd_Namespace=namespace)
            )
            for namespace in ("default", "shop")
        ]
        await eventually(lambda: len(guarded.node.parked) == 2)
        headers = {"Authorization": f"Bearer {viewer}"}
        queues = (await client.get("/api/queues", **headers)).json["queues"]
        workers = (await client.get("/api/workers", **headers)).json["workers"]
        assert [each["namespace"] for each in queues] == seen
        assert [each["namespace"] for each in workers] == seen
        assert queues[0]["name"] == "payments"
        assert queues[0]["pollers"][0]["worker"] == workers[0]["id"] == "w<b>"
        assert queues[0]["pollers"][0]["types"] == ["charge"]
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)


async def test_neither_takes_parameters(client: Client) -> None:
    for path in ("/api/queues", "/api/workers"):
        assert (await client.get(f"{path}?q=1")).json["reason"] == "UNKNOWN_FIELD"
