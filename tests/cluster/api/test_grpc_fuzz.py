"""Whatever a caller sends over gRPC, the answer is never INTERNAL, and the next call works."""

from __future__ import annotations

import random
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from single_node import Served

from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc

METHODS = [
    method
    for method in pb.DESCRIPTOR.services_by_name["WorkflowService"].methods
    if not method.client_streaming
]
WORDS = (
    "",
    "Order",
    "order-1",
    "default",
    "a/b",
    "..",
    "a\x00",
    "ü🙂",
    "{",
    "[1]",
    '{"a":1}',
    "x" * 1_001,
)
TOKENS = ("rf1.ZGVmYXVsdA.r.1.n", "rf1....", "rf1.ZGVmYXVsdA.order-1.0.n")
NUMBERS = (0, 1, 2, 7, 999, 2**31 - 1, 2**31, 2**53, 2**63 - 1)
FRACTIONS = (0.0, 0.5, 1.0, -1.0, 1e300, float("nan"), float("inf"))

NEVER = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS)


def filled(descriptor: Any, dice: random.Random, depth: int = 0) -> Any:
    """A message with some of its fields set to something."""
    message = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        if dice.random() < 0.5 or depth > 4:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            values = getattr(message, field.name)
            value_type = field.message_type.fields_by_name["value"].message_type
            for _ in range(dice.randrange(3)):
                values[dice.choice(WORDS)].CopyFrom(filled(value_type, dice, depth + 1))
        elif field.is_repeated:
            getattr(message, field.name).extend(
                value(field, dice, depth) for _ in range(dice.randrange(4))
            )
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(value(field, dice, depth))
        else:
            setattr(message, field.name, value(field, dice, depth))
    return message


def value(field: Any, dice: random.Random, depth: int) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_MESSAGE:
            return filled(field.message_type, dice, depth + 1)
        case FieldDescriptor.CPPTYPE_BOOL:
            return dice.random() < 0.5
        case FieldDescriptor.CPPTYPE_ENUM:
            return dice.choice((0, 1, 2, 99))
        case FieldDescriptor.CPPTYPE_DOUBLE:
            return dice.choice(FRACTIONS)
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return dice.randbytes(dice.randrange(20))
        case FieldDescriptor.CPPTYPE_STRING:
            return dice.choice(TOKENS if "token" in field.name else WORDS)
        case FieldDescriptor.CPPTYPE_UINT32 | FieldDescriptor.CPPTYPE_INT32:
            return dice.choice([number for number in NUMBERS if number < 2**31])
    return dice.choice(NUMBERS)


async def outcome(call: Any, request: Any) -> grpc.StatusCode:
    try:
        await call(request, timeout=0.3)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
async def test_no_call_falls_over(served: Served, method: Any) -> None:
    dice = random.Random(method.name)
    async with grpc.aio.insecure_channel(served.grpc) as channel:
        stub: Any = service_pb2_grpc.WorkflowServiceStub(channel)
        await stub.RegisterWorkflowTypes(pb.RegisterWorkflowTypesRequest(workflow_types=["Order"]))
        await stub.StartWorkflow(pb.StartWorkflowRequest(type="Order", workflow_id="order-1"))
        for _ in range(150):
            request = filled(method.input_type, dice)
            code = await outcome(getattr(stub, method.name), request)
            assert code not in NEVER, request
        await stub.DescribeWorkflow(pb.DescribeWorkflowRequest(workflow_id="order-1"))
