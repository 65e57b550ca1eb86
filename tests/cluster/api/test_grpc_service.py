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
from json_client import Client
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


async def test_the_whole_protocol(stub: Any) -> None:
    await stub.RegisterWorkflowTypes(pb.RegisterWorkflowTypesRequest(workflow_types=["Order"]))
    start = pb.StartWorkflowRequest(
        type="Order",
        workflow_id="order-42",
        search_attributes={
            "vip": pb.AttributeValue(flag=True),
            "amount": pb.AttributeValue(number=12.0),
            "city": pb.AttributeValue(text="Köln"),
        },
        memo='{"by": "ann"}',
        signal=pb.StartSignal(name="go", payload=b"\xff"),
    )
    run = await stub.StartWorkflow(start)
    assert not (await stub.StartWorkflow(start)).started  # the open run got the signal again
    timer = pb.StartTimer(step_name="nap", sequence=3, delay_ms=60_000)
    await decide(
        stub,
        pb.Command(
            record_marker=pb.RecordMarker(step_name="v", sequence=1, marker="version", data=b"2")
        ),
        pb.Command(
            start_child_workflow=pb.StartChildWorkflow(
                step_name="pack",
                sequence=2,
                workflow_type="Order",
                workflow_id="pack",
                parent_close_policy=pb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
            )
        ),
        pb.Command(start_timer=timer),
        pb.Command(cancel_step=pb.CancelStep(step_name="nap", sequence=3, reason="no need")),
        pb.Command(
            upsert_search_attributes=pb.UpsertSearchAttributes(
                attributes={"city": pb.AttributeValue(), "step": pb.AttributeValue(integer=2)}
            )
        ),
    )
    cancel = pb.CancelWorkflowRequest(workflow_id="order-42", graceful=True, reason="no stock")
    await stub.CancelWorkflow(cancel)
    shown = await stub.DescribeWorkflow(pb.DescribeWorkflowRequest(workflow_id="order-42"))
    assert shown.run.search_attributes["vip"].flag
    assert shown.run.search_attributes["amount"].integer == 12  # 12.0 is the same number
    assert set(shown.run.search_attributes) == {"vip", "amount", "step"}
    assert shown.run.memo == '{"by":"ann"}'
    assert (shown.cancel_reason, shown.cancel_requested_ms > 0) == ("no stock", True)
    kinds = [(step.kind, step.status) for step in shown.steps]
    assert kinds == [("MARKER", "COMPLETED"), ("CHILD", "SCHEDULED"), ("TIMER", "CANCELLED")]
    assert (shown.steps[0].marker, shown.steps[0].output) == ("version", b"2")
    assert (shown.steps[1].workflow_id, shown.steps[1].run_id != "") == ("pack", True)
    child = await stub.DescribeWorkflow(pb.DescribeWorkflowRequest(workflow_id="pack"))
    assert child.parent == pb.Parent(workflow_id="order-42", run_id=run.run_id, sequence=2)
    for attributes, total in (
        ({"vip": pb.AttributeValue(flag=True), "step": pb.AttributeValue(integer=2)}, 1),
        ({"step": pb.AttributeValue(integer=3)}, 0),
    ):
        wanted = pb.ListWorkflowsRequest(search_attributes=attributes)
        assert (await stub.ListWorkflows(wanted)).total == total
    await stub.TerminateWorkflow(pb.TerminateWorkflowRequest(workflow_id="pack"))
    again = pb.ContinueAsNew(input=b"again")
    task = await decide(stub, pb.Command(continue_as_new=again))
    assert task.cancel_requested_event_id == task.history_length - 1  # the child's end came after
    newest = await stub.DescribeWorkflow(pb.DescribeWorkflowRequest(workflow_id="order-42"))
    assert (newest.continued_from_run_id, newest.input) == (run.run_id, b"again")


