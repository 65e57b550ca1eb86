"""Faults struck, nodes ended only where they may, and in quiet periods all was quiet."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.jepsen.checker.verdict import Verdict, verdict
from tests.jepsen.history import NEVER, Call, Op, calls
from tests.jepsen.nemesis import corruption
from tests.jepsen.nemesis.conductor import NOT_NOW, QUIET
from tests.jepsen.observer import Sample

S = 1_000_000_000
REPLACE = "replace"  # of the workload `membership`
SETTLED_S = 4  # of a quiet period: elections that the last fault caused are over
STARVED_MS = 200
NOTICED_S = 3  # after a fault: how late the observer may tell of an end
FOUND_S = 20  # after rot: a node may serve until its scrub meets what it did not read at its start
ROTS = frozenset(fault.name for fault in corruption.FAULTS)
ORDERLY = 0
TERMS_A_FAULT = 6  # a flapping link is one fault and costs several elections


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


def check_faults(history: Sequence[Op], families: Mapping[str, Sequence[str]]) -> Verdict:
    """Of each family that had its turn (by the names of its faults) one must have struck."""
    found = [fault for fault in intervals(history) if fault.name != QUIET]
    struck = Counter(fault.name for fault in found if not fault.problem)
    tried = {fault.name for fault in found}
    errors = [
        f"{fault.name} ({fault.words}): {fault.problem}"
        for fault in found
        if fault.problem and not fault.problem.startswith(NOT_NOW)
    ]
    unreached = []
    for family, names in families.items():
        if not tried.intersection(names):
            unreached.append(family)
        elif not any(struck[name] for name in names):
            errors.append(f"vacuous: none of {', '.join(names)} struck")
    if families and not struck:
        errors.append("vacuous: no fault struck")
    if unreached:
        return verdict(errors, **struck, too_short_for=",".join(unreached))
    return verdict(errors, **struck)


def check_ends(history: Sequence[Op], samples: Sequence[Sample]) -> Verdict:
    """A node is killed by us, told to stop, taken out of its cluster, or ends since its disk
    failed; else it is a bug."""
    allowed = [
        (fault.nodes, fault.start_ns, fault.end_ns + (FOUND_S if fault.name in ROTS else 0) * S)
        for fault in intervals(history)
        if fault.ends_nodes
    ]
    replaced = calls(op for op in history if op.f == REPLACE)
    allowed += [((call.key,), call.start_ns, call.end_ns) for call in replaced]
    errors = []
    ended = 0
    for sample in samples:
        if sample.ended is None:
            continue
        ended += 1
        if sample.ended in (ORDERLY, -signal.SIGKILL):
            continue
        if not any(
            sample.node in nodes and start_ns <= sample.time_ns <= end_ns + NOTICED_S * S
            for nodes, start_ns, end_ns in allowed
        ):
            at = f"{sample.time_ns / S:.1f}"
            errors.append(f"{sample.node} ended with status {sample.ended} at {at}: see its log")
    return verdict(errors, ended=ended)


def check_quiet(history: Sequence[Op], samples: Sequence[Sample]) -> Verdict:
    """No election without a fault, and everybody knows the leader. Where an operator replaced a
    node meanwhile, who may have led, nothing is said; neither is where the machine gave nobody the
    processor for as long as followers wait for their leader."""
    errors = []
    starved = 0
    replaced = calls(op for op in history if op.f == REPLACE)
    all_quiet = [fault for fault in intervals(history) if fault.name == QUIET]
    quiet = [
        period
        for period in all_quiet
        if not any(c.start_ns < period.end_ns and period.start_ns < c.end_ns for c in replaced)
    ]
    for period in quiet:
        begin = period.start_ns + SETTLED_S * S
        seen = [s for s in samples if begin < s.time_ns < period.end_ns and s.role]
        if max((s.late_ms for s in seen), default=0) > STARVED_MS:
            starved += 1
            continue
        held = {s.term for s in seen if s.term}
        if len(held) > 1:
            errors.append(f"elections in a quiet period: terms {sorted(held)}")
        leaders = {s.leader for s in seen}
        if len(leaders) > 1:
            errors.append(f"a quiet period saw the leaders {sorted(leaders)}")
    struck = sum(not fault.problem for fault in intervals(history)) - len(all_quiet)
    struck += len(replaced)
    terms = max((s.term for s in samples), default=0)
    if terms > TERMS_A_FAULT * (struck + 1):
        errors.append(f"a storm of terms: {terms} of them for {struck} faults")
    if quiet and starved == len(quiet):
        errors.append("vacuous: the machine was too busy in all quiet periods")
    return verdict(errors, quiet_periods=len(quiet) - starved, starved=starved, terms=terms)
