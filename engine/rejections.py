"""Typed refusals and replies: what a command's caller learns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """Why a command changed nothing. Names are stable: they are the public ``reason``."""

    NAMESPACE_NOT_FOUND = "NAMESPACE_NOT_FOUND"
    NAMESPACE_EXISTS = "NAMESPACE_EXISTS"
    TOKEN_NOT_FOUND = "TOKEN_NOT_FOUND"
    UNAUTHENTICATED = "UNAUTHENTICATED"  # the caller's token was revoked or has expired meanwhile
    WORKFLOW_NOT_FOUND = "WORKFLOW_NOT_FOUND"
    TYPE_NOT_REGISTERED = "TYPE_NOT_REGISTERED"
    WORKFLOW_ID_IN_USE = "WORKFLOW_ID_IN_USE"
    REQUEST_ID_REUSED = "REQUEST_ID_REUSED"  # the same request id with another payload
    RUN_CLOSED = "RUN_CLOSED"
    RUN_OPEN = "RUN_OPEN"  # only a closed run can be deleted
    OLDER_RUNS_KEPT = "OLDER_RUNS_KEPT"  # the newest run of an id is deleted last
    MESSAGES_PENDING = "MESSAGES_PENDING"  # what a closed run owes to others is on its way
    DECISION_STALE = "DECISION_STALE"
    BAD_SEQUENCE = "BAD_SEQUENCE"
    INVALID_COMMAND = "INVALID_COMMAND"
    LEASE_LOST = "LEASE_LOST"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"  # of the namespace, for now
    GRANT_DROPPED = (
        "GRANT_DROPPED"  # a leader's decision that was overtaken; only the leader sees it
    )
    UNREADABLE = "UNREADABLE"  # the run is UNKNOWN: its history cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """No change was made. ``run_id`` names the holder of an id in use."""

    reason: Reason
    message: str
    run_id: str = ""
    cancelled: bool = False  # with LEASE_LOST: the work is no longer wanted
    # With QUOTA_EXCEEDED: which bound, what it is, when there may be room.
    limit: str = ""
    value: int = 0
    retry_after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Started:
    """The answer to StartRun: ``started`` is False when an existing run was returned.
    ``workflow_id`` is said when the call made it up: a repeated call made up another one."""

    run_id: str
    started: bool
    workflow_id: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The command took effect (or already had). ``handed``: the tokens of the tasks that went to
    the caller's eager poll with it. ``forgotten``: the runs that a delete and those before it,
    of the same call, forgot."""

    handed: tuple[str, ...] = ()
    forgotten: int = 0


@dataclass(frozen=True, slots=True)
class Granted:
    """The answer to a grant: the token now out."""

    token: str


@dataclass(frozen=True, slots=True)
class Minted:
    """The answer to MintToken. A repeated call made up another token, which is worth nothing: its
    caller sees that by the id."""

    token_id: str
    expires_ms: int


Answer = Started | Done | Granted | Minted | Rejection


@dataclass(frozen=True, slots=True)
class Reply:
    """What the call that waits for ``command_id`` gets."""

    command_id: str
    answer: Answer
