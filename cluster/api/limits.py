"""What a caller may ask for. Every over-run names the field, its size and the limit."""

from __future__ import annotations

import re
from typing import Any

from raftflow.cluster.api.status import ApiError
from raftflow.engine.ids import id_problem

MAX_ATTEMPTS = 1_000_000_000
MAX_LIST_LIMIT = 1_000
DEFAULT_LIST_LIMIT = 200
MAX_HISTORY_LIMIT = 1_000
MAX_OFFSET = 10_000  # deeper pages go by cursor
MAX_PLACE = (1 << 62) - 1  # in the audit log
# All open steps (2,000) taken back, as many begun, and markers. All else waits while they apply.
MAX_COMMANDS = 5_000
MAX_NAMES = 1_000  # types or activities of one poll or registration
MAX_TASKS_PER_POLL = 100
MAX_TOKEN_BYTES = 4 << 10  # a token says its namespace, a name of any length, in base64
MAX_POLL_MS = 25_000  # a long poll, waiting for a leader included, ends within 30 s
MAX_GRPC_POLL_MS = 600_000  # a gRPC caller says itself how long it waits
MAX_SENTENCE_BYTES = 64 << 10  # error texts and reasons

_POLL_REQUEST = re.compile(r"[A-Za-z0-9_-]{1,64}")


def over(reason: str, what: str, *, limit: str, value: int, **details: Any) -> ApiError:
    """The refusal of what is over a limit of the configuration: which, what it is, what raises
    it."""
    flag = "--" + limit.replace(".", "-").replace("_", "-")
    message = f"{what}; the limit is {value} ({flag} of `raftflow serve` changes it)"
    return ApiError(reason, message, limit=limit, value=value, **details)


def check_id(field: str, value: str) -> str:
    problem = id_problem(field, value)
    if problem is not None:
        raise ApiError("INVALID_FIELD", problem)
    return value


def check_token(field: str, value: str) -> str:
    problem = id_problem(field, value, MAX_TOKEN_BYTES)
    if problem is not None:
        raise ApiError("INVALID_FIELD", problem)
    return value


def audit_cursor(text: str) -> int:
    """A place in the audit log; 0 for none. Python reads no number of thousands of digits."""
    if not text:
        return 0
    known = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PLACE))
    if not known or int(text) > MAX_PLACE:
        raise ApiError("INVALID_FIELD", "cursor is not one that a page gave out")
    return int(text)


def check_poll_request(value: str) -> str:
    """The request id of a poll becomes a part of the task's token: "" or a plain word."""
    if value and not _POLL_REQUEST.fullmatch(value):
        raise ApiError(
            "INVALID_FIELD",
            "request_id of a poll must be 1 to 64 letters, digits, hyphens and underscores",
        )
    return value


def check_payload(field: str, data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise ApiError(
            "PAYLOAD_TOO_LARGE",
            f"{field} has {len(data)} bytes, the limit is {limit}",
            limit="limits.payload_bytes",
            value=limit,
        )
    return data


def check_sentence(field: str, text: str) -> str:
    """A reason or an error text: any text that a history can hold."""
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise ApiError("INVALID_FIELD", f"{field} is not valid Unicode") from None
    if size > MAX_SENTENCE_BYTES:
        raise ApiError(
            "PAYLOAD_TOO_LARGE", f"{field} has {size} bytes, the limit is {MAX_SENTENCE_BYTES}"
        )
    return text


def check_types(names: tuple[str, ...]) -> tuple[str, ...]:
    """The workflow types of a registration. Polls name types in a comma-separated list."""
    if not names:
        raise ApiError("INVALID_FIELD", "workflow_types must name at least one type")
    if len(names) > MAX_NAMES:
        raise ApiError(
            "INVALID_FIELD", f"workflow_types has {len(names)} entries, the limit is {MAX_NAMES}"
        )
    for number, name in enumerate(names):
        check_id(f"workflow_types[{number}]", name)
        if "," in name:
            raise ApiError("INVALID_FIELD", f"workflow_types[{number}] contains a comma")
    return names
