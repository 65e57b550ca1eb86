"""What cannot be read is refused like everything else, and the node's log stays quiet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import probes
import pytest
from google.rpc import error_details_pb2, status_pb2
from ports import free_ports
from single_node import Served, config_for, serve

from raftflow.cluster.api.grpc_service import SERVICE
from raftflow.cluster.config import Limits
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


@asynccontextmanager
async def limited(directory: Path, **limits: int) -> AsyncIterator[Served]:
    served = await serve(config_for(free_ports(3), directory, limits=Limits(**limits)))
    try:
        yield served
    finally:
        await served.server.stop()


async def opened(served: Served, *sent: bytes) -> tuple[Any, asyncio.StreamWriter]:
    address = served.services.config.grpc_addr
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"".join(sent))
    return reader, writer


async def status_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the call has ended: headers are sent without an index, so that the status
    stands there in the clear."""
    seen = b""
    async with asyncio.timeout(10):
        while b"grpc-message" not in seen:
            more = await reader.read(1 << 16)
            assert more, seen
            seen += more
    return seen


@pytest.mark.slow
async def test_a_message_that_does_not_come(tmp_path: Path) -> None:
    async with limited(tmp_path, body_timeout_ms=200) as served:
        for sent in ((), (probes.message_begun(1_000),)):
            reader, writer = await opened(served, probes.call_begun(), *sent)
            seen = await status_of(reader)
            assert b"the message did not arrive in time" in seen
            assert b"--limits-body-timeout-ms" in seen
            writer.close()


async def test_a_call_without_a_message(served: Served) -> None:
    reader, writer = await opened(served, probes.call_begun(), probes.frame(0, 1, 1, b""))
    assert b"the call has no message" in await status_of(reader)
    writer.close()


async def test_metadata_is_bounded(channel: Any) -> None:
    call = channel.unary_unary(f"/{SERVICE}/ListWorkflows")
    assert await call(b"", timeout=5, metadata=(("x", "y" * 50_000),)) is not None
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(b"", timeout=5, metadata=(("x", "y" * 70_000),))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.slow
async def test_who_says_no_http_2_goes_and_connections_are_counted(tmp_path: Path) -> None:
    async with limited(tmp_path, head_timeout_ms=500, connections=2) as served:
        silent = [await opened(served, b"PRI"), await opened(served)]
        reader, writer = await opened(served, probes.PREFACE)
        assert await asyncio.wait_for(reader.read(), 5) == b""  # a third, at once
        writer.close()
        for reader, writer in silent:
            await asyncio.wait_for(reader.read(), 10)
            writer.close()
        async with grpc.aio.insecure_channel(served.grpc) as again:
            call = again.unary_unary(f"/{SERVICE}/ListWorkflows")
            await call(b"", timeout=5, wait_for_ready=True)
