"""Calls in a second and polls at a time, by token and by namespace: refused with the limit's name,
counted, told once; finished work passes always."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import aiohttp
import grpc
import pytest
from eventually import eventually
from json_client import Client
from ports import free_ports
from single_node import Served, config_for, serve
from structlog.testing import capture_logs

from raftflow.cluster.api.admission import FINISHED_WORK, Admission, Buckets
from raftflow.cluster.api.auth import Tokens
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.config import Limits
from raftflow.cluster.metrics import Metrics
from raftflow.engine.commands import CreateNamespace, RegisterTypes
from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc

ONE, OTHER = "Bearer one-token-of-many", "Bearer another-token-here"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def limited(directory: Path, **limits: int) -> AsyncIterator[tuple[Served, Client]]:
    config = config_for(free_ports(3), directory, limits=Limits(**limits))
    file = directory / "tokens"
    file.write_text("one-token-of-many name=one\nanother-token-here name=other\n")
    file.chmod(0o600)
    standing = partial(Admission, clock=Clock())  # however slow this machine is
    with patch("raftflow.cluster.api.server.Admission", standing):
        served = await serve(config, tokens=Tokens.load(str(file)))
    try:
        async with aiohttp.ClientSession() as session:
            yield served, Client(session, served.http)
    finally:
        await served.server.stop()


def test_a_second_of_calls_at_once_and_then_one_after_the_other() -> None:
    clock = Clock()
    buckets = Buckets(10, clock)
    assert [buckets.take("a") for _ in range(11)] == [0] * 10 + [100]
    assert buckets.take("b") == 0  # others are not concerned
    clock.now += 0.05
    assert buckets.take("a") == 50
    clock.now += 0.05
    assert buckets.take("a") == 0
    assert buckets.take("a") == 100
    clock.now += 60
    assert [buckets.take("a") for _ in range(11)] == [0] * 10 + [100]


@pytest.mark.parametrize("rate", [1, 3, 7, 60, 999, 100_000])
def test_a_burst_is_exactly_one_second_of_calls(rate: int) -> None:
    buckets = Buckets(rate, Clock())
    assert sum(buckets.take("a") == 0 for _ in range(rate + 5)) == rate


def test_who_has_not_called_for_long_costs_no_memory() -> None:
    clock = Clock()
    buckets = Buckets(1_000, clock)
    for number in range(10_000):
        buckets.take(str(number))
    clock.now += 5
    buckets.take("one more")
    assert len(buckets._empty_at) == 1


def test_no_bound_keeps_nothing() -> None:
    buckets = Buckets(0)
    assert [buckets.take("a") for _ in range(100)] == [0] * 100
    assert not buckets._empty_at


def test_what_a_worker_has_done_is_never_held_back() -> None:
    limits = Limits(token_calls_per_second=1, namespace_calls_per_second=1)
    admission = Admission(limits, Metrics(), Clock())
    for operation in sorted(FINISHED_WORK):
        for _ in range(5):
            admission.admit(operation, actor="a", namespace="default")
    admission.admit("StartWorkflow", actor="a", namespace="default")
    with pytest.raises(ApiError) as refused:
        admission.admit("StartWorkflow", actor="a", namespace="default")
    assert refused.value.details["limit"] == "limits.token_calls_per_second"
    with pytest.raises(ApiError) as refused:
        admission.admit("StartWorkflow", actor="b", namespace="default")
    assert refused.value.details["limit"] == "limits.namespace_calls_per_second"
    assert refused.value.details["retry_after_ms"] == 1_000


async def test_too_many_calls_over_both_apis(tmp_path: Path) -> None:
    async with limited(tmp_path, token_calls_per_second=2) as (served, client):
        with capture_logs() as logs:
            replies = [await client.get("/api/workflows", Authorization=ONE) for _ in range(5)]
            assert [reply.status for reply in replies] == [200, 200, 429, 429, 429]
            refused = replies[-1].json
            assert refused["reason"] == "RATE_LIMITED"
            assert (refused["limit"], refused["value"]) == ("limits.token_calls_per_second", 2)
            assert "--limits-token-calls-per-second" in refused["error"]
            assert refused["maybe_applied"] is False
            assert 0 < refused["retry_after_ms"] <= 1_000
            assert replies[-1].headers["Retry-After"] == "1"
            async with grpc.aio.insecure_channel(served.grpc) as channel:
                stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
                metadata = (("authorization", ONE),)  # the same token, so the same count
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await stub.ListWorkflows(pb.ListWorkflowsRequest(), metadata=metadata)
                assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                metadata = (("authorization", OTHER),)
                await stub.ListWorkflows(pb.ListWorkflowsRequest(), metadata=metadata)
        assert (await client.get("/api/health", Authorization=ONE)).status == 200
        told = [log for log in logs if log["event"] == "call_refused"]
        assert {log["actor"] for log in told} == {"file:one"}
        assert "one-token" not in str(logs)
        text = served.services.metrics.render().decode()
        assert (
            'workflowd_calls_refused_total{limit="limits.token_calls_per_second"'
            ',reason="RATE_LIMITED"} 4.0' in text
        )


async def test_who_guesses_tokens_keeps_nobody_else_from_logging_in(tmp_path: Path) -> None:
    async with limited(tmp_path, token_calls_per_second=2) as (_served, client):
        guess = {"token": "rf_aaaaaaaaaaaa_guessed"}
        statuses = [
            (await client.post("/api/session", guess, Origin=client.base)).status for _ in range(4)
        ]
        assert statuses == [401, 401, 429, 429]
        elsewhere = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
        async with aiohttp.ClientSession(connector=elsewhere) as session:
            other = Client(session, client.base)
            true = {"token": "one-token-of-many"}
            assert (await other.post("/api/session", true, Origin=client.base)).status == 201


async def test_too_many_calls_for_one_namespace(tmp_path: Path) -> None:
    async with limited(tmp_path, namespace_calls_per_second=1) as (served, client):
        served.node.apply(CreateNamespace(namespace="shop", retention_ms=0, request_id=""))
        for authorization, status in ((ONE, 200), (OTHER, 429)):
            reply = await client.get(
                "/api/workflows", Authorization=authorization, X_Workflowd_Namespace="shop"
            )
            assert reply.status == status
        reply = await client.get("/api/workflows", Authorization=OTHER)
        assert reply.status == 200
        reply = await client.get("/api/namespaces", Authorization=OTHER)
        assert reply.status == 200  # of none
        async with grpc.aio.insecure_channel(served.grpc) as channel:
            stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
            request = pb.ListWorkflowsRequest(namespace="shop")
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await stub.ListWorkflows(request, metadata=(("authorization", ONE),))
            assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_polls_of_one_token_over_both_apis(tmp_path: Path) -> None:
    async with limited(tmp_path, polls_per_token=2) as (served, client):
        served.node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
        async with grpc.aio.insecure_channel(served.grpc) as channel:
            stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
            metadata = (("authorization", ONE),)
            poll = asyncio.create_task(client.get("/api/workflow-tasks", Authorization=ONE))
            call = stub.PollTask(pb.PollTaskRequest(), metadata=metadata, timeout=20)
            waiting = asyncio.ensure_future(call)
            await eventually(lambda: len(served.node.parked) == 2, "both are parked")
            reply = await client.get("/api/workflow-tasks", Authorization=ONE)
            assert (reply.status, reply.json["reason"]) == (429, "TOO_MANY_POLLS")
            assert reply.json["limit"] == "limits.polls_per_token"
            for asked in (
                stub.PollTask(pb.PollTaskRequest(), metadata=metadata),
                stub.WorkerStream(iter(()), metadata=metadata).read(),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await asked
                assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            other = asyncio.create_task(client.get("/api/workflow-tasks", Authorization=OTHER))
            await eventually(lambda: len(served.node.parked) == 3, "another's is parked")
            for task in (poll, other, waiting):
                task.cancel()
            await eventually(lambda: not served.node.parked, "all have gone")
        poll = asyncio.create_task(client.get("/api/workflow-tasks", Authorization=ONE))
        await eventually(lambda: served.node.parked, "there is room again")
        poll.cancel()
