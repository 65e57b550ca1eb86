"""Payloads and times as JSON shows them. Bytes in, same bytes out: nothing is ever re-encoded."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import Any

from raftflow.cluster.api.encoding import Rows
from raftflow.cluster.api.status import ApiError

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)


def put_payload(target: dict[str, Any], field: str, data: bytes) -> None:
    """Set ``field`` when the text is exact, else ``field``_base64."""
    try:
        target[field] = data.decode("utf-8")
    except UnicodeDecodeError:
        target[field + "_base64"] = base64.b64encode(data).decode("ascii")


# Fields that put_payload sets, wherever somebody only looks.
_PAYLOADS = ("input", "output", "payload", "data")


def hidden(view: dict[str, Any]) -> dict[str, Any]:
    """The same, for who does not see payloads. What people named themselves (attributes, memos) is
    no payload."""
    shown: dict[str, Any] = {}
    for name, value in view.items():
        if isinstance(value, Rows):
            shown[name] = value.then(hidden)
        elif name.removesuffix("_base64") in _PAYLOADS:
            shown[name.removesuffix("_base64")] = None
            shown["payload_hidden"] = True
        else:
            shown[name] = value
    return shown


def take_payload(source: dict[str, Any], field: str, *, path: str = "") -> bytes | None:
    """The bytes of a payload field, None when it is absent."""
    text = source.get(field)
    encoded = source.get(field + "_base64")
    if text is not None and encoded is not None:
        raise ApiError(
            "INVALID_FIELD", f"{path}{field} and {path}{field}_base64 exclude each other"
        )
    if encoded is not None:
        return _from_base64(encoded, path + field + "_base64")
    if text is None:
        return None
    if not isinstance(text, str):
        raise ApiError("INVALID_FIELD", f"{path}{field} must be a string")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise ApiError("INVALID_FIELD", f"{path}{field} is not valid Unicode") from None


def _from_base64(value: Any, name: str) -> bytes:
    if not isinstance(value, str):
        raise ApiError("INVALID_FIELD", f"{name} must be a string")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ApiError("INVALID_FIELD", f"{name} is not base64") from None


def timestamp(time_ms: int) -> str:
    """`YYYY-MM-DDTHH:MM:SS.ffffffZ`, for ever: SDKs seed random numbers from the string."""
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="microseconds") + "Z"


def parse_time(text: str, field: str) -> int:
    """An RFC 3339 time of a query as Unix milliseconds."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ApiError(
            "INVALID_FIELD", f"{field} must be a time such as 2025-01-31T12:00:00.000000Z"
        )
    return (moment - _EPOCH_UTC) // timedelta(milliseconds=1)
