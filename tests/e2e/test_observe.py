"""What three real nodes tell of themselves: queues and workers, figures, elections, who is away."""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
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


def whole(node: Any) -> dict[str, Any] | None:
    """What all nodes told; on a busy machine one may be late."""
    answer: dict[str, Any] = node.call("GET", "/api/queues")
    return answer if answer["complete"] else None


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
            answer = wait_for("all have told", lambda node=node: whole(node))
            assert "secret" not in json.dumps(answer)
    with Poller(nodes["n3"], "/api/activity-tasks?task_queue=payments&worker_id=payer") as worker:
        wait_for("the worker has the task", lambda: worker.task)
    for node in nodes.running():
        leased = wait_for("it is leased", lambda node=node: queue(node, "payments").get("leases"))
        assert leased == 1

        def payer(node: Any = node) -> dict[str, Any] | None:
            rows = node.call("GET", "/api/workers")["workers"]
            return next((row for row in rows if row["id"] == "payer" and row["leases"]), None)

        found = wait_for("the worker is shown with its lease", payer)
        assert (found["node"], found["leases"], found["queues"]) == ("n3", 1, ["payments"])
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

    def alone_missing() -> dict[str, Any] | None:
        answer: dict[str, Any] = left.call("GET", "/api/queues")
        return answer if answer["missing"] == [leader] else None

    answer = wait_for("the one that is dead is named, and no other", alone_missing)
    assert not answer["complete"]
    assert answer["reasons"] == {leader: "not connected"}
    nodes[leader].start("--peers", nodes.peers("n1", "n2", "n3"))
    nodes.wait_settled("n1", "n2", "n3")


# ---- the cluster page ---------------------------------------------------------------------------


class Stream:
    """Events of one node, as they come."""

    def __init__(self, node: Any) -> None:
        self.seen: list[tuple[float, dict[str, Any]]] = []
        self.ended: dict[str, Any] | None = None
        self._connection = http.client.HTTPConnection(node.http, timeout=30)
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Stream:
        self._connection.request("GET", "/api/cluster/events")
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        self._thread.start()
        wait_for("the first event", lambda: self.seen)
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection.sock is not None:
            self._connection.sock.shutdown(2)
        self._thread.join(10)
        self._connection.close()

    def _read(self) -> None:
        name = ""
        try:
            while line := self._answer.readline().decode():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ").strip()
                elif line.startswith("data: "):
                    told = json.loads(line.removeprefix("data: "))
                    if name == "end":
                        self.ended = told
                    else:
                        self.seen.append((time.monotonic(), told))
        except (OSError, ValueError, http.client.HTTPException):
            pass  # closed, here or there

    def first(
        self, what: str, fits: Callable[[dict[str, Any]], Any], *, since: float
    ) -> tuple[float, dict[str, Any]]:
        """After how long an event said so, and which."""

        def found() -> tuple[float, dict[str, Any]] | None:
            for at, told in list(self.seen):
                if at >= since and fits(told):
                    return at - since, told
            return None

        answer: tuple[float, dict[str, Any]] = wait_for(what, found)
        return answer


def row(told: dict[str, Any], node_id: str) -> dict[str, Any]:
    (found,) = [each for each in told["nodes"] if each["id"] == node_id]
    return dict(found)


def followers(nodes: Nodes) -> list[str]:
    leader = nodes.leader()
    return [each.id for each in nodes.running() if each.id != leader]


def test_each_node_shows_the_figures_of_all(nodes: Nodes) -> None:
    for node in nodes.running():

        def known(node: Any = node) -> dict[str, Any] | None:
            told: dict[str, Any] = node.call("GET", "/api/cluster")
            whole = all(
                all(each[name] for name in ("reachable", "store_bytes", "log_bytes", "fsync_ms"))
                for each in told["nodes"]
            )
            return told if whole and told["leader_since"] else None

        told = wait_for(f"{node.id} has the figures of all", known)
        for each in told["nodes"]:
            assert each["disk_free_bytes"] > 0
            assert each["loop_lag_ms"] >= 0
            assert each["match_index"] > 0
            assert each["started_at"].endswith("Z")


