"""Whatever arrives: the documented error, the task still pending, nothing changed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from json_client import Client, Reply
from single_node import Served

from raftflow.engine.ids import RunKey
from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc

PATH = "/api/workflows/order-42"
TIMER = {"type": "start_timer", "step_name": "t", "sequence": 1, "delay_ms": 60_000}
STEP = {"step_name": "s", "sequence": 1}
MARKER = STEP | {"type": "record_marker", "marker": "version"}
CHILD = STEP | {"type": "start_child_workflow", "workflow_type": "Order"}
LARGE = 100 << 20


@dataclass(slots=True)
class Scene:
    """A run whose decision is out with a worker, and what its history was then."""

    client: Client
    served: Served
    task: dict[str, Any]

    async def answer(self, *commands: Any, **more: Any) -> Reply:
        body = {
            "workflow_id": self.task["workflow_id"],
            "task_token": self.task["task_token"],
            "commands": list(commands),
        }
        return await self.client.post("/api/workflow-tasks/complete", body | more)

    async def must_be_untouched(self) -> None:
        """No event, no step, and the task can still be done, perhaps after its pause."""
        shown = (await self.client.get(PATH)).json
        assert (shown["history_length"], shown["steps"]) == (1, [])
        reply = await self.answer(TIMER)
        if reply.status == 409:  # it was given back
            self.served.node.tick(20_000)
            self.task = (await self.client.get("/api/workflow-tasks?types=Order")).json
            reply = await self.answer(TIMER)
        assert reply.status == 200, reply.content


@pytest.fixture
async def scene(client: Client, served: Served) -> Scene:
    await client.post("/api/workflow-types", {"workflow_types": ["Order"]})
    await client.post("/api/workflows", {"type": "Order", "workflow_id": "order-42"})
    task = (await client.get("/api/workflow-tasks?types=Order")).json
    return Scene(client, served, task)


@pytest.mark.parametrize(
    ("commands", "reason"),
    [
        ([TIMER | {"sequence": 2}], "BAD_SEQUENCE"),
        ([TIMER, TIMER], "BAD_SEQUENCE"),
        ([TIMER, TIMER | {"sequence": 3}], "BAD_SEQUENCE"),
        ([TIMER | {"sequence": 0}], "INVALID_FIELD"),
        ([TIMER | {"sequence": 2**70}], "INVALID_FIELD"),
        ([TIMER | {"sequence": "1"}], "INVALID_FIELD"),
        ([TIMER | {"delay": 1}], "UNKNOWN_FIELD"),
        ([TIMER | {"type": "dance"}], "INVALID_FIELD"),
        ([TIMER, {"type": "dance"}], "INVALID_FIELD"),
        ([TIMER | {"step_name": "a\u0000"}], "INVALID_FIELD"),
        ([TIMER | {"step_name": "\ud800"}], "INVALID_FIELD"),
        ([TIMER | {"step_name": "x" * 1_001}], "INVALID_FIELD"),
        (
            [TIMER, {"type": "complete_workflow", "output": "x" * (2 << 20) + "x"}],
            "PAYLOAD_TOO_LARGE",
        ),
        ([{"type": "complete_workflow"}, TIMER], "INVALID_COMMAND"),
        ([{"type": "cancel_step", "step_name": "t", "sequence": 1}], "INVALID_COMMAND"),
        ([TIMER, {"type": "cancel_step", "step_name": "u", "sequence": 1}], "INVALID_COMMAND"),
        ([MARKER | {"marker": "cancel"}], "INVALID_COMMAND"),
        ([MARKER | {"marker": "x"}], "INVALID_FIELD"),
        ([CHILD | {"workflow_type": "Nobody"}], "TYPE_NOT_REGISTERED"),
        ([CHILD | {"parent_close_policy": "x"}], "INVALID_FIELD"),
        ([{"type": "upsert_search_attributes", "attributes": {"a": {}}}], "INVALID_FIELD"),
        ([], "INVALID_COMMAND"),
        ([7], "INVALID_FIELD"),
        ([None], "INVALID_FIELD"),
    ],
)
async def test_a_bad_decision_changes_nothing(
    scene: Scene, commands: list[Any], reason: str
) -> None:
    reply = await scene.answer(*commands)
    assert reply.json["reason"] == reason, reply.content
    assert reply.status in (400, 413)
    await scene.must_be_untouched()


@pytest.mark.parametrize(
    "more",
    [
        {"x": 1},
        {"replay_error_kind": "dance"},
        {"command": TIMER},
        {"request_id": 7},
        {"eager": {"x": 1}},
        {"eager": {"max": 0}},
    ],
)
async def test_a_decision_that_cannot_be_read_gives_the_task_back(
    scene: Scene, more: dict[str, Any]
) -> None:
    reply = await scene.answer(TIMER, **more)
    assert reply.status == 400, reply.content
    async with asyncio.timeout(5):  # it is offered at once
        scene.task = (await scene.client.get("/api/workflow-tasks?types=Order")).json
    await scene.must_be_untouched()


async def test_a_decision_on_old_history_is_stale(scene: Scene) -> None:
    await scene.client.post(PATH + "/signal", {"name": "go"})
    reply = await scene.answer(TIMER)
    assert (reply.status, reply.json["reason"]) == (409, "DECISION_STALE")
    shown = (await scene.client.get(PATH)).json
    assert (shown["history_length"], shown["steps"]) == (2, [])
    fresh = (await scene.client.get("/api/workflow-tasks?types=Order")).json
    assert fresh["history_length"] == 2


def forged(token: str) -> list[str]:
    head, namespace, run_id, number, nonce = token.split(".")
    return [
        "x",
        "rf1",
        "rf1....",
        f"rf2.{namespace}.{run_id}.{number}.{nonce}",
        f"{head}.{namespace}.{run_id}.{number}.forged",
        f"{head}.{namespace}.{run_id}.{int(number) + 1}.{nonce}",
        f"{head}.{namespace}.{run_id}.{'9' * 300}.{nonce}",
        f"{head}.{namespace}.nobody.{number}.{nonce}",
        f"{head}.b3RoZXI.{run_id}.{number}.{nonce}",
        f"{head}.!!.{run_id}.{number}.{nonce}",
        token.upper(),
        token + " ",
        "ü" * 400,
    ]


async def test_forged_task_tokens_change_nothing(scene: Scene) -> None:
    for token in forged(scene.task["task_token"]):
        reply = await scene.answer(TIMER, task_token=token)
        assert reply.status == 409, (token, reply.content)
        assert reply.json["reason"] in ("DECISION_STALE", "LEASE_LOST"), token
    other = await scene.answer(TIMER, workflow_id="order-43")
    assert other.status in (404, 409)
    await scene.must_be_untouched()


async def test_forged_lease_tokens_change_nothing(scene: Scene) -> None:
    client = scene.client
    activity = {"type": "schedule_activity", "step_name": "a", "sequence": 1}
    assert (await scene.answer(activity)).status == 200
    task = (await client.get("/api/activity-tasks?activities=a")).json
    good = {"workflow_id": "order-42", "lease_token": task["lease_token"]}
    before = scene.served.node.harness.rows.load_run(RunKey("default", "order-42", task["run_id"]))
    for token in forged(task["lease_token"]):
        for path, body in (("complete", {"output": "x"}), ("heartbeat", {"details": "x"})):
            reply = await client.post(
                f"/api/activity-tasks/{path}", good | body | {"lease_token": token}
            )
            assert (reply.status, reply.json["reason"]) == (409, "LEASE_LOST"), (path, token)
    for body in (
        {"output": "x", "sequence": 2},
        {"output": "x", "step_name": "b"},
        {"output": "x", "error": "y"},
        {"output": "x", "sequence": -1},
        {"error": 7},
        {"nobody": 1},
    ):
        reply = await client.post("/api/activity-tasks/complete", good | body)
        assert reply.status in (400, 409), body
    after = scene.served.node.harness.rows.load_run(RunKey("default", "order-42", task["run_id"]))
    assert after == before
    done = await client.post("/api/activity-tasks/complete", good | {"output": "x"})
    assert done.status == 200


# ---- ids ----------------------------------------------------------------------------------------

STRANGE = [
    *(".", "..", "...", "./..", "a/b", "/", "//", "%2F", "%252F", "%", "+", " ", "a b"),
    *('it"s', "it's", "q?x=1#f", "{braces}", "a,b", "späß 🙂", "\u202e", "signal", "x" * 1_000),
]


@pytest.mark.parametrize("workflow_id", STRANGE)
async def test_ids_of_any_kind_can_be_addressed(served: Served, workflow_id: str) -> None:
    """Over a plain socket: no library that shortens `..` stands between."""
    encoded = quote(workflow_id, safe="").replace(".", "%2E")
    start = {"type": "Order", "workflow_id": workflow_id, "request_id": "r" + workflow_id[:900]}
    await exchange(served, "POST", "/api/workflow-types", {"workflow_types": ["Order"]})
    status, run = await exchange(served, "POST", "/api/workflows", start)
    assert status == 201, run
    path = f"/api/workflows/{encoded}"
    for spelled in {path, path.replace("%2E", ".")}:
        status, shown = await exchange(served, "GET", spelled)
        assert (status, shown["workflow_id"]) == (200, workflow_id), spelled
        assert (await exchange(served, "POST", spelled + "/signal", {"name": workflow_id}))[
            0
        ] == 200
        assert (await exchange(served, "GET", f"{spelled}/history?run_id={run['run_id']}"))[
            0
        ] == 200
    status, listed = await exchange(served, "GET", f"/api/workflows?q={encoded}&type=Order")
    assert [each["workflow_id"] for each in listed["workflows"]] == [workflow_id]
    assert (await exchange(served, "POST", path + "/terminate", {}))[0] == 200
    assert (await exchange(served, "DELETE", path))[0] == 200
    assert (await exchange(served, "GET", path))[0] == 404


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        ("%00", "INVALID_FIELD"),
        ("a%0Ab", "INVALID_FIELD"),
        ("%7F", "INVALID_FIELD"),
        ("%C2%85", "INVALID_FIELD"),
        ("%FF", "MALFORMED"),
        ("%ED%A0%80", "MALFORMED"),
        ("%C0%AF", "MALFORMED"),
        ("x" * 1_001, "INVALID_FIELD"),
        ("%F0%9F%99%82" * 251, "INVALID_FIELD"),
    ],
)
async def test_what_is_no_id_is_refused_everywhere(
    served: Served, encoded: str, reason: str
) -> None:
    for method, path in (
        ("GET", f"/api/workflows/{encoded}"),
        ("DELETE", f"/api/workflows/{encoded}"),
        ("POST", f"/api/workflows/{encoded}/signal"),
        ("PUT", f"/api/namespaces/{encoded}"),
        ("GET", f"/api/workflows?type={encoded}"),
        ("GET", f"/api/workflows/w?run_id={encoded}"),
        ("GET", f"/api/activity-tasks?activities={encoded}"),
        ("GET", f"/api/workflows?attr.{encoded}=1"),
    ):
        body = {} if method in ("POST", "PUT") else None
        status, answer = await exchange(served, method, path, body)
        assert (status, answer["reason"]) == (400, reason), path
    assert served.node.harness.rows.runs == {}


async def exchange(
    served: Served, method: str, path: str, body: Any = None, raw: bytes | None = None
) -> tuple[int, Any]:
    """One call whose bytes nobody touches."""
    data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: n\r\nConnection: close\r\n"
    if body is not None or raw is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    reader, writer = await connected(served)
    writer.write(head.encode() + b"\r\n" + data)
    answer = await reader.read()
    writer.close()
    head_bytes, _, content = answer.partition(b"\r\n\r\n")
    status = int(head_bytes.split(b" ", 2)[1])
    return status, json.loads(content) if content.startswith(b"{") else content


async def connected(served: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = served.services.config.http_addr
    return await asyncio.open_connection(address.host, address.port)


# ---- bodies -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b'{"name": "\xff"}',
        b'{"name": "\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"name": "a"}',
        b'{"name": "a"',
        b'{"name": "a"}}',
        b'{"name": 01}',
        b'{"name": Infinity}',
        b"\x00",
        b"",
        b"null",
        b'"x"',
        b'{"a":' * 100_000,
    ],
)
async def test_bodies_that_are_no_json_object(scene: Scene, raw: bytes) -> None:
    status, answer = await exchange(scene.served, "POST", PATH + "/signal", raw=raw)
    assert (status, answer["reason"]) == (400, "MALFORMED")
    await scene.must_be_untouched()


@pytest.mark.slow
async def test_a_huge_body_is_refused_before_it_is_sent(scene: Scene) -> None:
    reader, writer = await connected(scene.served)
    writer.write(
        b"POST /api/workflows HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % LARGE
    )
    async with asyncio.timeout(5):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 413 " in head
        assert b"connection: close" in head.lower()
        assert b'"BODY_TOO_LARGE"' in await reader.read()  # until the server hangs up
    writer.close()
    await scene.must_be_untouched()


@pytest.mark.slow
@pytest.mark.parametrize("chunked", [False, True])
async def test_who_sends_a_huge_body_regardless_is_cut_off(scene: Scene, chunked: bool) -> None:
    """The answer comes early, the rest of the body is not kept, and the node goes on serving."""
    reader, writer = await connected(scene.served)
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % LARGE
    writer.write(
        b"POST /api/workflows HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\n"
        + framing
        + b"\r\n\r\n"
    )
    piece = b" " * (1 << 20)

    async def push() -> None:
        with contextlib.suppress(ConnectionError):
            for _ in range(LARGE // len(piece)):
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
                await writer.drain()
                await asyncio.sleep(0.05)

    pushing = asyncio.create_task(push())
    begun = time.monotonic()
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 413 " in head
    assert time.monotonic() - begun < 2
    health = await scene.client.get("/api/health")
    assert health.status == 200
    await pushing  # ends by being cut off: all of it would have taken five seconds
    assert time.monotonic() - begun < 4.5
    writer.close()
    await scene.must_be_untouched()


@pytest.mark.slow
async def test_grpc_refuses_a_huge_message(scene: Scene) -> None:
    async with grpc.aio.insecure_channel(scene.served.grpc) as channel:
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
        request = pb.SignalWorkflowRequest(workflow_id="order-42", name="go", payload=b"x" * LARGE)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.SignalWorkflow(request)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await scene.must_be_untouched()
