"""Walks through the whole state in the background and says what is not as it must be.

A slice at a time, with pauses many times as long as the slice took, so that nothing else on the
node notices. What a slice finds counts only when a second look finds it too. A violation is a bug
or damage: it is counted, logged with its run, and shown by `raftflow doctor`; the node goes on,
since the runs beside it are whole.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from raftflow.cluster.background import Fatal, end, spawn
from raftflow.cluster.metrics import Metrics
from raftflow.cluster.store.audit import Finding, Place, Slice

log = structlog.get_logger("raftflow.invariants")

_SHARE = 50  # of the time, one part in so many is spent looking
_LEAST_PAUSE_S = 0.05
_SECOND_LOOK_S = 0.5
_REST_S = 10.0  # between two walks
_KEPT = 1_000  # violations remembered; beyond that they are only counted
_SHOWN = 20

Subject = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Pauses, in seconds."""

    least_s: float = _LEAST_PAUSE_S
    second_look_s: float = _SECOND_LOOK_S
    rest_s: float = _REST_S


class Store(Protocol):
    async def audit(self, place: Place) -> Slice: ...


class InvariantChecks:
    """Runs beside the replica on every node."""

    def __init__(self, *, store: Store, metrics: Metrics, fatal: Fatal, pace: Pace | None = None):
        self._store = store
        self._metrics = metrics
        self._fatal = fatal
        self._pace = pace or Pace()
        self._task: asyncio.Task[None] | None = None
        self._open: OrderedDict[Subject, Finding] = OrderedDict()  # as the last walk found them
        self.checked = 0
        self.walks = 0
        self.index = 0
        self._walked_at: float | None = None

    def start(self) -> None:
        self._task = spawn(self._run(), name="invariant-checks", fatal=self._fatal)

    async def stop(self) -> None:
        await end(self._task)

    @property
    def violations(self) -> list[Finding]:
        """What did not hold when it was last looked at."""
        return [*self._open.values()]

    def violated(self, invariant: str) -> int:
        return sum(each.invariant == invariant for each in self._open.values())

    def report(self) -> dict[str, Any]:
        """For the cluster page and `raftflow doctor`."""
        since = None if self._walked_at is None else round(time.monotonic() - self._walked_at, 1)
        return {
            "checked": self.checked,
            "walks": self.walks,
            "walked_seconds_ago": since,
            "applied_index": self.index,
            "violated": len(self._open),
            "violations": [
                {
                    "invariant": each.invariant,
                    "namespace": each.namespace,
                    "workflow_id": each.workflow_id,
                    "run_id": each.run_id,
                    "problem": each.problem[:500],
                }
                for each in self.violations[:_SHOWN]
            ],
        }

    def tell(self, finding: Finding) -> None:
        """Someone saw one: it counts once, until a walk does not find it any more."""
        subject = _subject(finding)
        if subject in self._open:
            self._open[subject] = finding
            return
        self._metrics.invariant_violations.labels(finding.invariant).inc()
        log.error("invariant_violated", **_told(finding))
        if len(self._open) < _KEPT:
            self._open[subject] = finding

    async def _run(self) -> None:
        while True:
            await self.walk()
            await asyncio.sleep(self._pace.rest_s)

    async def walk(self) -> None:
        """Once through everything."""
        before, found = set(self._open), set[Subject]()
        place: Place | None = Place()
        while place is not None:
            part = await self._store.audit(place)
            if part.findings:
                found |= await self._look_again(place, part)
            self.checked += part.checked
            self._metrics.invariant_checks.inc(part.checked)
            self.index, place = part.index, part.following
            await asyncio.sleep(max(self._pace.least_s, (_SHARE - 1) * part.cpu_s))
        for gone in before - found:
            log.info("invariant_restored", **_told(self._open.pop(gone)))
        self.walks += 1
        self._walked_at = time.monotonic()

    async def _look_again(self, place: Place, first: Slice) -> set[Subject]:
        await asyncio.sleep(self._pace.second_look_s)
        seen = {_subject(each) for each in first.findings}
        again = (await self._store.audit(place)).findings
        sure = {subject: each for each in again if (subject := _subject(each)) in seen}
        for finding in sure.values():
            self.tell(finding)
        return set(sure)


def _subject(finding: Finding) -> Subject:
    """The same violation may be told in other words a moment later; rows of no run differ only by
    their words."""
    words = "" if finding.run_id else finding.problem
    return (finding.invariant, finding.namespace, finding.workflow_id, finding.run_id, words)


def _told(finding: Finding) -> dict[str, str]:
    return {
        "invariant": finding.invariant,
        "namespace": finding.namespace,
        "workflow_id": finding.workflow_id,
        "run_id": finding.run_id,
        "problem": finding.problem,
    }
