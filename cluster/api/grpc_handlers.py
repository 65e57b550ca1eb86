"""How gRPC's bytes come to the methods of a service: what the generated code registers, but for
messages that cannot be read. A deserializer that raises makes gRPC answer UNKNOWN and log a
traceback; here the method gets the error instead of the message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf import message_factory
from google.protobuf.message import DecodeError

from raftflow.cluster.api.status import ApiError


def generic_handler(description: Any, service: Any) -> Any:
    """All methods that ``description`` names, on ``service``."""
    handlers = {}
    for method in description.methods:
        takes, gives = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
        make: Any = (
            grpc.stream_stream_rpc_method_handler
            if method.client_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        handlers[method.name] = make(
            getattr(service, method.name),
            request_deserializer=_reader(takes),
            response_serializer=gives.SerializeToString,
        )
    return grpc.method_handlers_generic_handler(description.full_name, handlers)


def _reader(kind: Any) -> Callable[[bytes], Any]:
    parse: Callable[[bytes], Any] = kind.FromString
    sentence = f"the message is not a {kind.DESCRIPTOR.name} whose strings are valid UTF-8"

    def read(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError:
            return ApiError("MALFORMED", sentence)

    return read