def test_leadership_is_handed_over_and_everybody_knows_why(nodes: Nodes) -> None:
    before, after = nodes.leader(), followers(nodes)[0]
    assert f"{after} leads, in term" in nodes.cli("cluster", "transfer", after)
    for node in nodes.running():

        def told(node: Any = node) -> dict[str, Any] | None:
            state: dict[str, Any] = node.call("GET", "/api/cluster")
            newest = state["elections"][-1]
            fits = (newest["leader"], newest["reason"]) == (after, f"transfer from {before}")
            return state if fits and state["leader"] == after else None

        state = wait_for(f"{node.id} knows why {after} leads", told)
        assert state["leader_since"]
    handed = nodes[before].call("POST", "/api/cluster/transfer", {"to": before})
    assert (handed["from"], handed["leader"]) == (after, before)
    refused = nodes.try_cli("cluster", "transfer", "n9")
    assert "n9 is no member" in refused.stderr + refused.stdout
    assert refused.returncode != 0
    noted = nodes["n1"].call("GET", "/api/audit?call=TransferLeadership")["entries"]
    assert {each["outcome"] for each in noted} >= {"ASKED", "OK", "NODE_NOT_FOUND"}


def test_a_snapshot_of_each_node_through_any(nodes: Nodes) -> None:
    for node in nodes.running():
        assert f"{node.id}: the state is durable up to entry" in nodes.cli(
            "node", "snapshot", node.id
        )
    node, other = nodes["n1"], nodes["n2"]
    applied = row(node.call("GET", "/api/cluster"), "n2")["applied_index"]
    made = node.call("POST", "/api/cluster/nodes/n2/snapshot")
    assert made["index"] >= applied
    shown = row(other.call("GET", "/api/cluster"), "n2")
    assert shown["snapshot_index"] >= made["index"]
    assert shown["first_index"] == made["first_index"]


def test_every_node_has_the_same_last_minutes(nodes: Nodes) -> None:
    def known(node: Any) -> dict[str, Any] | None:
        told: dict[str, Any] = node.call("GET", "/api/cluster/history?minutes=10")
        samples = told["samples"]
        whole = samples["leases"] and samples["leases"][-1] is not None
        return told if whole and any(samples["commit_p99_ms"]) else None

    for node in nodes.running():
        told = wait_for(f"{node.id} knows what the leader knows", lambda node=node: known(node))
        assert told["node"] == node.id
        lengths = {len(values) for values in told["samples"].values()}
        assert len(lengths) == 1
        assert sum(each or 0 for each in told["samples"]["commits"]) > 0
        assert sum(each or 0 for each in told["samples"]["requests"]) > 0
        assert any(told["samples"]["fsync_p99_ms"])


def test_one_that_stands_still_shows_at_once(nodes: Nodes) -> None:
    """It keeps its connections; only its silence tells."""
    still, asked = followers(nodes)
    with Stream(nodes[asked]) as stream:
        begun = time.monotonic()
        process = nodes[still].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        took_s, told = stream.first(
            f"{still} is away", lambda told: not row(told, still)["reachable"], since=begun
        )
        assert row(told, still)["connected"]
        assert took_s < 1.0  # two heartbeats are 100 ms; this machine has other work
        answered = nodes[asked].call("GET", "/api/cluster")
        assert not row(answered, still)["reachable"]
        begun = time.monotonic()
        process.send_signal(signal.SIGCONT)
        stream.first(f"{still} is back", lambda told: row(told, still)["reachable"], since=begun)
    print(f"a node that stands still showed after {took_s * 1_000:.0f} ms")


def test_a_leader_that_dies_shows_at_once_and_its_successor_says_why(nodes: Nodes) -> None:
    leader = nodes.leader()
    asked = nodes[followers(nodes)[0]]
    with Stream(asked) as stream:
        begun = time.monotonic()
        nodes[leader].stop(signal.SIGKILL)
        down_s, _ = stream.first(
            f"{leader} is away", lambda told: not row(told, leader)["reachable"], since=begun
        )
        assert down_s < 1.0
        stream.first("so it is", lambda told: not row(told, leader)["connected"], since=begun)
        new_s, told = stream.first(
            "another leads", lambda told: told["leader"] not in (None, leader), since=begun
        )
        assert new_s < 10.0
        reason = f"the connection to {leader} was lost"
        stream.first(
            "it says why", lambda told: told["elections"][-1]["reason"] == reason, since=begun
        )
        assert told["leader_since"]
    print(f"down after {down_s * 1_000:.0f} ms, a new leader after {new_s * 1_000:.0f} ms")
    nodes[leader].start("--peers", nodes.peers("n1", "n2", "n3"))
    nodes.wait_settled("n1", "n2", "n3")


def test_a_node_that_stops_says_so_on_its_streams(nodes: Nodes) -> None:
    stopping = followers(nodes)[0]
    with Stream(nodes[stopping]) as stream:
        nodes[stopping].stop()
        ended = wait_for("the stream has ended", lambda: stream.ended)
    assert ended["reason"] == "UNAVAILABLE"
    nodes[stopping].start("--peers", nodes.peers("n1", "n2", "n3"))
    nodes.wait_settled("n1", "n2", "n3")
