"""What a checker has to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.jepsen.history import INFO, OK, Call, named

MAX_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Verdict:
    errors: tuple[str, ...] = ()
    stats: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.errors


def verdict(errors: Sequence[str], **stats: Any) -> Verdict:
    shown = list(errors[:MAX_SHOWN])
    if len(errors) > MAX_SHOWN:
        shown.append(f"... and {len(errors) - MAX_SHOWN} more")
    return Verdict(tuple(shown), stats)


def joined(*verdicts: Verdict) -> Verdict:
    stats: dict[str, Any] = {}
    for each in verdicts:
        stats.update(each.stats)
    return Verdict(tuple(error for each in verdicts for error in each.errors), stats)


def substance(
    calls: Sequence[Call], minimums: Mapping[str, int], *, most_info: float = 0.5
) -> Verdict:
    """A run in which too little succeeded, or too much is unknown, proves nothing."""
    errors = []
    counts: dict[str, int] = {}
    for f, least in minimums.items():
        done = named(calls, f)
        ok = sum(call.kind == OK for call in done)
        counts[f"{f} ok"] = ok
        if ok < least:
            errors.append(f"vacuous: {ok} `{f}` succeeded of {len(done)}, needed are {least}")
        unknown = sum(call.kind == INFO for call in done)
        if done and unknown > most_info * len(done):
            errors.append(f"vacuous: of {len(done)} `{f}` the outcome of {unknown} is unknown")
    return verdict(errors, **counts)


def shown(call: Call) -> str:
    """One call in a complaint."""
    end = "…" if call.end_ns == float("inf") else f"{call.end_ns / 1e9:.3f}"
    told = f" -> {call.result!r:.120}" if call.result is not None else ""
    return (
        f"{call.f}({call.key}, {call.arguments!r:.80}){told} by {call.process} at {call.node} "
        f"[{call.start_ns / 1e9:.3f}, {end}] {call.kind} {call.error}".rstrip()
    )
