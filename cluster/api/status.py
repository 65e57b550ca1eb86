"""The one error table: every stable reason with its HTTP status, gRPC code and whether a retry
makes sense. `docs/errors/` has a page for each (a test compares)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc

from raftflow.cluster.errors import (
    FeatureUnavailable,
    HistoryDamaged,
    LeaseLost,
    MembershipRefused,
    OperationRefused,
    Overloaded,
    Unavailable,
)
from raftflow.engine.rejections import Reason, Rejection

ERROR_DOMAIN = "workflowd"


@dataclass(frozen=True, slots=True)
class Situation:
    http: int
    code: grpc.StatusCode


_C = grpc.StatusCode

TABLE: dict[str, Situation] = {
    # The request itself.
    "MALFORMED": Situation(400, _C.INVALID_ARGUMENT),
    "UNKNOWN_FIELD": Situation(400, _C.INVALID_ARGUMENT),
    "INVALID_FIELD": Situation(400, _C.INVALID_ARGUMENT),
    "NOT_JSON": Situation(415, _C.INVALID_ARGUMENT),
    "PAYLOAD_TOO_LARGE": Situation(413, _C.INVALID_ARGUMENT),
    "BODY_TOO_LARGE": Situation(413, _C.INVALID_ARGUMENT),
    "HEADERS_TOO_LARGE": Situation(431, _C.INVALID_ARGUMENT),
    "REQUEST_TIMEOUT": Situation(408, _C.DEADLINE_EXCEEDED),
    "ROUTE_NOT_FOUND": Situation(404, _C.UNIMPLEMENTED),
    "METHOD_NOT_ALLOWED": Situation(405, _C.UNIMPLEMENTED),
    "UNAUTHENTICATED": Situation(401, _C.UNAUTHENTICATED),
    "PERMISSION_DENIED": Situation(403, _C.PERMISSION_DENIED),
    # What the engine refused.
    "NAMESPACE_NOT_FOUND": Situation(404, _C.NOT_FOUND),
    "NAMESPACE_EXISTS": Situation(409, _C.ALREADY_EXISTS),
    "TOKEN_NOT_FOUND": Situation(404, _C.NOT_FOUND),
    "WORKFLOW_NOT_FOUND": Situation(404, _C.NOT_FOUND),
    "TYPE_NOT_REGISTERED": Situation(400, _C.INVALID_ARGUMENT),
    "WORKFLOW_ID_IN_USE": Situation(409, _C.ALREADY_EXISTS),
    "REQUEST_ID_REUSED": Situation(409, _C.ALREADY_EXISTS),
    "RUN_CLOSED": Situation(409, _C.FAILED_PRECONDITION),
    "RUN_OPEN": Situation(409, _C.FAILED_PRECONDITION),
    "OLDER_RUNS_KEPT": Situation(409, _C.FAILED_PRECONDITION),
    "MESSAGES_PENDING": Situation(409, _C.FAILED_PRECONDITION),
    "DECISION_STALE": Situation(409, _C.ABORTED),
    "BAD_SEQUENCE": Situation(400, _C.INVALID_ARGUMENT),
    "INVALID_COMMAND": Situation(400, _C.INVALID_ARGUMENT),
    "LEASE_LOST": Situation(409, _C.FAILED_PRECONDITION),
    "LIMIT_EXCEEDED": Situation(400, _C.INVALID_ARGUMENT),
    "UNREADABLE": Situation(500, _C.DATA_LOSS),
    # The node and the cluster.
    "NODE_EXISTS": Situation(409, _C.ALREADY_EXISTS),
    "NODE_NOT_FOUND": Situation(404, _C.NOT_FOUND),
    "MEMBERSHIP_REFUSED": Situation(409, _C.FAILED_PRECONDITION),
    "NODE_REFUSED": Situation(409, _C.FAILED_PRECONDITION),
    "FEATURE_UNAVAILABLE": Situation(409, _C.FAILED_PRECONDITION),
    "HISTORY_DAMAGED": Situation(500, _C.DATA_LOSS),
    "OVERLOADED": Situation(429, _C.RESOURCE_EXHAUSTED),
    "RATE_LIMITED": Situation(429, _C.RESOURCE_EXHAUSTED),
    "TOO_MANY_POLLS": Situation(429, _C.RESOURCE_EXHAUSTED),
    "QUOTA_EXCEEDED": Situation(429, _C.RESOURCE_EXHAUSTED),
    "TOO_MANY_CONNECTIONS": Situation(503, _C.UNAVAILABLE),
    "UNAVAILABLE": Situation(503, _C.UNAVAILABLE),
    "MAYBE_APPLIED": Situation(503, _C.UNAVAILABLE),
    "INTERNAL": Situation(500, _C.INTERNAL),
}


class ApiError(Exception):
    """A call that is answered with an error. ``details`` are the optional fields of the body.
    ``actor`` is for the log alone: whose token it was that is good no more."""

    def __init__(self, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.details = details
        self.actor = ""

    @property
    def situation(self) -> Situation:
        return TABLE[self.reason]

    def body(self) -> dict[str, Any]:
        return {
            "error": self.message,
            "code": self.situation.code.name,
            "reason": self.reason,
            **self.details,
        }


def of_rejection(rejection: Rejection) -> ApiError:
    """What the caller hears of a command that changed nothing."""
    if rejection.reason is Reason.GRANT_DROPPED:  # only the leader's own commands can meet it
        return ApiError("LEASE_LOST", rejection.message)
    details: dict[str, Any] = {}
    if rejection.run_id:
        details["run_id"] = rejection.run_id
    if rejection.reason is Reason.LEASE_LOST:
        details["cancelled"] = rejection.cancelled
    if rejection.reason is Reason.QUOTA_EXCEEDED:
        details |= {
            "limit": rejection.limit,
            "value": rejection.value,
            "retry_after_ms": rejection.retry_after_ms,
            "maybe_applied": False,
        }
    return ApiError(rejection.reason.value, rejection.message, **details)


def of_unavailable(error: Unavailable, **details: Any) -> ApiError:
    if error.leader_http:
        details["leader_http"] = error.leader_http
    return ApiError(
        "MAYBE_APPLIED" if error.maybe_applied else "UNAVAILABLE",
        error.message,
        maybe_applied=error.maybe_applied,
        retry_after_ms=error.retry_after_ms,
        **details,
    )


def of_exception(error: Exception) -> ApiError | None:
    """The answer to what the node raised; None for a bug."""
    match error:
        case ApiError():
            return error
        case Unavailable():
            return of_unavailable(error)
        case Overloaded():
            return ApiError(
                "OVERLOADED",
                error.message,
                cause=error.cause,
                maybe_applied=False,
                retry_after_ms=error.retry_after_ms,
            )
        case FeatureUnavailable():
            return ApiError(
                "FEATURE_UNAVAILABLE",
                error.message,
                feature=error.feature,
                needs_level=error.needs_level,
                level=error.level,
                held_back_by=list(error.held_back_by),
            )
        case MembershipRefused() | OperationRefused():
            return ApiError(error.reason, error.message)
        case LeaseLost():
            return ApiError("LEASE_LOST", error.message, cancelled=error.cancelled)
        case HistoryDamaged():
            return ApiError("HISTORY_DAMAGED", error.message)
    return None


def internal() -> ApiError:
    """A bug: the node's log has the traceback, the caller a sentence."""
    return ApiError("INTERNAL", "internal error; the node's log has the details")
