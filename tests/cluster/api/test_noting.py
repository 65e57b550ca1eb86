"""Refused calls of both APIs are kept with what was known of them."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from grpc import aio
from json_client import Client
from single_node import Served

from raftflow.cluster.refused_calls import RefusedCall
from raftflow.engine.commands import CreateNamespace, RegisterTypes, SetQuota
from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1.service_pb2_grpc import WorkflowServiceStub

START = {"type": "Order", "workflow_id": "order-1"}


@pytest.fixture(autouse=True)
def known(served: Served) -> None:
    for namespace in ("default", "shop"):
        if namespace != "default":
            served.node.apply(CreateNamespace(namespace=namespace, retention_ms=0, request_id=""))
        served.node.apply(RegisterTypes(namespace=namespace, workflow_types=("Order",)))


def noted(served: Served, target: str = "order-1", namespace: str = "default") -> RefusedCall:
    (call,) = served.services.refused.own(namespace, target)
    return call


async def test_a_start_over_the_quota(served: Served, client: Client) -> None:
    quota = SetQuota(namespace="shop", max_open_runs=1, starts_per_second=0, request_id="")
    served.node.apply(quota)
    headers = {"X_Workflowd_Namespace": "shop"}
    await client.post("/api/workflows", {**START, "workflow_id": "other"}, **headers)
    assert (await client.post("/api/workflows", START, **headers)).status == 429
    call = noted(served, namespace="shop")
    assert (call.operation, call.reason) == ("StartWorkflow", "QUOTA_EXCEEDED")
    assert (call.limit, call.value) == ("max_open_runs", 1)


async def test_a_result_that_is_too_large(served: Served, client: Client) -> None:
    most = served.services.config.limits.payload_bytes
    body = {"workflow_id": "order-1", "step_name": "charge", "sequence": 3, "lease_token": "t"}
    answer = await client.post("/api/activity-tasks/complete", body | {"output": "x" * (most + 1)})
    assert answer.status == 413
    assert (noted(served).operation, noted(served).step) == ("CompleteTask", "charge")


async def test_a_signal_names_its_run_in_the_path(served: Served, client: Client) -> None:
    most = served.services.config.limits.payload_bytes
    body = {"name": "go", "payload": "x" * (most + 1)}
    assert (await client.post("/api/workflows/a%2Fb/signal", body)).status == 413
    assert noted(served, "a/b").operation == "SignalWorkflow"


async def test_grpc_the_same(served: Served) -> None:
    most = served.services.config.limits.payload_bytes
    async with aio.insecure_channel(served.grpc) as channel:
        request = pb.CompleteTaskRequest(
            workflow_id="order-1", sequence=2, lease_token="t", output=b"x" * (most + 1)
        )
        with pytest.raises(grpc.RpcError):
            await WorkflowServiceStub(channel).CompleteTask(request)
    assert (noted(served).reason, noted(served).step) == ("PAYLOAD_TOO_LARGE", "2")


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/api/workflows", {"nonsense": 1}, {}),  # a mistake, no limit
        ("/api/workflows", START | {"type": "Unknown"}, {"X_Workflowd_Namespace": "nowhere"}),
        ("/api/namespaces", {"name": ""}, {}),
    ],
)
async def test_what_says_nothing_about_a_run_is_not_kept(
    served: Served, client: Client, path: str, body: Any, headers: dict[str, str]
) -> None:
    assert (await client.post(path, body, **headers)).status >= 400
    for namespace in ("default", "shop", "nowhere", ""):
        assert served.services.refused.own(namespace, "order-1") == []


@pytest.mark.parametrize("body", [{"workflow_id": ["x"]}, {"workflow_id": 7, "step_name": {}}])
async def test_nonsense_in_the_place_of_names(served: Served, client: Client, body: Any) -> None:
    served.node.fault = None
    most = served.services.config.limits.request_body_bytes
    await client.post("/api/activity-tasks/complete", body | {"output": "x" * (most // 2)})
    found = served.services.refused.own("default", "order-1")
    assert all(each.target == "" for each in found)
