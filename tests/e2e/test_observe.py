"""What three real nodes tell of themselves: queues and workers."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dev_cluster import HttpError, wait_for
from node_processes import Nodes, nodes_in

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    directory: Path = tmp_path_factory.mktemp("observe")
    with nodes_in(directory) as found:
        found.bear("n1", "n2", "n3")
        yield found


class Poller:
    """A worker that asks one node for work, again and again, until it has some."""

    def __init__(self, node: Any, query: str) -> None:
        self.task: Any = None
        self._node, self._query = node, query
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Poller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(10)

    def _run(self) -> None:
        while self.task is None and not self._ended.is_set():
            try:
                self.task = self._node.call("GET", f"{self._query}&wait=1000")
            except (OSError, HttpError):
                self._ended.wait(0.1)


def run_with_step(nodes: Nodes, workflow_id: str, queue: str) -> None:
    """A run whose one activity is queued where its type's worker is not."""
    node = nodes["n1"]
    node.call("POST", "/api/workflow-types", {"workflow_types": ["Pay"], "worker_id": "w"})
    node.call("POST", "/api/workflows", {"type": "Pay", "workflow_id": workflow_id})
    task = node.call("GET", "/api/workflow-tasks?types=Pay&worker_id=decider")
    command = {
        "type": "schedule_activity",
        "step_name": "charge",
        "sequence": 1,
        "task_queue": queue,
        "input": "secret input",
    }
    node.call(
        "POST",
        "/api/workflow-tasks/complete",
        {"workflow_id": workflow_id, "task_token": task["task_token"], "command": command},
    )


def queue(node: Any, name: str) -> dict[str, Any]:
    found = [each for each in node.call("GET", "/api/queues")["queues"] if each["name"] == name]
    return found[0] if found else {}


def test_queues_and_workers_from_every_node(nodes: Nodes) -> None:
    run_with_step(nodes, "pay-1", "payments")
    with Poller(nodes["n2"], "/api/activity-tasks?task_queue=mail&worker_id=w%F0%9F%92%A9&max=1"):
        for node in nodes.running():
            waiting = wait_for("the task waits", lambda node=node: queue(node, "payments"))
            assert (waiting["kind"], waiting["queued"], waiting["pollers"]) == ("activity", 1, [])
            assert waiting["oldest_ms"] >= 0
            polled = wait_for("the poll is there", lambda node=node: queue(node, "mail"))
            assert polled["pollers"][0] | {"since": ""} == {
                "node": "n2",
                "worker": "w\U0001f4a9",
                "types": ["*"],
                "polls": 1,
                "since": "",
            }
            answer = node.call("GET", "/api/queues")
            assert answer["complete"], answer
            assert "secret" not in json.dumps(answer)
    with Poller(nodes["n3"], "/api/activity-tasks?task_queue=payments&worker_id=payer") as worker:
        wait_for("the worker has the task", lambda: worker.task)
    for node in nodes.running():
        leased = wait_for("it is leased", lambda node=node: queue(node, "payments").get("leases"))
        assert leased == 1
        rows = node.call("GET", "/api/workers")["workers"]
        (payer,) = [row for row in rows if row["id"] == "payer"]
        assert (payer["node"], payer["leases"], payer["queues"]) == ("n3", 1, ["payments"])
    told = json.dumps([node.call("GET", "/api/workers") for node in nodes.running()])
    assert worker.task["lease_token"] not in told


def test_a_new_leader_knows_the_leases_of_the_old_one(nodes: Nodes) -> None:
    run_with_step(nodes, "pay-2", "refunds")
    with Poller(nodes["n1"], "/api/activity-tasks?task_queue=refunds&worker_id=refunder") as worker:
        wait_for("the worker has the task", lambda: worker.task)
    leader = nodes.leader()
    nodes[leader].stop(signal.SIGKILL)
    left = nodes.running()[0]

    def known() -> Any:
        try:
            return queue(left, "refunds").get("leases") == 1
        except HttpError:
            return False

    wait_for("the next leader tells of the lease", known)
    answer = left.call("GET", "/api/queues")
    assert (answer["complete"], answer["missing"]) == (False, [leader])
    assert leader in answer["reasons"]
    nodes[leader].start("--peers", nodes.peers("n1", "n2", "n3"))
    nodes.wait_settled("n1", "n2", "n3")
