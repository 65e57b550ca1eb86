"""Identifiers: what they may look like and how the tokens of tasks are written.

Randomness never arises here: run ids and nonces arrive inside commands.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

MAX_ID_BYTES = 1_000
DEFAULT_NAMESPACE = "default"
DEFAULT_TASK_QUEUE = "default"

_TOKEN_VERSION = "rf1"


@dataclass(frozen=True, slots=True)
class RunKey:
    """One run of one workflow id. Every key carries its namespace."""

    namespace: str
    workflow_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class WorkflowKey:
    """A workflow id; its newest run is the one calls without a run id mean."""

    namespace: str
    workflow_id: str


@dataclass(frozen=True, slots=True)
class TokenParts:
    """What a task token says. ``number`` is the history length that a decision saw, or the
    sequence of an activity step; ``nonce`` is unique per grant."""

    namespace: str
    run_id: str
    number: int
    nonce: str


def id_problem(field: str, value: str) -> str | None:
    """Return why ``value`` is not a valid id for ``field``, or None when it is one."""
    if not value:
        return f"{field} must not be empty"
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        return f"{field} is not valid UTF-8"
    if size > MAX_ID_BYTES:
        return f"{field} has {size} bytes, the limit is {MAX_ID_BYTES}"
    if any(ch < " " or ch == "\x7f" for ch in value):
        return f"{field} contains a control character"
    return None


def format_token(parts: TokenParts) -> str:
    """Write a token: URL-safe text without padding, opaque to workers."""
    namespace = base64.urlsafe_b64encode(parts.namespace.encode()).decode().rstrip("=")
    return f"{_TOKEN_VERSION}.{namespace}.{parts.run_id}.{parts.number}.{parts.nonce}"


def parse_token(token: str) -> TokenParts | None:
    """Read a token back; None when it is not one of ours."""
    pieces = token.split(".")
    if len(pieces) != 5 or pieces[0] != _TOKEN_VERSION or not pieces[3].isascii():
        return None
    if not pieces[3].isdigit() or len(pieces[3]) > 18:
        return None
    try:
        padded = pieces[1] + "=" * (-len(pieces[1]) % 4)
        namespace = base64.urlsafe_b64decode(padded.encode("ascii")).decode("utf-8")
    except (binascii.Error, UnicodeError, ValueError):
        return None
    return TokenParts(namespace, pieces[2], int(pieces[3]), pieces[4])
