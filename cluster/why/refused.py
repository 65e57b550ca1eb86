"""Calls that were refused: what the refusal means, and what makes room."""

from __future__ import annotations

from collections.abc import Sequence

from raftflow.cluster.refused_calls import RefusedCall
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.model import Link, Moment, Severity
from raftflow.cluster.why.words import at, command, count, quoted

_CAUSES = {
    "PAYLOAD_TOO_LARGE": Cause.PAYLOAD_REFUSED,
    "BODY_TOO_LARGE": Cause.PAYLOAD_REFUSED,
    "LIMIT_EXCEEDED": Cause.PAYLOAD_REFUSED,
    "RATE_LIMITED": Cause.RATE_LIMITED,
    "TOO_MANY_POLLS": Cause.RATE_LIMITED,
    "QUOTA_EXCEEDED": Cause.QUOTA_EXCEEDED,
    "OVERLOADED": Cause.BACK_PRESSURE,
    "FEATURE_UNAVAILABLE": Cause.VERSION_GATE,
    "LEASE_LOST": Cause.RESULT_LATE,
}
# What is worth remembering: neither mistakes of one moment nor what its caller cures by itself.
REASONS = frozenset(_CAUSES) | {
    "BAD_SEQUENCE",
    "INVALID_COMMAND",
    "PERMISSION_DENIED",
    "TYPE_NOT_REGISTERED",
    "WORKFLOW_ID_IN_USE",
}


def newest(refused: Sequence[RefusedCall], *operations: str) -> RefusedCall | None:
    return next((each for each in refused if each.operation in operations), None)


def link_of_refused(call: RefusedCall, now_ms: int) -> Link:
    about = f" of {quoted(call.target)}" if call.target else f" in {quoted(call.namespace)}"
    often = f" {count(call.times, 'time')}, last" if call.times > 1 else ""
    return Link(
        cause=_CAUSES.get(call.reason, Cause.CALL_REFUSED),
        severity=Severity.PROBLEM,
        says=f"{call.operation}{about} was refused by {call.node}{often}"
        f" {at(call.last_ms, now_ms)}: {call.message}.",
        evidence={
            "operation": call.operation,
            "reason": call.reason,
            "message": call.message,
            **({"limit": call.limit, "value": call.value} if call.limit else {}),
            "node": call.node,
            "namespace": call.namespace,
            "target": call.target,
            "step": call.step,
            "times": call.times,
            "first_at": Moment(call.first_ms),
            "last_at": Moment(call.last_ms),
        },
        next=_next(call),
    )


def _next(call: RefusedCall) -> str:
    match call.reason:
        case "PAYLOAD_TOO_LARGE" | "BODY_TOO_LARGE" | "LIMIT_EXCEEDED":
            return (
                "keep large data elsewhere and pass its address, or raise the limit on all nodes"
                f"{_setting(call)}, and call again"
            )
        case "RATE_LIMITED" | "TOO_MANY_POLLS":
            return (
                "call less often (one poll with `max`, or a worker stream, in the place of many),"
                f" or raise the limit on the nodes{_setting(call)}"
            )
        case "QUOTA_EXCEEDED":
            return f"wait until runs end, or raise the quota of the namespace: {_quota(call)}"
        case "OVERLOADED":
            return (
                "call again later, as the client does by itself; if it lasts, look what holds the"
                " log up: `raftflow why log`"
            )
        case "FEATURE_UNAVAILABLE":
            return (
                "upgrade the nodes that the message names, then call again:"
                " `raftflow cluster status` shows the level of each"
            )
        case "PERMISSION_DENIED":
            return "use a token with that role and namespace: `raftflow token mint`"
        case "TYPE_NOT_REGISTERED":
            return "start a worker that has this workflow type, and call again"
        case "LEASE_LOST":
            return (
                "let the worker send heartbeats while it works (our SDKs do), or give the activity"
                " less to do at a time: a result that comes after the lease is not taken"
            )
    return "see docs/errors for this reason, and call again"


def _setting(call: RefusedCall) -> str:
    return f" ({call.limit} of their configuration)" if call.limit.startswith("limits.") else ""


def _quota(call: RefusedCall) -> str:
    """With twice as much; the bound that is not named goes."""
    bound = "--" + call.limit.replace("_", "-")
    return command("namespace quota", call.namespace, options=(bound, str(2 * call.value)))
