"""Identifiers: what they may look like and how the tokens of tasks are written.

Randomness never arises here: run ids and nonces arrive inside commands.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from typing import NamedTuple

MAX_ID_BYTES = 1_000
DEFAULT_NAMESPACE = "default"
DEFAULT_TASK_QUEUE = "default"

_TOKEN_VERSION = "rf1"
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class RunKey(NamedTuple):
    """One run of one workflow id. Every key carries its namespace. Keys are tuples, since apply
    hashes several for each command."""

    namespace: str
    workflow_id: str
    run_id: str


class WorkflowKey(NamedTuple):
    """A workflow id; its newest run is the one calls without a run id mean."""

    namespace: str
    workflow_id: str


class TokenParts(NamedTuple):
    """What a task token says. ``number`` is the history length that a decision saw, or the
    sequence of an activity step; ``nonce`` is unique per grant."""

    namespace: str
    run_id: str
    number: int
    nonce: str


def id_problem(field: str, value: str, most: int = MAX_ID_BYTES) -> str | None:
    """Return why ``value`` is not a valid id for ``field``, or None when it is one."""
    if not value:
        return f"{field} must not be empty"
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        return f"{field} is not valid UTF-8"
    if size > most:
        return f"{field} has {size} bytes, the limit is {most}"
    if _CONTROL_CHARACTER.search(value):
        return f"{field} contains a control character"
    return None


def format_token(parts: TokenParts) -> str:
    """Write a token: URL-safe text without padding, opaque to workers."""
    namespace = _encode_namespace(parts.namespace)
    return f"{_TOKEN_VERSION}.{namespace}.{parts.run_id}.{parts.number}.{parts.nonce}"


@lru_cache(maxsize=1_024)  # a completion's token is read several times on its way
def parse_token(token: str) -> TokenParts | None:
    """Read a token back; None when it is not one of ours. A run id may contain dots."""
    head = token.split(".", 2)
    if len(head) != 3 or head[0] != _TOKEN_VERSION:
        return None
    tail = head[2].rsplit(".", 2)
    if len(tail) != 3:
        return None
    run_id, number, nonce = tail
    if not (number.isascii() and number.isdigit() and len(number) <= 18):
        return None
    namespace = _decode_namespace(head[1])
    return None if namespace is None else TokenParts(namespace, run_id, int(number), nonce)


@lru_cache(maxsize=1_024)
def _encode_namespace(namespace: str) -> str:
    return base64.urlsafe_b64encode(namespace.encode()).decode().rstrip("=")


@lru_cache(maxsize=1_024)
def _decode_namespace(encoded: str) -> str | None:
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        raw = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
        return raw.decode("utf-8") or None
    except (binascii.Error, UnicodeError, ValueError):
        return None
