"""Worker streams over a real channel: bounded by demand, and nothing is lost when one breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import grpc
import pytest
from engine_harness import activity, complete_decision, start
from eventually import eventually
from single_node import Served, SingleNode, config_for, services
from stream_worker import StreamWorker

from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.worker_stream import MAX_DEMANDS, WorkerStreams
from raftflow.cluster.errors import Unavailable
from raftflow.engine.commands import RegisterTypes, TerminateRun
from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc


@pytest.fixture
async def stub(served: Served) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(served.grpc) as channel:
        yield service_pb2_grpc.WorkflowServiceStub(channel)


def fan_out(node: SingleNode, count: int, workflow_id: str = "w", **changes: Any) -> None:
    """A run with so many activities of the name `pay` queued."""
    node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    node.apply(start(workflow_id, run_id=f"run-of-{workflow_id}"))
    token = node.harness.grant_decision(workflow_id)
    steps = [replace(activity(n, "pay"), **changes) for n in range(1, count + 1)]
    node.apply(complete_decision(workflow_id, token, *steps))
    node.match()


async def test_tasks_come_as_demanded_and_never_more(served: Served, stub: Any) -> None:
    worker = StreamWorker(stub)
    assert (await worker.demand(3, "pay")).WhichOneof("outcome") is None
    fan_out(served.node, 5)
    await eventually(lambda: len(worker.tasks) == 3, "three tasks are out")
    assert [batch.number for batch in worker.batches] == list(range(1, len(worker.batches) + 1))
    await asyncio.sleep(0.05)
    assert len(worker.tasks) == 3
    assert (await worker.complete(worker.tasks[1])).HasField("complete_task")
    await eventually(lambda: len(worker.tasks) == 4, "one came for the one that is done")
    for task in worker.tasks[2:]:
        await worker.complete(task)
    await eventually(lambda: len(worker.tasks) == 5, "the last one")
    assert worker.ended == []


async def test_the_next_batch_waits_for_the_word_that_the_last_arrived(
    served: Served, stub: Any
) -> None:
    worker = StreamWorker(stub, acknowledges=False)
    fan_out(served.node, 2)
    await worker.demand(10)
    await eventually(lambda: worker.batches, "the first batch")
    fan_out(served.node, 1, "w2")
    await asyncio.sleep(0.05)
    assert len(worker.batches) == 1
    await worker.acknowledge(worker.batches[0])
    await eventually(lambda: len(worker.batches) == 2, "the second batch")


async def test_both_kinds_and_eager_answers_on_one_stream(served: Served, stub: Any) -> None:
    node = served.node
    node.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    worker = StreamWorker(stub)
    await worker.demand(1, "Order", kind=pb.TASK_KIND_WORKFLOW, demand_id="types")
    node.apply(start("w"))
    node.match()
    await eventually(lambda: worker.tasks, "the workflow task")
    command = pb.Command(schedule_activity=pb.ScheduleActivity(step_name="pay", sequence=1))
    eager = pb.EagerPoll(names=["pay"])
    outcome = await worker.decide(worker.tasks[0], command, eager=eager)
    (task,) = outcome.complete_workflow_task.activity_tasks
    done = await worker.complete(task, eager=pb.EagerPoll(names=["Order"]))
    decision = done.complete_task.workflow_task
    assert decision.steps[0].output == b"done"
    ended = pb.Command(complete_workflow=pb.CompleteWorkflow(output=b"shipped"))
    await worker.decide(decision, ended)
    shown = await stub.DescribeWorkflow(pb.DescribeWorkflowRequest(workflow_id="w"))
    assert shown.run.status == "COMPLETED"


async def test_a_task_that_is_not_wanted_any_more_is_told(served: Served, stub: Any) -> None:
    worker = StreamWorker(stub)
    await worker.demand(1)
    fan_out(served.node, 1)
    await eventually(lambda: worker.tasks, "the task")
    served.node.apply(
        TerminateRun(
            namespace="default", workflow_id="w", run_id="", reason="enough", request_id="t"
        )
    )
    await eventually(lambda: worker.ended, "the end")
    (ended,) = worker.ended
    assert (ended.token, ended.cancelled) == (worker.tasks[0].lease_token, True)
    outcome = await worker.complete(worker.tasks[0])
    assert outcome.error.code == grpc.StatusCode.FAILED_PRECONDITION.value[0]
    assert outcome.error.metadata["cancelled"] == "true"
    fan_out(served.node, 1, "w2")  # its place is free
    await eventually(lambda: len(worker.tasks) == 2, "the next task")


async def test_heartbeats_have_outcomes(served: Served, stub: Any) -> None:
    worker = StreamWorker(stub)
    await worker.demand(1)
    fan_out(served.node, 1)
    await eventually(lambda: worker.tasks, "the task")
    beat = pb.HeartbeatRequest(workflow_id="w", lease_token=worker.tasks[0].lease_token)
    assert (await worker.ask(heartbeat=beat)).WhichOneof("outcome") is None
    beat.lease_token = "nonsense"
    assert (await worker.ask(heartbeat=beat)).error.reason == "LEASE_LOST"
    served.node.fault = Unavailable("no leader", maybe_applied=True)
    error = (await worker.complete(worker.tasks[0])).error
    assert (error.reason, error.metadata["maybe_applied"]) == ("MAYBE_APPLIED", "true")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"demand_id": "a.b"}, "demand_id"),
        ({"kind": pb.TASK_KIND_UNSPECIFIED}, "kind"),
        ({"in_flight": 10_001}, "in_flight"),
        ({"namespace": "nowhere"}, "nowhere"),
        ({"names": [""]}, "names"),
    ],
)
async def test_a_bad_demand_is_refused(stub: Any, fields: dict[str, Any], complaint: str) -> None:
    worker = StreamWorker(stub)
    demand = {"demand_id": "d", "kind": pb.TASK_KIND_ACTIVITY, "in_flight": 1, **fields}
    assert complaint in (await worker.ask(demand=pb.WorkerDemand(**demand))).error.message


async def test_a_stream_has_so_many_demands_and_no_more(stub: Any) -> None:
    worker = StreamWorker(stub)
    for number in range(MAX_DEMANDS):
        assert not (await worker.demand(1, demand_id=f"d{number}")).HasField("error")
    assert (await worker.demand(1, demand_id="more")).HasField("error")
    assert not (await worker.demand(2, demand_id="d7")).HasField("error")


async def test_a_message_without_content_ends_the_stream(stub: Any) -> None:
    worker = StreamWorker(stub)
    await worker.call.write(pb.WorkerMessage(id=7))
    assert await worker.call.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_demand_can_be_changed_and_ended(served: Served, stub: Any) -> None:
    worker = StreamWorker(stub)
    await worker.demand(5, "ship")
    fan_out(served.node, 3)
    await asyncio.sleep(0.05)
    assert worker.tasks == []
    await worker.demand(1, "pay")
    await eventually(lambda: len(worker.tasks) == 1, "the new names count")
    await worker.demand(0)
    await worker.complete(worker.tasks[0])
    await asyncio.sleep(0.05)
    assert len(worker.tasks) == 1
    await eventually(lambda: not served.node.parked, "no poll is left")


async def test_a_worker_that_ends_its_side_gets_its_outcomes(served: Served, stub: Any) -> None:
    worker = StreamWorker(stub)
    await worker.demand(1)
    fan_out(served.node, 2)
    await eventually(lambda: worker.tasks, "the task")
    completion = asyncio.create_task(worker.complete(worker.tasks[0]))
    await asyncio.sleep(0)  # its message stands in line before the end
    await worker.end()
    assert (await completion).HasField("complete_task")
    await worker.reading
    assert await worker.call.code() is grpc.StatusCode.OK
    assert not served.node.parked


async def test_a_stopping_node_ends_its_streams(served: Served, stub: Any) -> None:
    worker = StreamWorker(stub)
    await worker.demand(1)
    await served.server.stop()
    assert await worker.call.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_stream_that_breaks_leaves_no_poll(served: Served, stub: Any) -> None:
    worker = StreamWorker(stub)
    await worker.demand(3)
    await eventually(lambda: served.node.parked, "the poll is parked")
    worker.call.cancel()
    await eventually(lambda: not served.node.parked, "the poll is gone")


class Wire:
    """A stream whose other end reads when the test lets it."""

    def __init__(self, node: SingleNode, data_dir: Any) -> None:
        self.incoming: asyncio.Queue[pb.WorkerMessage] = asyncio.Queue()
        self.written: list[pb.NodeMessage] = []
        self.writing = False
        self.open = asyncio.Event()
        ports = services(node, config_for((1, 2, 3), data_dir))
        self.serving = asyncio.create_task(
            WorkerStreams(ports).serve(
                ports, self.messages(), self.write, lambda message: "default"
            )
        )

    async def messages(self) -> AsyncIterator[pb.WorkerMessage]:
        while True:
            yield await self.incoming.get()

    async def write(self, message: pb.NodeMessage) -> None:
        self.writing = True
        await self.open.wait()
        self.written.append(message)

    def demand(self, in_flight: int, received: int = 0) -> None:
        demand = pb.WorkerDemand(
            demand_id="d1", kind=pb.TASK_KIND_ACTIVITY, in_flight=in_flight, received=received
        )
        self.incoming.put_nowait(pb.WorkerMessage(id=1, demand=demand))


async def test_what_was_not_written_when_a_stream_broke_goes_back(tmp_path: Any) -> None:
    node = SingleNode()
    wire = Wire(node, tmp_path)
    wire.demand(2)
    await eventually(lambda: node.parked, "the poll is parked")
    fan_out(node, 2)
    await asyncio.sleep(0.05)
    assert (wire.written, node.returned) == ([], [])
    wire.serving.cancel()
    await asyncio.wait({wire.serving})
    assert len(node.returned) == len({*node.returned}) > 0
    assert not node.parked


async def test_what_was_written_lives_by_its_lease_or_the_workers_word(tmp_path: Any) -> None:
    """The next stream asks with the request id of the batch that did not arrive."""
    asked: list[str] = []

    class Node(SingleNode):
        async def poll_activity(self, poll: Any, *, timeout_ms: int) -> Sequence[Any]:
            asked.append(poll.request_id)
            return await super().poll_activity(poll, timeout_ms=timeout_ms)

    node = Node()
    wire = Wire(node, tmp_path)
    wire.open.set()
    wire.demand(1)
    await eventually(lambda: node.parked, "the poll is parked")
    fan_out(node, 1)
    await eventually(lambda: len(wire.written) == 2, "the outcome, and the task")
    wire.serving.cancel()
    await asyncio.wait({wire.serving})
    assert node.returned == []
    again = Wire(node, tmp_path)
    again.demand(1, received=0)
    await eventually(lambda: len(asked) == 2, "the batch is asked for again")
    assert asked == ["d1-1", "d1-1"]
    again.serving.cancel()
    later = Wire(node, tmp_path)
    later.demand(1, received=1)
    await eventually(lambda: len(asked) == 3, "the next batch")
    assert asked[-1] == "d1-2"
    later.serving.cancel()


async def test_a_completion_goes_on_when_its_stream_has_gone(tmp_path: Any) -> None:
    release = asyncio.Event()

    class Slow(SingleNode):
        async def take(
            self, poll: Any, complete: Callable[[Any], Awaitable[tuple[str, ...]]]
        ) -> Sequence[Any]:
            await release.wait()
            return await super().take(poll, complete)

    node = Slow()
    wire = Wire(node, tmp_path)
    wire.open.set()
    wire.demand(1)
    await eventually(lambda: node.parked, "the poll is parked")
    fan_out(node, 1)
    await eventually(lambda: len(wire.written) == 2, "the task")
    token = wire.written[1].tasks.activity_tasks[0].lease_token
    done = pb.CompleteTaskRequest(workflow_id="w", lease_token=token, eager=pb.EagerPoll())
    wire.incoming.put_nowait(pb.WorkerMessage(id=2, complete_task=done))
    await asyncio.sleep(0.01)
    wire.serving.cancel()
    await asyncio.wait({wire.serving})
    release.set()
    # Applied, and the workflow task that it handed out goes back.
    await eventually(lambda: len(node.returned) == 1, "the eager task is returned")
    assert node.harness.run("w").steps[0].output == b""
    assert node.harness.run("w").steps[0].resolved_event_id


async def test_an_error_waits_for_the_message_that_is_being_written(tmp_path: Any) -> None:
    """gRPC cannot end a call with a status meanwhile, and its worker would never hear of it."""
    wire = Wire(SingleNode(), tmp_path)
    wire.demand(1)
    await eventually(lambda: wire.writing, "the outcome is being written")
    wire.incoming.put_nowait(pb.WorkerMessage())
    await eventually(wire.incoming.empty, "the bad message is read")
    done, _ = await asyncio.wait({wire.serving}, timeout=0.05)
    assert not done
    wire.open.set()
    with pytest.raises(ApiError, match="says nothing"):
        await wire.serving
    assert len(wire.written) == 1
