"""Faults struck, nodes ended only where they may, and in quiet periods all was quiet."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.jepsen.checker.verdict import Verdict, verdict
from tests.jepsen.history import NEVER, Call, Op, calls
from tests.jepsen.nemesis.conductor import NOT_NOW, QUIET
from tests.jepsen.observer import Sample

S = 1_000_000_000
SETTLED_S = 4  # of a quiet period: elections that the last fault caused are over
NOTICED_S = 3  # after a fault: how late the observer may tell of an end
ORDERLY = 0


@dataclass(frozen=True, slots=True)
class Interval:
    """A fault as the report draws it and the checks use it."""

    lane: str
    name: str
    words: str
    nodes: tuple[str, ...]
    start_ns: int
    end_ns: float
    ends_nodes: bool
    effect: str
    problem: str

    @property
    def ended(self) -> bool:
        return self.end_ns != NEVER


def intervals(history: Sequence[Op]) -> list[Interval]:
    return [_interval(call) for call in calls(history) if call.process.startswith("nemesis/")]


def _interval(call: Call) -> Interval:
    told = call.arguments or {}
    return Interval(
        lane=call.process.removeprefix("nemesis/"),
        name=call.f,
        words=str(told.get("did", "")),
        nodes=tuple(told.get("nodes", ())),
        start_ns=call.start_ns,
        end_ns=call.end_ns,
        ends_nodes=bool(told.get("ends_nodes")),
        effect=str(call.result or ""),
        problem="" if call.ok else call.error or "never ended",
    )


def check_faults(history: Sequence[Op], expected: Sequence[Sequence[str]]) -> Verdict:
    """`expected`: of each of these families (the names of its faults) one must have struck."""
    struck: Counter[str] = Counter()
    errors = []
    for fault in intervals(history):
        if not fault.problem:
            struck[fault.name] += 1
        elif not fault.problem.startswith(NOT_NOW):
            errors.append(f"{fault.name} ({fault.words}): {fault.problem}")
    errors += [
        f"vacuous: none of {', '.join(family)} struck"
        for family in expected
        if not any(struck[name] for name in family)
    ]
    struck.pop(QUIET, None)
    return verdict(errors, **struck)


def check_ends(history: Sequence[Op], samples: Sequence[Sample]) -> Verdict:
    """A node is killed by us, told to stop, or ends since its disk failed; else it is a bug."""
    allowed = [fault for fault in intervals(history) if fault.ends_nodes]
    errors = []
    ended = 0
    for sample in samples:
        if sample.ended is None:
            continue
        ended += 1
        if sample.ended in (ORDERLY, -signal.SIGKILL):
            continue
        if not any(
            sample.node in fault.nodes
            and fault.start_ns <= sample.time_ns <= fault.end_ns + NOTICED_S * S
            for fault in allowed
        ):
            at = f"{sample.time_ns / S:.1f}"
            errors.append(f"{sample.node} ended with status {sample.ended} at {at}: see its log")
    return verdict(errors, ended=ended)


def check_quiet(history: Sequence[Op], samples: Sequence[Sample]) -> Verdict:
    """No election without a fault, and everybody knows the leader."""
    errors = []
    quiet = [fault for fault in intervals(history) if fault.name == QUIET]
    for period in quiet:
        begin = period.start_ns + SETTLED_S * S
        seen = [s for s in samples if begin < s.time_ns < period.end_ns and s.ended is None]
        terms = {s.term for s in seen if s.term}
        if len(terms) > 1:
            errors.append(f"elections in a quiet period: terms {sorted(terms)}")
        leaders = {s.leader for s in seen}
        if len(leaders) > 1:
            errors.append(f"a quiet period saw the leaders {sorted(leaders)}")
    return verdict(
        errors, quiet_periods=len(quiet), terms=max((s.term for s in samples), default=0)
    )
