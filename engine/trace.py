"""W3C trace context of runs and steps. Every span id is derived, so that any node, any replay and
any exporter names the same span without a word to another.

A run's own span id is its caller's, XORed with a digest of the run id. That is undone as easily:
the one field that a run carries tells both its own span and its parent.
"""

from __future__ import annotations

import re
from hashlib import blake2b

_TRACEPARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_MEMBER = re.compile(
    r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_KNOWN_FLAGS = 0x03  # sampled; random trace id
_SAMPLED = 0x01
_MAX_MEMBERS = 32
_MAX_TRACESTATE = 512
_NO_SPAN = "0" * 16


def caller(traceparent: str) -> str:
    """The caller's span as version 00; "" when the header is none, which the standard ignores."""
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None or (match[1] == "00" and match[5] is not None):
        return ""
    return _written(match[2], match[3], f"{int(match[4], 16) & _KNOWN_FLAGS:02x}")


def caller_state(tracestate: str) -> str:
    """The vendors' list, shortened by whole members from its end; "" when it is malformed."""
    members = [member for each in tracestate.split(",") if (member := each.strip(" \t"))]
    if len(members) > _MAX_MEMBERS or not all(map(_MEMBER.fullmatch, members)):
        return ""
    while len(state := ",".join(members)) > _MAX_TRACESTATE:
        members.pop()
    return state


def root(trace_id: str, run_id: str) -> str:
    """The span of a run that begins a trace of its own."""
    return under(_written(trace_id, _NO_SPAN, "01"), run_id)


def under(traceparent: str, run_id: str) -> str:
    """The run's own span, a child of the span ``traceparent``; "" when there is none."""
    return _shifted(traceparent, run_id)


def parent_span(traceparent: str, run_id: str) -> str:
    """The id of the span under which the run is; "" when it began its trace."""
    span = _shifted(traceparent, run_id).split("-")[2]
    return "" if span == _NO_SPAN else span


def after(traceparent: str, run_id: str, new_run_id: str) -> str:
    """The span of the run that ``run_id`` continued as: both are children of the same caller."""
    return _shifted(_shifted(traceparent, run_id), new_run_id)


def of_step(traceparent: str, run_id: str, sequence: int) -> str:
    """The span of a step, a child of its run's: what activities and child workflows get."""
    if not traceparent:
        return ""
    _, trace_id, _, flags = traceparent.split("-")
    return _written(trace_id, _digest(f"{run_id}\0{sequence}").hex(), flags)


def sampled(traceparent: str) -> bool:
    return bool(traceparent) and bool(int(traceparent[-2:], 16) & _SAMPLED)


def _shifted(traceparent: str, run_id: str) -> str:
    if not traceparent:
        return ""
    _, trace_id, span, flags = traceparent.split("-")
    shifted = int(span, 16) ^ int.from_bytes(_digest(run_id), "big")
    return _written(trace_id, f"{shifted:016x}", flags)


def _written(trace_id: str, span: str, flags: str) -> str:
    return f"00-{trace_id}-{span}-{flags}"


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()
