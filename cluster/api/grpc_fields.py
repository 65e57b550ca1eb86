"""Reading the fields of gRPC messages: the wire has seen to types and unknown fields, the values
are checked as over JSON, and complaints name the same fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from raftflow.cluster.api.attributes import parse_attributes, show_attributes
from raftflow.cluster.api.handlers.common import new_request_id
from raftflow.cluster.api.limits import check_id
from raftflow.cluster.api.status import ApiError
from raftflow.engine.commands import Attributes
from raftflow.engine.limits import MAX_DURATION_MS
from raftflow.proto.workflow.v1 import service_pb2 as pb

_INT64 = 1 << 63


def number(field: str, value: int, *, most: int = MAX_DURATION_MS, least: int = 0) -> int:
    if not least <= value <= most:
        raise ApiError("INVALID_FIELD", f"{field} must be {least} to {most}")
    return value


def fraction(field: str, value: float, *, least: float, most: float) -> float:
    if not least <= value <= most:  # NaN is not either
        raise ApiError("INVALID_FIELD", f"{field} must be {least} to {most}")
    return value


def optional_id(field: str, value: str, default: str = "") -> str:
    return check_id(field, value) if value else default


def request_id(request: Any) -> str:
    return optional_id("request_id", request.request_id) or new_request_id()


def member(field: str, kinds: Any, value: int) -> Any:
    try:
        return kinds(value)
    except ValueError:
        names = ", ".join(kinds.__members__)
        raise ApiError("INVALID_FIELD", f"{field} must be one of {names}") from None


def run_of(request: Any) -> tuple[str, str]:
    return check_id("workflow_id", request.workflow_id), optional_id("run_id", request.run_id)


def attributes(
    field: str, values: Mapping[str, pb.AttributeValue], *, removable: bool = False
) -> Attributes:
    plain = {name: _value(each) for name, each in values.items()}
    return parse_attributes(field, plain, removable=removable)


def _value(value: pb.AttributeValue) -> Any:
    kind = value.WhichOneof("value")
    return None if kind is None else getattr(value, kind)


def plain_attributes(
    field: str, values: Mapping[str, pb.AttributeValue]
) -> tuple[tuple[str, str], ...]:
    """What a list is filtered by: names, and values as plain text."""
    wanted = attributes(field, values)
    return tuple([(name, json.loads(text) if text[0] == '"' else text) for name, text in wanted])


def shown_attributes(values: Attributes) -> dict[str, pb.AttributeValue]:
    return {name: _shown(value) for name, value in show_attributes(values).items()}


def _shown(value: Any) -> pb.AttributeValue:
    match value:
        case bool():
            return pb.AttributeValue(flag=value)
        case int() if -_INT64 <= value < _INT64:
            return pb.AttributeValue(integer=value)
        case int() | float():
            return pb.AttributeValue(number=float(value))
    return pb.AttributeValue(text=value)