async def test_pausing_and_forgetting(stub: Any) -> None:
    await started(stub)
    await stub.PauseWorkflow(pb.PauseWorkflowRequest(workflow_id="order-42", reason="audit"))
    describe = pb.DescribeWorkflowRequest(workflow_id="order-42")
    shown = await stub.DescribeWorkflow(describe)
    assert (shown.run.status, shown.error) == ("PAUSED", "paused: audit")
    await stub.UnpauseWorkflow(pb.UnpauseWorkflowRequest(workflow_id="order-42"))
    assert (await stub.DescribeWorkflow(describe)).run.status == "WAITING"
    delete = pb.DeleteWorkflowRequest(workflow_id="order-42")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.DeleteWorkflow(delete)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert reason_of(refused.value).reason == "RUN_OPEN"
    await stub.TerminateWorkflow(pb.TerminateWorkflowRequest(workflow_id="order-42"))
    assert (await stub.DeleteWorkflow(delete)).runs == 1
    with pytest.raises(grpc.aio.AioRpcError) as gone:
        await stub.DescribeWorkflow(describe)
    assert gone.value.code() is grpc.StatusCode.NOT_FOUND


async def test_namespaces(stub: Any) -> None:
    await stub.CreateNamespace(pb.CreateNamespaceRequest(name="shop"))
    await stub.UpdateNamespace(pb.UpdateNamespaceRequest(name="shop", retention_ms=5_000))
    found = (await stub.ListNamespaces(pb.ListNamespacesRequest())).namespaces
    assert [(each.name, each.retention_ms) for each in found] == [("default", 0), ("shop", 5_000)]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.UpdateNamespace(pb.UpdateNamespaceRequest(name="nowhere", retention_ms=1))
    assert reason_of(refused.value).reason == "NAMESPACE_NOT_FOUND"


async def test_a_namespace_has_a_quota(stub: Any) -> None:
    await stub.CreateNamespace(pb.CreateNamespaceRequest(name="shop"))
    types = pb.RegisterWorkflowTypesRequest(namespace="shop", workflow_types=["Order"])
    await stub.RegisterWorkflowTypes(types)
    await stub.SetNamespaceQuota(pb.SetNamespaceQuotaRequest(name="shop", starts_per_second=1))
    found = (await stub.ListNamespaces(pb.ListNamespacesRequest())).namespaces
    assert [(each.max_open_runs, each.starts_per_second) for each in found] == [(0, 0), (0, 1)]
    start = pb.StartWorkflowRequest(namespace="shop", type="Order")
    await stub.StartWorkflow(start)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.StartWorkflow(start)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    info = reason_of(refused.value)
    assert (info.reason, info.metadata["limit"]) == ("QUOTA_EXCEEDED", "starts_per_second")
    assert 0 < int(info.metadata["retry_after_ms"]) <= 1_000


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.StartWorkflowRequest(type="Order", memo="[1]"), "memo"),
        (pb.StartWorkflowRequest(type="Order", memo="{"), "memo"),
        (pb.StartWorkflowRequest(type="Order", signal=pb.StartSignal()), "signal.name"),
        (
            pb.StartWorkflowRequest(
                type="Order", search_attributes={"a": pb.AttributeValue(number=float("nan"))}
            ),
            "search_attributes.a",
        ),
        (
            pb.StartWorkflowRequest(type="Order", search_attributes={"a": pb.AttributeValue()}),
            "search_attributes.a",
        ),
    ],
)
async def test_complaints_name_the_field(
    stub: Any, request_: pb.StartWorkflowRequest, field: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.StartWorkflow(request_)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert field in (refused.value.details() or "")


async def test_why_a_run_stands_still_is_shown_as_the_worker_said_it(
    stub: Any, client: Client, served: Served
) -> None:
    """Nondeterminism: the sequence, what the code did, what history has; healed by better code."""
    said = "at sequence 2: the code issued timer 'nap', but history has activity 'charge'"
    await started(stub)
    task = await stub.PollWorkflowTask(pb.PollWorkflowTaskRequest(types=["Order"]))
    await stub.CompleteWorkflowTask(
        pb.CompleteWorkflowTaskRequest(
            workflow_id="order-42",
            task_token=task.task_token,
            replay_error=said,
            replay_error_kind="nondeterminism",
        )
    )
    describe = pb.DescribeWorkflowRequest(workflow_id="order-42")
    shown = await stub.DescribeWorkflow(describe)
    assert (shown.run.status, shown.error) == ("UNKNOWN", said)
    as_json = (await client.get("/api/workflows/order-42")).json
    assert (as_json["status"], as_json["error"]) == ("UNKNOWN", said)
    served.node.tick(60_000)
    timer = pb.StartTimer(step_name="nap", sequence=1, delay_ms=60_000)
    await decide(stub, pb.Command(start_timer=timer))
    healed = await stub.DescribeWorkflow(describe)
    assert (healed.run.status, healed.error) == ("WAITING", "")
