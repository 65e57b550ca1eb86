"""Which end of a call means what."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from tests.jepsen.history import FAIL, INFO
from tests.jepsen.outcomes import of_connection, of_http, of_rpc


class Error(grpc.RpcError):
    def __init__(self, code: str, reason: str = "", details: str = "", **metadata: str) -> None:
        self._code = grpc.StatusCode[code]
        self._details = details
        self._trailing: tuple[tuple[str, bytes], ...] = ()
        if reason:
            detail = any_pb2.Any()
            detail.Pack(error_details_pb2.ErrorInfo(reason=reason, metadata=metadata))
            status = status_pb2.Status(code=self._code.value[0], details=[detail])
            self._trailing = (("grpc-status-details-bin", status.SerializeToString()),)

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> Any:
        return self._trailing


@pytest.mark.parametrize(
    ("status", "body", "kind", "error"),
    [
        (400, {"reason": "INVALID_FIELD"}, FAIL, "INVALID_FIELD"),
        (404, {"reason": "WORKFLOW_NOT_FOUND"}, FAIL, "WORKFLOW_NOT_FOUND"),
        (409, {"reason": "LEASE_LOST"}, FAIL, "LEASE_LOST"),
        (429, {"reason": "OVERLOADED", "maybe_applied": False}, FAIL, "OVERLOADED"),
        (503, {"reason": "UNAVAILABLE", "maybe_applied": False}, FAIL, "UNAVAILABLE"),
        (503, {"reason": "MAYBE_APPLIED", "maybe_applied": True}, INFO, "MAYBE_APPLIED"),
        (503, {}, INFO, "HTTP_503"),
        (500, {"reason": "INTERNAL"}, INFO, "BROKEN 500 INTERNAL"),
        (502, {}, INFO, "BROKEN 502 HTTP_502"),
        (504, {}, INFO, "BROKEN 504 HTTP_504"),
    ],
)
def test_answers(status: int, body: dict[str, Any], kind: str, error: str) -> None:
    outcome = of_http(status, body)
    assert outcome.kind == kind
    assert outcome.error.startswith(error)


@pytest.mark.parametrize(
    ("error", "kind", "named"),
    [
        (Error("NOT_FOUND", "WORKFLOW_NOT_FOUND"), FAIL, "WORKFLOW_NOT_FOUND"),
        (Error("ABORTED", "DECISION_STALE"), FAIL, "DECISION_STALE"),
        (Error("RESOURCE_EXHAUSTED", "OVERLOADED"), FAIL, "OVERLOADED"),
        (Error("UNAVAILABLE", "UNAVAILABLE", maybe_applied="false"), FAIL, "UNAVAILABLE"),
        (Error("UNAVAILABLE", "MAYBE_APPLIED", maybe_applied="true"), INFO, "MAYBE_APPLIED"),
        (Error("UNAVAILABLE", details="Connection reset by peer"), INFO, "UNAVAILABLE"),
        (
            Error("UNAVAILABLE", details="failed to connect to all addresses; last error: ..."),
            FAIL,
            "NOT_CONNECTED",
        ),
        (Error("DEADLINE_EXCEEDED"), INFO, "DEADLINE_EXCEEDED"),
        (Error("CANCELLED"), INFO, "CANCELLED"),
        (Error("INTERNAL", details="RST_STREAM"), INFO, "INTERNAL"),
        (Error("INTERNAL", "INTERNAL"), INFO, "BROKEN INTERNAL"),
    ],
)
def test_statuses(error: Error, kind: str, named: str) -> None:
    outcome = of_rpc(error)
    assert outcome.kind == kind
    assert outcome.error.startswith(named)


def test_connections() -> None:
    assert of_connection(ConnectionRefusedError()).kind == FAIL
    assert of_connection(ConnectionResetError()).kind == INFO
    assert of_connection(TimeoutError()).kind == INFO
