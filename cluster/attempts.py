"""Attempts of activities that ended without an event, as this node saw them.

A history keeps the attempt that ended a step (DESIGN: retries are no events, or a step that is
retried for a month would fill it). Who looks at a step that fails again and again wants to know
which worker and which node had the others: each node remembers those that it applied itself, in
memory, the latest of each step.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from raftflow.engine.apply import Applied
from raftflow.engine.commands import Batch
from raftflow.engine.effects import DropLease, HoldLease
from raftflow.engine.ids import RunKey
from raftflow.engine.state import Run, Step, StepStatus

MOST = 10_000  # of all runs; those of the run whose last attempt ended longest ago go first
MOST_OF_STEP = 20
_MOST_OUT = 10_000
_MOST_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """``ended_ms`` 0: a worker has it. ``error`` "" of one that has ended: nobody wanted its result
    any more."""

    number: int
    worker_id: str
    node: str
    started_ms: int
    ended_ms: int = 0
    error: str = ""


class Attempts:
    """Subscribes to the replica."""

    def __init__(self) -> None:
        self._out: OrderedDict[str, Attempt] = OrderedDict()  # by lease token
        self._past: OrderedDict[RunKey, dict[int, deque[Attempt]]] = OrderedDict()
        self._kept = 0

    def on_applied(self, applied: Applied, batch: Batch) -> None:
        runs = applied.changes.runs
        for effect in applied.effects:
            if isinstance(effect, HoldLease | DropLease) and effect.sequence:
                run = runs.get(effect.run)
                if isinstance(effect, HoldLease):
                    self._began(effect, run)
                else:
                    self._over(effect, run, batch.time_ms)

    def of(self, run: RunKey) -> Mapping[int, Sequence[Attempt]]:
        """By the sequence of the step, oldest first."""
        return self._past.get(run, {})

    def _began(self, lease: HoldLease, run: Run | None) -> None:
        step = None if run is None else run.steps[lease.sequence - 1]
        if step is None or step.task.token != lease.token:
            return  # over within the same entry: what it was cannot be told any more
        task = step.task
        self._out[lease.token] = Attempt(
            number=step.attempts,
            worker_id=task.worker_id,
            node=task.node,
            started_ms=task.leased_ms,
        )
        if len(self._out) > _MOST_OUT:  # their ends were in a copy of the state, not in the log
            self._out.popitem(last=False)

    def _over(self, lease: DropLease, run: Run | None, now_ms: int) -> None:
        attempt = self._out.pop(lease.token, None)
        if attempt is None or run is None:
            return
        step = run.steps[lease.sequence - 1]
        if step.attempts < attempt.number or _in_history(step):
            return  # handed back, which is no attempt, or told by the step's own event
        error = "" if lease.cancelled else step.last_error[:_MOST_CHARACTERS]
        self._keep(run.key, step.sequence, replace(attempt, ended_ms=now_ms, error=error))

    def _keep(self, run: RunKey, sequence: int, attempt: Attempt) -> None:
        past = self._past.setdefault(run, {}).setdefault(sequence, deque(maxlen=MOST_OF_STEP))
        self._past.move_to_end(run)
        self._kept += len(past) < MOST_OF_STEP
        past.append(attempt)
        while self._kept > MOST:
            _, steps = self._past.popitem(last=False)
            self._kept -= sum(map(len, steps.values()))


def _in_history(step: Step) -> bool:
    return step.arrived or step.status in (StepStatus.COMPLETED, StepStatus.FAILED)
