"""What a lost answer held is asked for by name, however the completion itself ends."""

from collections.abc import Iterator
from typing import Any

import pytest
from faulty_node import Node
from sdk_cluster import FakeCluster

from raftflow_sdk import Worker, completions

DECIDED = "/api/workflow-tasks/complete"
PERFORMED = "/api/activity-tasks/complete"

pytestmark = pytest.mark.slow


class Overtaken(FakeCluster):
    """As soon as a decision is applied others decide: the same again is stale."""

    def _decided(self, body: Any) -> Any:
        answer = super()._decided(body)
        del self.runs[body["workflow_id"]].answered[body["task_token"]]
        return answer


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(park=0.1)


@pytest.fixture
def node(cluster: FakeCluster) -> Iterator[Node]:
    with Node(cluster) as node:
        yield node


def worker_of(node: Node, steps: int = 1) -> Worker:
    worker = Worker([node.address])
    worker.workflow("Order")(lambda ctx: [ctx.activity("work", n) for n in range(steps)])
    worker.activity("work")(lambda text: text)
    return worker


def check_that_nothing_is_lost(cluster: FakeCluster, node: Node) -> None:
    """Within the time that is waited no lease ends."""
    run = cluster.start("Order", "w")
    with worker_of(node, steps=3):
        assert cluster.wait_closed(run) == "COMPLETED"
    assert [step["attempts"] for step in run.steps] == [1, 1, 1]


@pytest.mark.parametrize("path", [DECIDED, PERFORMED])
def test_the_answer_is_lost_and_the_repetition_has_none(
    cluster: FakeCluster, node: Node, path: str
) -> None:
    node.faults.append((path, "reset after"))
    check_that_nothing_is_lost(cluster, node)


def test_the_answer_is_lost_and_the_repetition_is_stale() -> None:
    cluster = Overtaken(park=0.1)
    with Node(cluster) as node:
        node.faults.append((DECIDED, "reset after"))
        check_that_nothing_is_lost(cluster, node)


def test_the_answer_is_lost_and_nobody_answers_for_long(
    cluster: FakeCluster, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completions, "_DECISION_PATIENCE", 0.0)
    node.faults.append((DECIDED, "reset after"))
    check_that_nothing_is_lost(cluster, node)
