"""Whatever bytes a call or a worker stream is made of: it ends with a documented status that says
its reason, a refusal changes nothing, and the node is well."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from fuzz_node import TYPE, FuzzNode, Stage
from google.protobuf import message_factory
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from proto_strategies import Taste, wire

from raftflow.cluster.api.status import ERROR_DOMAIN, TABLE
from raftflow.proto.workflow.v1 import service_pb2 as pb

pytestmark = pytest.mark.cluster

SERVICE = pb.DESCRIPTOR.services_by_name["WorkflowService"]
UNARY = [method for method in SERVICE.methods if not method.client_streaming]
STREAMS = [method for method in SERVICE.methods if method.client_streaming]
# They wait until the caller's deadline is near.
WAITING = {"PollTask", "PollWorkflowTask", "GetHistory"}
BODY_LIMIT = 8 << 20
LATER = {"UNAVAILABLE", "MAYBE_APPLIED"}
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
CODES = {code.value[0]: code for code in grpc.StatusCode}
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    # What failed may not fail again: the runs are others by then.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@dataclass(slots=True, repr=False)
class Assault:
    node: FuzzNode
    stage: Stage
    channel: grpc.Channel
    accepted: int = 0
    token_id: str = ""  # of one that can be revoked

    @property
    def taste(self) -> Taste:
        words = {
            "workflow_id": self.stage.ids,
            "run_id": [""],
            "task_token": ["x"],
            "lease_token": ["x"],
            "task_queue": [self.stage.name],
            "namespace": [""],
            "type": [TYPE],
            "workflow_type": [TYPE],
            "workflow_types": [TYPE],
            "types": [TYPE],
            "names": ["charge", TYPE],
            "activities": ["charge"],
            "step_name": ["charge"],
            "signal_name": ["go"],
            "name": ["go", "new"],
            "marker": ["version", "side_effect", "cancel"],
            "replay_error": [""],
            "replay_error_kind": [""],
            "traceparent": [""],
            "status": ["RUNNING", "waiting"],
            "cursor": [""],
            "memo": ["", '{"a": [1]}'],
            "demand_id": ["d1", "d2"],
            "request_id": ["", "", "r1"],
            "id": [self.token_id],
        }
        return Taste(words, self.aim)

    def aim(self, message: Any, number: int) -> None:
        """At a task that is held; commands count from one on."""
        for name in ("complete_task", "complete_workflow_task", "heartbeat"):
            if name in message.DESCRIPTOR.fields_by_name and message.HasField(name):
                self.aim(getattr(message, name), number)
        fields = message.DESCRIPTOR.fields_by_name
        for token, held in (
            ("task_token", self.stage.decisions),
            ("lease_token", self.stage.activities),
        ):
            if token in fields:
                task = list(held.values())[number % len(held)]
                message.workflow_id = task["workflow_id"]
                setattr(message, token, task[token])
                if "sequence" in fields and number % 4:
                    message.sequence = 1
        if "commands" in fields:
            sequence = 0
            for command in message.commands:
                body = getattr(command, command.WhichOneof("command") or "noop", None)
                if hasattr(body, "sequence"):
                    sequence += 1
                    body.sequence = sequence

    def _answer(self, name: str, data: bytes) -> bytes:
        """What waits answers before its deadline: on a busy machine before a later one."""
        send = self.channel.unary_unary(f"/{SERVICE.full_name}/{name}")
        if name not in WAITING:
            return bytes(send(data, timeout=20.0))
        try:
            return bytes(send(data, timeout=0.25))
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
        return bytes(send(data, timeout=5.0))

    def call(self, method: Any, data: bytes) -> None:
        workflow_id = run_in(method.input_type, data)
        try:
            answer = self._answer(method.name, data)
        except grpc.RpcError as error:
            must_be_documented(error, len(data))
            self.stage.refused(workflow_id)
        else:
            message_factory.GetMessageClass(method.output_type).FromString(answer)
            self.accept(workflow_id)

    def accept(self, workflow_id: str) -> None:
        self.accepted += 1
        self.stage.accepted(workflow_id)

    # ---- streams ------------------------------------------------------------------------------

    def stream(self, method: Any, frames: Sequence[bytes], *, cancel_after: int | None) -> None:
        """Send these; then end our side, or hang up when so many answers have come."""
        gone = threading.Event()

        def sending() -> Iterator[bytes]:
            yield from frames
            if cancel_after is not None:
                gone.wait(5)

        open_ = self.channel.stream_stream(f"/{SERVICE.full_name}/{method.name}")
        stream = open_(sending(), timeout=20.0 if cancel_after is None else 0.5)
        answers: list[Any] = []
        try:
            for answer in stream:
                answers.append(pb.NodeMessage.FromString(answer))
                if cancel_after is not None and len(answers) >= cancel_after:
                    break
        except grpc.RpcError as error:
            if cancel_after is None or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                must_be_documented(error, max(map(len, frames), default=0))
        finally:
            gone.set()
            stream.cancel()
        self.judge(frames, answers)

    def judge(self, frames: Sequence[bytes], answers: Sequence[Any]) -> None:
        for answer in answers:
            if answer.HasField("outcome") and answer.outcome.HasField("error"):
                told = answer.outcome.error
                must_be_in_table(told.reason, CODES[told.code])
        for frame in frames:
            for workflow_id in runs_in(frame):
                self.accept(workflow_id)


def run_in(kind: Any, data: bytes) -> str:
    try:
        message = message_factory.GetMessageClass(kind).FromString(data)
    except DecodeError:
        return ""
    return str(getattr(message, "workflow_id", ""))


def runs_in(frame: bytes) -> Iterator[str]:
    """Runs that a frame of a stream may change."""
    try:
        message = pb.WorkerMessage.FromString(frame)
    except DecodeError:
        return
    for name in ("complete_task", "complete_workflow_task"):
        if message.HasField(name):
            yield getattr(message, name).workflow_id


def must_be_documented(error: Any, size: int) -> None:
    """A status of the table, with google.rpc.ErrorInfo that says which of its reasons it is."""
    if size > BODY_LIMIT:  # gRPC itself says so, before any code of ours
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        return
    metadata = dict(error.trailing_metadata() or ())
    assert "grpc-status-details-bin" in metadata, (error.code(), error.details())
    status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == ERROR_DOMAIN
    assert status.message == error.details()
    must_be_in_table(info.reason, error.code())


def must_be_in_table(reason: str, code: grpc.StatusCode) -> None:
    assert TABLE[reason].code is code
    assert TABLE[reason].http < 500 or reason in LATER, reason


@pytest.fixture
def assault(node: FuzzNode) -> Iterator[Assault]:
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(node.grpc, options=options) as channel:
        made = Assault(node, node.stage(), channel)
        body = {"name": "to be revoked", "role": "viewer"}
        made.token_id = made.stage.call("POST", "/api/tokens", body)["id"]
        yield made
    assert made.accepted, "no call was right: what is wrong in the others is not the point"
    made.stage.must_be_unchanged()
    made.stage.must_be_pending()
    node.must_be_well()


def named(methods: Sequence[Any]) -> Callable[[Any], Any]:
    return pytest.mark.parametrize("method", methods, ids=[method.name for method in methods])


@named(UNARY)
@fuzzed
@given(data=st.data())
def test_any_bytes_of_a_call(assault: Assault, method: Any, data: Any) -> None:
    assault.call(method, data.draw(wire(method.input_type, assault.taste)))


@named(STREAMS)
@fuzzed
@given(data=st.data())
def test_any_frames_of_a_stream(assault: Assault, method: Any, data: Any) -> None:
    frames = data.draw(st.lists(wire(method.input_type, assault.taste), max_size=12))
    cancel_after = data.draw(st.none() | st.integers(0, 4))
    assault.stream(method, frames, cancel_after=cancel_after)


@pytest.mark.parametrize("compression", list(grpc.Compression))
def test_a_message_over_the_limit(node: FuzzNode, compression: grpc.Compression) -> None:
    """Compressed, a hundred megabytes are a hundred kilobytes on the wire."""
    stage = node.stage()
    (workflow_id, *_) = stage.ids
    request = pb.SignalWorkflowRequest(workflow_id=workflow_id, name="go", payload=bytes(100 << 20))
    with grpc.insecure_channel(
        node.grpc, options=[("grpc.max_send_message_length", -1)], compression=compression
    ) as channel:
        send = channel.unary_unary(f"/{SERVICE.full_name}/SignalWorkflow")
        with pytest.raises(grpc.RpcError) as refused:
            send(request.SerializeToString(), timeout=30.0)
        must_be_documented(refused.value, len(request.payload))
    stage.must_be_unchanged()
    node.must_be_well()


def test_the_service_is_the_published_one(node: FuzzNode) -> None:
    ask = reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE.full_name)
    with grpc.insecure_channel(node.grpc) as channel:
        (answer,) = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
            iter([ask]), timeout=10
        )
    (published,) = answer.file_descriptor_response.file_descriptor_proto
    assert published == pb.DESCRIPTOR.serialized_pb
