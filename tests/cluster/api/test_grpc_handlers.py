"""What cannot be read is refused like everything else, and the node's log stays quiet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from single_node import Served

from raftflow.cluster.api.grpc_service import SERVICE
from raftflow.proto.workflow.v1 import service_pb2 as pb

UNREADABLE = [b"\xff\xff\xff", b"\x0a\x02\xff\xfe", b"\x0a\x05x", b"\x0b" * 200]


@pytest.fixture
async def channel(served: Served) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(served.grpc) as opened:
        yield opened


def reason_of(error: grpc.aio.AioRpcError) -> str:
    details = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
    info = error_details_pb2.ErrorInfo()
    assert status_pb2.Status.FromString(details).details[0].Unpack(info)
    return info.reason


@pytest.mark.parametrize("data", UNREADABLE)
@pytest.mark.parametrize("method", ["StartWorkflow", "WorkerStream"])
async def test_a_message_that_cannot_be_read(
    channel: Any, method: str, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"/{SERVICE}/{method}"
    if method == "WorkerStream":
        answer = channel.stream_stream(path)(iter([data]), timeout=5).read()
    else:
        answer = channel.unary_unary(path)(data, timeout=5)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await answer
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason_of(refused.value) == "MALFORMED"
    assert not caplog.records


async def test_fields_of_a_later_release_are_passed_over(channel: Any) -> None:
    request = pb.ListWorkflowsRequest(limit=1).SerializeToString() + b"\xf8\x07\x01"
    answer = await channel.unary_unary(f"/{SERVICE}/ListWorkflows")(request, timeout=5)
    assert pb.ListWorkflowsResponse.FromString(answer).total == 0
