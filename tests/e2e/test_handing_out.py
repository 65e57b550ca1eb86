"""Handing tasks out on a real cluster: several at once, in the answer to a completion, and over a
stream whose node dies."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import grpc
import pytest
from dev_cluster import DevCluster, dev_cluster
from eventually import eventually
from json_client import Client
from stream_worker import StreamWorker

from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc

pytestmark = pytest.mark.cluster

LEASE_S, DECISION_S = 30.0, 10.0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """For tests that kill nobody, each in a namespace of its own."""
    with dev_cluster(tmp_path_factory.mktemp("handing_out") / "cluster") as running:
        yield running


@pytest.fixture
def namespace(shared: DevCluster) -> str:
    return new_namespace(shared)


def new_namespace(cluster: DevCluster) -> str:
    name = f"n{uuid.uuid4().hex}"
    cluster.call(cluster.leader(), "POST", "/api/namespaces", {"name": name})
    return name


@asynccontextmanager
async def client(
    cluster: DevCluster, node: str, namespace: str = "default"
) -> AsyncIterator[Client]:
    headers = {"X-Workflowd-Namespace": namespace}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield Client(session, f"http://{cluster.http(node)}")


def steps(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [
        {"type": "schedule_activity", "step_name": "pay", "sequence": number, **fields}
        for number in range(1, count + 1)
    ]


async def decision(to: Client, workflow_id: str) -> dict[str, Any]:
    """Start a run and take its workflow task."""
    await to.post("/api/workflow-types", {"workflow_types": ["Order"]})
    started = await to.post("/api/workflows", {"type": "Order", "workflow_id": workflow_id})
    assert started.status == 201
    task = (await to.get("/api/workflow-tasks?types=Order")).json
    assert task["workflow_id"] == workflow_id
    return {"workflow_id": workflow_id, "task_token": task["task_token"]}


@contextmanager
def sent(
    cluster: DevCluster, node: str, path: str, body: dict[str, Any], namespace: str = "default"
) -> Iterator[None]:
    """A request whose caller never reads the answer, and hangs up at the end."""
    content = json.dumps(body).encode()
    host, port = cluster.http(node).split(":")
    with socket.create_connection((host, int(port))) as caller:
        caller.sendall(
            b"POST %s HTTP/1.1\r\nHost: n\r\nX-Workflowd-Namespace: %s\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (path.encode(), namespace.encode(), len(content), content)
        )
        yield


async def test_a_fan_out_is_shared_by_the_polls_that_wait(
    shared: DevCluster, namespace: str
) -> None:
    first, second = shared.followers()
    async with client(shared, first, namespace) as one, client(shared, second, namespace) as two:
        task = await decision(one, "w")
        polls = [
            asyncio.create_task(each.get("/api/activity-tasks?activities=pay&max=5"))
            for each in (one, two)
        ]
        await one.post("/api/workflow-tasks/complete", {**task, "commands": steps(10)})
        shares = [sorted(each["sequence"] for each in (await poll).json["tasks"]) for poll in polls]
        assert sorted(shares[0] + shares[1]) == list(range(1, 11))


async def test_queues_and_namespaces_do_not_meet(shared: DevCluster, namespace: str) -> None:
    node = shared.followers()[0]
    async with (
        client(shared, node, namespace) as to,
        client(shared, node, new_namespace(shared)) as elsewhere,
    ):
        here, there = await decision(to, "w"), await decision(elsewhere, "w")
        commands = [*steps(1), {**steps(2)[1], "task_queue": "red"}]
        await to.post("/api/workflow-tasks/complete", {**here, "commands": commands})
        await elsewhere.post(
            "/api/workflow-tasks/complete", {**there, "commands": steps(1, input="theirs")}
        )
        red = (await to.get("/api/activity-tasks?task_queue=red&max=9")).json["tasks"]
        plain = (await to.get("/api/activity-tasks?max=9")).json["tasks"]
        theirs = (await elsewhere.get("/api/activity-tasks?max=9")).json["tasks"]
        assert [task["sequence"] for task in red] == [2]
        assert [(task["sequence"], task["input"]) for task in plain] == [(1, "")]
        assert [(task["sequence"], task["input"]) for task in theirs] == [(1, "theirs")]


@pytest.mark.parametrize("role", ["leader", "follower"])
async def test_a_run_goes_through_in_answers_alone(
    shared: DevCluster, namespace: str, role: str
) -> None:
    node = shared.leader() if role == "leader" else shared.followers()[0]
    async with client(shared, node, namespace) as to:
        task = await decision(to, "w")
        for number in range(1, 4):
            body = {
                **task,
                "commands": steps(number)[-1:],
                "eager": {"activities": ["pay"], "worker_id": "w1"},
            }
            answer = (await to.post("/api/workflow-tasks/complete", body)).json
            (work,) = answer["activity_tasks"]
            assert (work["sequence"], work["attempt"]) == (number, 1)
            done = {
                "workflow_id": "w",
                "lease_token": work["lease_token"],
                "output": str(number),
                "eager": {"types": ["Order"], "worker_id": "w1"},
            }
            answer = (await to.post("/api/activity-tasks/complete", done)).json
            task = {
                "workflow_id": "w",
                "task_token": answer["workflow_task"]["task_token"],
            }
        end = {**task, "command": {"type": "complete_workflow", "output": "x"}}
        assert (await to.post("/api/workflow-tasks/complete", end)).status == 200
        assert (await to.get("/api/workflows/w")).json["status"] == "COMPLETED"


async def test_who_leaves_without_reading_the_answer_keeps_no_task(
    shared: DevCluster, namespace: str
) -> None:
    node, other = shared.followers()
    async with client(shared, node, namespace) as to, client(shared, other, namespace) as elsewhere:
        task = await decision(to, "w")
        body = {**task, "commands": steps(1), "eager": {"worker_id": "gone"}}
        with sent(shared, node, "/api/workflow-tasks/complete", body, namespace):
            while not (await to.get("/api/workflows/w")).json["steps"]:
                await asyncio.sleep(0.005)  # until the decision is applied, and its task granted
        begun = time.monotonic()
        work = (await elsewhere.get("/api/activity-tasks?activities=pay")).json
        assert (work["sequence"], work["attempt"]) == (1, 1)
        assert time.monotonic() - begun < LEASE_S / 3


async def test_an_answer_that_dies_with_its_node_is_given_to_who_asks_again(
    cluster: DevCluster,
) -> None:
    """Tasks were granted in it: of a decision, then of an activity. Each step has one attempt."""
    complete_decision, complete_activity = (
        f"/api/{kind}-tasks/complete" for kind in ("workflow", "activity")
    )
    for doomed, survivor in (
        (cluster.followers()[0], cluster.leader()),
        (cluster.leader(), cluster.followers()[0]),
    ):
        async with client(cluster, survivor) as to:
            task = await decision(to, doomed)
            wanted = {"worker_id": "w1", "request_id": f"{doomed}-1", "max": 2}
            decided = {**task, "commands": steps(2), "eager": wanted}
            with sent(cluster, doomed, complete_decision, decided):
                while len((await to.get(f"/api/workflows/{doomed}")).json["steps"]) < 2:
                    await asyncio.sleep(0.005)  # until it is applied
                cluster.kill(doomed)
            begun = time.monotonic()
            assert (await to.post(complete_decision, decided)).json["activity_tasks"] == []
            poll = f"/api/activity-tasks?worker_id=w1&max=2&request_id={doomed}-1"
            works = (await to.get(poll)).json["tasks"]
            assert sorted(work["sequence"] for work in works) == [1, 2]
            assert {work["attempt"] for work in works} == {1}
            assert time.monotonic() - begun < LEASE_S / 2

            cluster.start_node(doomed)
            cluster.wait_all_serve()
            wanted = {"worker_id": "w1", "request_id": f"{doomed}-2"}
            done = {
                "workflow_id": doomed,
                "lease_token": works[0]["lease_token"],
                "output": "x",
                "eager": wanted,
            }
            with sent(cluster, doomed, complete_activity, done):
                while not any(
                    step["status"] == "COMPLETED"
                    for step in (await to.get(f"/api/workflows/{doomed}")).json["steps"]
                ):
                    await asyncio.sleep(0.005)
                cluster.kill(doomed)
            begun = time.monotonic()
            assert (await to.post(complete_activity, done)).status == 200
            poll = f"/api/workflow-tasks?worker_id=w1&request_id={doomed}-2"
            assert (await to.get(poll)).json["workflow_id"] == doomed
            assert time.monotonic() - begun < DECISION_S * 0.9
            cluster.start_node(doomed)
            cluster.wait_all_serve()


async def test_a_stream_outlives_its_node(cluster: DevCluster) -> None:
    """Batch 1 arrived and is acknowledged, batch 2 never arrives: its node is killed. On the next
    stream the worker completes the first, and is given the second at once, at attempt 1."""
    doomed, other = cluster.followers()
    async with client(cluster, other) as to:
        task = await decision(to, "w")
        async with grpc.aio.insecure_channel(cluster.grpc(doomed)) as channel:
            stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
            worker = StreamWorker(stub, acknowledges=False)
            await worker.demand(2, "pay", demand_id="d1", worker_id="w1")
            await to.post("/api/workflow-tasks/complete", {**task, "commands": steps(4)})
            await eventually(lambda: len(worker.tasks) == 2, "the first batch")
            (first,) = worker.batches
            await worker.acknowledge(first)
            await worker.complete(worker.tasks[0])
            await eventually(lambda: len(worker.batches) == 2, "the second batch")
            lost = worker.batches[1].activity_tasks[0]
            cluster.kill(doomed)
        async with grpc.aio.insecure_channel(cluster.grpc(other)) as channel:
            stub = service_pb2_grpc.WorkflowServiceStub(channel)
            worker_again = StreamWorker(stub)
            begun = time.monotonic()
            await worker_again.demand(
                2, "pay", demand_id="d1", worker_id="w1", received=first.number
            )
            outcome = await worker_again.complete(first.activity_tasks[1])
            assert outcome.WhichOneof("outcome") == "complete_task"
            await eventually(
                lambda: {task.sequence for task in worker_again.tasks} >= {lost.sequence, 4},
                "what was lost, and the next",
                within_s=LEASE_S / 2,
            )
            assert time.monotonic() - begun < LEASE_S / 2
            assert {task.attempt for task in worker_again.tasks} == {1}
            for each in worker_again.tasks:
                assert not (await worker_again.complete(each)).HasField("error")
        run = (await to.get("/api/workflows/w")).json
        assert [step["attempts"] for step in run["steps"]] == [1, 1, 1, 1]


async def test_a_broken_stream_leaves_nothing_behind(cluster: DevCluster) -> None:
    """The worker goes while it has work and a poll: its place is taken, what it had lives on."""
    node, other = cluster.followers()
    async with (
        client(cluster, other) as to,
        grpc.aio.insecure_channel(cluster.grpc(node)) as channel,
    ):
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
        task = await decision(to, "w")
        worker = StreamWorker(stub)
        await worker.demand(3, "pay", demand_id="d1")
        await to.post("/api/workflow-tasks/complete", {**task, "commands": steps(1)})
        await eventually(lambda: worker.tasks, "its task")
        worker.call.cancel()
        task = await decision(to, "w2")
        await to.post("/api/workflow-tasks/complete", {**task, "commands": steps(1)})
        begun = time.monotonic()
        work = (await to.get("/api/activity-tasks?activities=pay")).json
        assert (work["workflow_id"], work["attempt"]) == ("w2", 1)
        assert time.monotonic() - begun < LEASE_S / 3
        (held,) = worker.tasks
        done = pb.CompleteTaskRequest(workflow_id="w", lease_token=held.lease_token)
        await stub.CompleteTask(done)  # still its own
