"""The gRPC API over a real channel, with the real engine behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from eventually import eventually
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from single_node import Served, serve

from raftflow.cluster.errors import Unavailable
from raftflow.engine import trace
from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc


@pytest.fixture
async def channel(served: Served) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(served.grpc) as channel:
        yield channel


@pytest.fixture
def stub(channel: grpc.aio.Channel) -> Any:
    return service_pb2_grpc.WorkflowServiceStub(channel)


def reason_of(error: grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo:
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    status = status_pb2.Status.FromString(details)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (status.code, status.message) == (error.code().value[0], error.details())
    assert info.domain == "workflowd"
    return info


async def started(stub: Any, workflow_id: str = "order-42") -> pb.StartWorkflowResponse:
    await stub.RegisterWorkflowTypes(pb.RegisterWorkflowTypesRequest(workflow_types=["Order"]))
    request = pb.StartWorkflowRequest(type="Order", workflow_id=workflow_id, input=b"\xffbook")
    return await stub.StartWorkflow(request)


async def decide(stub: Any, *commands: pb.Command) -> pb.WorkflowTask:
    task = await stub.PollWorkflowTask(pb.PollWorkflowTaskRequest(types=["Order"]))
    done = pb.CompleteWorkflowTaskRequest(
        workflow_id=task.workflow_id, task_token=task.task_token, commands=commands
    )
    await stub.CompleteWorkflowTask(done)
    return task


async def test_a_trace_comes_with_the_metadata(stub: Any) -> None:
    await stub.RegisterWorkflowTypes(pb.RegisterWorkflowTypesRequest(workflow_types=["Order"]))
    caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    metadata = (("traceparent", caller), ("tracestate", "a=1"))
    run = await stub.StartWorkflow(
        pb.StartWorkflowRequest(type="Order", workflow_id="w"), metadata=metadata
    )
    task = await stub.PollWorkflowTask(pb.PollWorkflowTaskRequest(types=["Order"]))
    assert (task.traceparent, task.tracestate) == (trace.under(caller, run.run_id), "a=1")


async def test_a_run_from_start_to_end(stub: Any) -> None:
    run = await started(stub)
    assert run.started
    activity = pb.ScheduleActivity(step_name="reserve", sequence=1, input=b"book")
    task = await decide(stub, pb.Command(schedule_activity=activity))
    assert (task.input, task.history_length) == (b"\xffbook", 1)
    work = await stub.PollTask(pb.PollTaskRequest(worker_id="w1", activities=["reserve"]))
    assert (work.step_name, work.sequence, work.input) == ("reserve", 1, b"book")
    beat = pb.HeartbeatRequest(workflow_id="order-42", lease_token=work.lease_token)
    await stub.Heartbeat(beat)
    done = pb.CompleteTaskRequest(
        workflow_id="order-42", sequence=1, lease_token=work.lease_token, output=b"held"
    )
    await stub.CompleteTask(done)
    with pytest.raises(grpc.aio.AioRpcError) as lost:
        await stub.Heartbeat(beat)
    assert lost.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert reason_of(lost.value).reason == "LEASE_LOST"
    await decide(stub, pb.Command(complete_workflow=pb.CompleteWorkflow(output=b"shipped")))
    shown = await stub.DescribeWorkflow(pb.DescribeWorkflowRequest(workflow_id="order-42"))
    assert (shown.run.status, shown.output) == ("COMPLETED", b"shipped")
    page = await stub.ListWorkflows(pb.ListWorkflowsRequest(status=["COMPLETED"]))
    assert [each.workflow_id for each in page.workflows] == ["order-42"]
    history = await stub.GetHistory(pb.GetHistoryRequest(workflow_id="order-42"))
    assert len(history.records) == history.history_length


async def test_errors_say_code_reason_and_details(served: Served, stub: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as missing:
        await stub.DescribeWorkflow(pb.DescribeWorkflowRequest(workflow_id="nobody"))
    assert missing.value.code() is grpc.StatusCode.NOT_FOUND
    assert reason_of(missing.value).reason == "WORKFLOW_NOT_FOUND"
    run = await started(stub)
    with pytest.raises(grpc.aio.AioRpcError) as taken:
        await started(stub)
    assert taken.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert reason_of(taken.value).metadata["run_id"] == run.run_id
    served.node.fault = Unavailable("no leader", maybe_applied=True)
    with pytest.raises(grpc.aio.AioRpcError) as away:
        await stub.SignalWorkflow(pb.SignalWorkflowRequest(workflow_id="order-42", name="go"))
    assert away.value.code() is grpc.StatusCode.UNAVAILABLE
    assert reason_of(away.value).metadata["maybe_applied"] == "true"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (pb.Command(), "commands[0] has no command type"),
        (pb.Command(start_timer=pb.StartTimer(sequence=1)), "commands[0].step_name"),
        (
            pb.Command(start_timer=pb.StartTimer(step_name="t", sequence=1, delay_ms=1 << 60)),
            "commands[0].delay_ms must be",
        ),
    ],
)
async def test_commands_are_checked_by_place(stub: Any, command: pb.Command, message: str) -> None:
    request = pb.CompleteWorkflowTaskRequest(workflow_id="w", task_token="t", commands=[command])
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.CompleteWorkflowTask(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert message in refused.value.details()


async def test_a_poll_ends_before_its_deadline_with_an_empty_task(stub: Any) -> None:
    task = await stub.PollTask(pb.PollTaskRequest(worker_id="w1"), timeout=0.25)
    assert task == pb.Task()


async def test_a_poll_that_hangs_up_gives_its_place_back(served: Served, stub: Any) -> None:
    poll = asyncio.ensure_future(stub.PollWorkflowTask(pb.PollWorkflowTaskRequest()))
    await eventually(lambda: served.node.parked, "the poll is parked")
    poll.cancel()
    await eventually(lambda: not served.node.parked, "the poll is gone")


async def test_namespaces_come_as_field_or_metadata(stub: Any) -> None:
    for request, metadata in (
        (pb.ListWorkflowsRequest(namespace="nowhere"), ()),
        (pb.ListWorkflowsRequest(), (("x-workflowd-namespace", "nowhere"),)),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as missing:
            await stub.ListWorkflows(request, metadata=metadata)
        assert reason_of(missing.value).reason == "NAMESPACE_NOT_FOUND"


async def test_health_and_reflection_are_on(channel: grpc.aio.Channel) -> None:
    health: Any = health_pb2_grpc.HealthStub(channel)
    for name in ("", "workflow.v1.WorkflowService"):
        state = await health.Check(health_pb2.HealthCheckRequest(service=name))
        assert state.status == health_pb2.HealthCheckResponse.SERVING
    mirror: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = mirror.ServerReflectionInfo(
        iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    )
    async for answer in call:
        names = [service.name for service in answer.list_services_response.service]
        assert "workflow.v1.WorkflowService" in names
        break
    call.cancel()


async def test_a_stopping_node_ends_polls(served: Served, stub: Any) -> None:
    poll = asyncio.ensure_future(stub.PollTask(pb.PollTaskRequest(worker_id="w1")))
    await eventually(lambda: served.node.parked, "the poll is parked")
    await served.server.stop()
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await poll
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_port_in_use_is_named(served: Served) -> None:
    from raftflow.cluster.errors import PortInUse

    with pytest.raises(PortInUse, match=str(served.services.config.metrics_addr)):
        await serve(served.services.config)
