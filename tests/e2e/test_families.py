"""Children through the outbox while the leader dies, and closed runs that retention takes away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from dev_cluster import DevCluster, HttpError, call, wait_for, workflow_path

pytestmark = pytest.mark.cluster

PARENTS = 20
CHILDREN = 3


def decide(task: dict[str, Any]) -> list[dict[str, Any]]:
    """Workflow code by hand: a parent starts its children at once and joins them."""
    if task["workflow_type"] == "Child":
        return [{"type": "complete_workflow", "output": f"did {task['input']}"}]
    steps = task["steps"]
    if not steps:
        return [
            {
                "type": "start_child_workflow",
                "step_name": "child",
                "sequence": n,
                "workflow_type": "Child",
                "workflow_id": f"{task['workflow_id']}/{n}",
                "input": f"{task['workflow_id']}/{n}",
            }
            for n in range(1, CHILDREN + 1)
        ]
    if any(step["status"] == "SCHEDULED" for step in steps):
        return []
    output = ";".join(step.get("output", step["status"]) for step in steps)
    return [{"type": "complete_workflow", "output": output}]


@contextmanager
def worker(address: str) -> Iterator[None]:
    """Answers decisions until it is stopped; what the cluster refuses comes again."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                task = call(address, "GET", "/api/workflow-tasks?worker_id=w", timeout=35)
                if task is not None:
                    body = {
                        "workflow_id": task["workflow_id"],
                        "task_token": task["task_token"],
                        "commands": decide(task),
                    }
                    call(address, "POST", "/api/workflow-tasks/complete", body)
            except (HttpError, OSError):
                stop.wait(0.05)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()


def test_children_survive_a_killed_leader_and_leave_with_retention(cluster: DevCluster) -> None:
    leader = cluster.leader()
    follower, other = cluster.followers()
    address = cluster.http(follower)
    cluster.call(other, "POST", "/api/workflow-types", {"workflow_types": ["Parent", "Child"]})
    parents = [f"parent {n} ✓" for n in range(PARENTS)]
    with worker(address):
        for number, workflow_id in enumerate(parents):
            if number == PARENTS // 2:
                cluster.kill(leader)
            body = {"type": "Parent", "workflow_id": workflow_id, "request_id": workflow_id}
            cluster.call(other, "POST", "/api/workflows", body)
        for workflow_id in parents:
            run = cluster.wait_status(other, workflow_id, "COMPLETED", "FAILED")
            assert run["status"] == "COMPLETED", run
            expected = [f"did {workflow_id}/{n}" for n in range(1, CHILDREN + 1)]
            assert run["output"] == ";".join(expected)
            runs = cluster.call(other, "GET", workflow_path(f"{workflow_id}/1", "/runs"))["runs"]
            assert len(runs) == 1
    assert cluster.call(other, "GET", "/api/workflows")["total"] == PARENTS * (CHILDREN + 1)

    cluster.call(other, "PUT", "/api/namespaces/default", {"retention_ms": 1})
    wait_for(
        "all closed runs are gone",
        lambda: cluster.call(follower, "GET", "/api/workflows")["total"] == 0,
    )
    with pytest.raises(HttpError) as refused:
        cluster.call(follower, "GET", workflow_path(parents[0]))
    assert refused.value.status == 404
