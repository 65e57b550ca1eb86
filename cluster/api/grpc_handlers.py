"""How gRPC's bytes come to the methods of a service: what the generated code registers, but for
messages that cannot be read, or do not come. A deserializer that raises makes gRPC answer UNKNOWN
and log a traceback; here the method gets the error instead of the message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from google.protobuf import message_factory
from google.protobuf.message import DecodeError

from raftflow.cluster.api.limits import over
from raftflow.cluster.api.status import ApiError

Method = Callable[[Any, Any], Awaitable[Any]]


def generic_handler(description: Any, service: Any, *, body_timeout_ms: int) -> Any:
    """All methods that ``description`` names, on ``service``."""
    handlers = {}
    for method in description.methods:
        takes, gives = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
        call = getattr(service, method.name)
        # To gRPC a call with one message is a stream of one: only so can the wait for it end.
        handlers[method.name] = (
            grpc.stream_stream_rpc_method_handler(call, _reader(takes), gives.SerializeToString)
            if method.client_streaming
            else grpc.stream_unary_rpc_method_handler(
                _of_one(call, body_timeout_ms), _reader(takes), gives.SerializeToString
            )
        )
    return grpc.method_handlers_generic_handler(description.full_name, handlers)


def _of_one(call: Method, timeout_ms: int) -> Method:
    """``call`` with the one message that comes, or with the error that none did."""

    async def answer(incoming: AsyncIterator[Any], context: Any) -> Any:
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                request = await anext(incoming)
        except TimeoutError:
            request = over(
                "REQUEST_TIMEOUT",
                "the message did not arrive in time",
                limit="limits.body_timeout_ms",
                value=timeout_ms,
            )
        except StopAsyncIteration:
            request = ApiError("MALFORMED", "the call has no message")
        return await call(request, context)

    return answer


def _reader(kind: Any) -> Callable[[bytes], Any]:
    parse: Callable[[bytes], Any] = kind.FromString
    sentence = f"the message is not a {kind.DESCRIPTOR.name} whose strings are valid UTF-8"

    def read(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError:
            return ApiError("MALFORMED", sentence)

    return read
