"""Facts for the causes of `why`, with what a test does not care about filled in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raftflow.cluster.refused_calls import RefusedCall
from raftflow.cluster.why.facts import ClusterFacts, RunFacts, TaskFacts
from raftflow.cluster.why.model import Link
from raftflow.cluster.work_facts import ACTIVITY, Holding, Leading, Poller, QueueFacts, Work
from raftflow.engine.ids import RunKey
from raftflow.engine.state import Run, RunStatus, Step, StepKind, StepStatus, Task, TaskState

NOW_MS = 1_750_000_000_000
LEADERLESS = ClusterFacts(
    node="n1", leader=None, term=3, nodes=({"id": "n1", "member": "voter", "role": "follower"},)
)
KEY = RunKey("default", "order-1", "r1")


def run(*steps: Step, **more: Any) -> Run:
    return Run(
        **{
            "key": KEY,
            "workflow_type": "Order",
            "task_queue": "orders",
            "status": RunStatus.WAITING,
            "started_ms": NOW_MS - 60_000,
            "updated_ms": NOW_MS - 10_000,
            "history_length": 3,
            "steps": list(steps),
            **more,
        }
    )


def step(name: str = "charge", sequence: int = 1, **more: Any) -> Step:
    return Step(
        **{
            "sequence": sequence,
            "kind": StepKind.ACTIVITY,
            "name": name,
            "status": StepStatus.SCHEDULED,
            "scheduled_event_id": 2,
            "scheduled_ms": NOW_MS - 20_000,
            "task_queue": "payments",
            "task": Task(state=TaskState.QUEUED),
            **more,
        }
    )


def poller(worker: str = "w1", *types: str, **more: Any) -> Poller:
    return Poller(
        **{
            "node": "n1",
            "namespace": "default",
            "kind": ACTIVITY,
            "queue": "payments",
            "worker": worker,
            "types": types or ("*",),
            "polls": 1,
            "since_ms": NOW_MS - 60_000,
            "seen_ms": NOW_MS,
            **more,
        }
    )


def holding(worker: str, leases: int) -> Holding:
    return Holding(
        namespace="default",
        kind=ACTIVITY,
        queue="payments",
        worker=worker,
        node="n1",
        leases=leases,
    )


def backlog(queued: int, **more: Any) -> QueueFacts:
    return QueueFacts(
        **{
            "namespace": "default",
            "kind": ACTIVITY,
            "queue": "payments",
            "queued": queued,
            "oldest_ms": 7_000,
            "leases": 0,
            "expired": 0,
            **more,
        }
    )


def work(
    *pollers: Poller,
    queues: Sequence[QueueFacts] = (),
    holdings: Sequence[Holding] = (),
    settled: bool = True,
    **more: Any,
) -> Work:
    leading = Leading(term=3, settled=settled, queues=tuple(queues), holdings=tuple(holdings))
    return Work(**{"pollers": pollers, "leading": leading, **more})


def refused(operation: str, reason: str, **more: Any) -> RefusedCall:
    return RefusedCall(
        **{
            "operation": operation,
            "namespace": "default",
            "target": KEY.workflow_id,
            "step": "",
            "reason": reason,
            "message": "no",
            "limit": "",
            "value": 0,
            "first_ms": NOW_MS - 5_000,
            "last_ms": NOW_MS - 1_000,
            "times": 1,
            "node": "n2",
            **more,
        }
    )


def task_facts(the_run: Run, the_step: Step | None, **more: Any) -> TaskFacts:
    nothing = work()
    return TaskFacts(
        **{
            "run": the_run,
            "step": the_step,
            "now_ms": NOW_MS,
            "work": nothing,
            "around": nothing,
            **more,
        }
    )


def run_facts(the_run: Run | None, **more: Any) -> RunFacts:
    return RunFacts(
        **{
            "namespace": KEY.namespace,
            "workflow_id": KEY.workflow_id,
            "run_id": "",
            "now_ms": NOW_MS,
            "run": the_run,
            **more,
        }
    )


def causes(links: Sequence[Link]) -> list[str]:
    return [str(link.cause) for link in links]
