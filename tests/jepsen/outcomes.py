"""How a call ended, decided here and nowhere else.

`ok` it surely happened, `fail` it surely never will, `info` nobody can say yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from tests.jepsen.history import FAIL, INFO, OK

# A gRPC client says this when no connection came about: nothing was sent.
_NOT_CONNECTED = ("failed to connect to all addresses", "connection refused")
_UNKNOWN_CODES = {"DEADLINE_EXCEEDED", "CANCELLED", "UNAVAILABLE", "INTERNAL", "UNKNOWN"}
BROKEN = "BROKEN"  # the prefix of ends that no node may give: a bug whatever the fault


@dataclass(frozen=True, slots=True)
class Outcome:
    """`error` is the stable reason, or what the connection did; `body` the answer."""

    kind: str
    body: Any = None
    error: str = ""

    @property
    def ok(self) -> bool:
        return self.kind == OK


def of_answer(body: Any) -> Outcome:
    return Outcome(OK, body)


def of_http(status: int, body: dict[str, Any]) -> Outcome:
    """An answer of 400 or above."""
    reason = str(body.get("reason") or f"HTTP_{status}")
    if status < 500:
        return Outcome(FAIL, body, reason)
    if status == 503:
        refused = body.get("maybe_applied") is False
        return Outcome(FAIL if refused else INFO, body, reason)
    return Outcome(INFO, body, f"{BROKEN} {status} {reason}: {body.get('error', '')}"[:300])


def of_rpc(error: grpc.RpcError) -> Outcome:
    code = error.code().name
    details = str(error.details() or "")
    info = _error_info(error)
    body = {"error": details, "code": code, **dict(info.metadata)}
    reason = info.reason or code
    if code not in _UNKNOWN_CODES and code != "DATA_LOSS":
        return Outcome(FAIL, body, reason)
    if code == "UNAVAILABLE":
        refused = info.metadata.get("maybe_applied") == "false"
        if not info.reason and any(text in details.lower() for text in _NOT_CONNECTED):
            return Outcome(FAIL, body, "NOT_CONNECTED")
        return Outcome(FAIL if refused else INFO, body, reason)
    if info.reason and code in ("INTERNAL", "UNKNOWN", "DATA_LOSS"):
        return Outcome(INFO, body, f"{BROKEN} {code} {reason}: {details}"[:300])
    return Outcome(INFO, body, reason)


def of_connection(error: Exception) -> Outcome:
    if isinstance(error, ConnectionRefusedError):
        return Outcome(FAIL, None, "NOT_CONNECTED")
    return Outcome(INFO, None, type(error).__name__)


def _error_info(error: grpc.RpcError) -> error_details_pb2.ErrorInfo:
    info = error_details_pb2.ErrorInfo()
    trailing = dict(error.trailing_metadata() or ())
    raw = trailing.get("grpc-status-details-bin")
    if raw:
        status = status_pb2.Status.FromString(raw)
        if status.details:
            status.details[0].Unpack(info)
    return info
