"""What is true of all runs together between two batches: families, and the count of kept runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from raftflow.engine import events as ev
from raftflow.engine.events import Event
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.state import ReportChild, Run, StepKind, StepStatus

if TYPE_CHECKING:
    from engine_harness import Rows

_RESULTS = (
    ev.StepCompleted,
    ev.StepFailed,
    ev.StepCancelled,
    ev.TimerFired,
    ev.SignalConsumed,
    ev.ChildCompleted,
    ev.ChildFailed,
)


def result_problems(events: list[Event]) -> list[str]:
    """Every step gets one result at most, whatever arrives how often."""
    counts = Counter(e.body.sequence for e in events if isinstance(e.body, _RESULTS))
    return [f"step {sequence} has {n} results" for sequence, n in counts.items() if n > 1]


def world_problems(rows: Rows) -> list[str]:
    return _orphans(rows) + _count_problems(rows) + _family_problems(rows)


def _orphans(rows: Rows) -> list[str]:
    """Rows of runs that are not there."""
    keys = [key for table in rows.of_runs() for key in table]
    keys += [row.run for row in rows.timers.values()]
    keys += [RunKey(*workflow, run_id) for workflow, run_id in rows.current.items()]
    return [f"a row of {key} is left" for key in keys if key not in rows.runs]


def _count_problems(rows: Rows) -> list[str]:
    kept = Counter(WorkflowKey(key.namespace, key.workflow_id) for key in rows.runs)
    found = [f"{workflow} has runs, but no newest" for workflow in kept.keys() - rows.current]
    for workflow, run_id in rows.current.items():
        newest = rows.runs.get(RunKey(*workflow, run_id))
        if newest is not None and newest.older_runs != kept[workflow] - 1:
            found.append(f"{newest.key} counts {newest.older_runs} of {kept[workflow] - 1}")
    return found


def _family_problems(rows: Rows) -> list[str]:
    """A parent that waits for a child that runs will hear of it: one of the child's runs is open,
    or what it came to is on its way."""
    chains: dict[tuple[RunKey, int], list[Run]] = defaultdict(list)
    for run in rows.runs.values():
        if run.parent_workflow_id:
            parent = RunKey(run.key.namespace, run.parent_workflow_id, run.parent_run_id)
            chains[parent, run.parent_sequence].append(run)
    found = []
    for key, steps in rows.steps.items():
        for step in steps.values():
            waits = step.kind is StepKind.CHILD and step.status is StepStatus.SCHEDULED
            if not waits or not step.run_id or step.arrived:
                continue
            if not any(_will_tell(rows, child) for child in chains[key, step.sequence]):
                found.append(f"{key} waits for the child of step {step.sequence}, which is gone")
    return found


def _will_tell(rows: Rows, child: Run) -> bool:
    pending = rows.outbox.get(child.key, {}).values()
    return child.open or any(isinstance(message, ReportChild) for message in pending)
