"""Reads exported histories: the JSON of the API, or the binary `.history` file.

The file is records of `4-byte length | 4-byte CRC32C | protobuf HistoryEvent`, little-endian. This
SDK has no dependency, so the few fields that replay needs are read here by hand; the format only
ever grows, and what is not known is skipped.
"""

import base64
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from raftflow_sdk.errors import RaftflowError


class HistoryError(RaftflowError):
    """A history that cannot be read: which one, and where."""


@dataclass(frozen=True, slots=True)
class History:
    """The events that were read. `torn` says where a file breaks off within an event; what comes
    before that is whole, though the decision that wrote the last events may have gone on."""

    events: list[dict[str, Any]]
    torn: str = ""


def read_history(source: str | Path | Mapping[str, Any]) -> History:
    """A history: a file, JSON or binary, or the answer of `Client.history`."""
    if isinstance(source, Mapping):
        return History(_from_json(source, "the history"))
    data = Path(source).read_bytes()
    # A record may begin with the byte of a brace: of its length, which has a zero byte as well.
    if data.lstrip()[:1] in (b"{", b"[") and 0 not in data[:4]:
        return History(_from_json(json.loads(data), str(source)))
    return _from_binary(data, str(source))


def _from_json(document: Any, name: str) -> list[dict[str, Any]]:
    events = document.get("events") if isinstance(document, Mapping) else document
    if not isinstance(events, list) or not events:
        raise HistoryError(f"{name} has no events")
    length = document.get("history_length", len(events)) if isinstance(document, Mapping) else 0
    if events[0].get("event_id") != 1 or len(events) < length:
        raise HistoryError(
            f"{name} is a part of a history (events {events[0].get('event_id')} to "
            f"{events[-1].get('event_id')} of {length}): export it whole"
        )
    return events


def _from_binary(data: bytes, name: str) -> History:
    events: list[dict[str, Any]] = []
    offset = 0
    torn = ""
    while offset < len(data):
        head = data[offset : offset + 8]
        length, checksum = struct.unpack("<II", head) if len(head) == 8 else (0, 0)
        payload = data[offset + 8 : offset + 8 + length]
        if len(head) < 8 or len(payload) < length:
            torn = f"a torn record at offset {offset} was left out, after {len(events)} events"
            break
        if _crc32c(payload) != checksum:
            raise HistoryError(f"{name}: the record at offset {offset} has a wrong checksum")
        try:
            events.append(_event(payload))
        except (IndexError, ValueError, UnicodeDecodeError) as err:
            raise HistoryError(f"{name}: the record at offset {offset} is no event: {err}") from err
        offset += 8 + length
    if not events:
        raise HistoryError(f"{name} has no events" + (f": {torn}" if torn else ""))
    return History(events, torn)


# ---- HistoryEvent, by its field numbers in proto/workflow/v1/history.proto ----------------------

_BODIES: dict[int, tuple[str, dict[int, str]]] = {
    10: (
        "WorkflowStarted",
        {3: "workflow_id", 4: "run_id", 5: "workflow_type", 7: "input*", 9: "traceparent"},
    ),
    11: ("WorkflowCompleted", {1: "output*"}),
    12: ("WorkflowFailed", {1: "error", 2: "error_type"}),
    13: ("WorkflowTerminated", {1: "reason"}),
    14: ("WorkflowCancelRequested", {1: "reason"}),
    15: ("WorkflowCancelled", {1: "reason"}),
    16: ("WorkflowTimedOut", {}),
    17: ("WorkflowContinuedAsNew", {2: "workflow_type", 4: "input*"}),
    18: ("SearchAttributesUpserted", {}),
    20: ("StepScheduled", {1: "step_name", 2: "sequence#", 3: "input*"}),
    21: ("StepCompleted", {1: "sequence#", 2: "output*", 3: "attempt#"}),
    22: (
        "StepFailed",
        {1: "sequence#", 2: "error", 3: "error_type", 4: "non_retryable#", 5: "attempt#"},
    ),
    23: ("StepCancelled", {1: "sequence#", 2: "reason"}),
    30: ("TimerStarted", {1: "step_name", 2: "sequence#", 3: "delay_ms#"}),
    31: ("TimerFired", {1: "sequence#"}),
    40: ("SignalAwaited", {1: "step_name", 2: "sequence#", 3: "signal_name"}),
    41: ("SignalReceived", {1: "name", 2: "payload*"}),
    42: ("SignalConsumed", {1: "sequence#", 2: "signal_event_id#"}),
    50: ("MarkerRecorded", {1: "step_name", 2: "sequence#", 3: "marker", 4: "data*"}),
    60: (
        "ChildStarted",
        {1: "step_name", 2: "sequence#", 3: "workflow_type", 4: "workflow_id", 6: "input*"},
    ),
    61: ("ChildCompleted", {1: "sequence#", 2: "output*", 3: "run_id"}),
    62: ("ChildFailed", {1: "sequence#", 2: "error", 3: "error_type", 4: "run_id"}),
}
"""Number of the body: its name, and its fields. `#` marks a number, `*` a payload."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _event(payload: bytes) -> dict[str, Any]:
    event: dict[str, Any] = {"event_id": 0, "type": "", "time": ""}
    for number, value in _fields(payload):
        if number == 1:
            event["event_id"] = value
        elif number == 2:
            assert isinstance(value, int)
            event["time"] = _moment(value)
        elif isinstance(value, bytes):
            event.update(_body(number, value))
    if not event["type"]:
        raise ValueError("an event without a body")
    return event


def _body(number: int, payload: bytes) -> dict[str, Any]:
    if number not in _BODIES:
        raise ValueError(f"body {number} is unknown to this SDK")
    name, known = _BODIES[number]
    body: dict[str, Any] = {"type": name}
    body.update({field[:-1]: 0 for field in known.values() if field.endswith("#")})
    for field_number, value in _fields(payload):
        field = known.get(field_number)
        if field is None:
            continue
        if field.endswith("#"):
            body[field[:-1]] = value
        elif isinstance(value, bytes):
            body.update(_text(field, value))
    return body


def _text(field: str, value: bytes) -> dict[str, str]:
    if not field.endswith("*"):
        return {field: value.decode()}
    try:
        return {field[:-1]: value.decode()}
    except UnicodeDecodeError:
        return {field[:-1] + "_base64": base64.b64encode(value).decode()}


def _moment(ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# ---- the wire format ----------------------------------------------------------------------------


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field: varints and what is length-delimited."""
    offset = 0
    while offset < len(message):
        tag, offset = _varint(message, offset)
        kind = tag & 7
        if kind == 0:
            value, offset = _varint(message, offset)
            yield tag >> 3, value
        elif kind == 2:
            length, offset = _varint(message, offset)
            if offset + length > len(message):
                raise ValueError("a field ends beyond its message")
            yield tag >> 3, message[offset : offset + length]
            offset += length
        else:
            raise ValueError(f"wire type {kind} does not occur in histories")


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7


def _crc32c_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        entry = byte
        for _ in range(8):
            entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
        table.append(entry)
    return tuple(table)


_TABLE = _crc32c_table()


def _crc32c(data: bytes) -> int:
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum = checksum >> 8 ^ _TABLE[(checksum ^ byte) & 0xFF]
    return checksum ^ 0xFFFFFFFF
