"""Polling: for what there is room, quiet in an election, one line in an outage."""

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from faulty_node import Node
from sdk_cluster import FakeCluster, Refused

from raftflow_sdk import poller
from raftflow_sdk.connection import Connection
from raftflow_sdk.errors import Unavailable
from raftflow_sdk.poller import Outage, Patience, Poller
from raftflow_sdk.slots import Slots


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(park=0.2)


@pytest.fixture
def node(cluster: FakeCluster) -> Iterator[Node]:
    with Node(cluster) as node:
        yield node


class Polling:
    """A poller in its thread, and the tasks that it got."""

    def __init__(self, node: Node) -> None:
        self.tasks: list[dict[str, Any]] = []
        self.slots = Slots(8)
        self.connection = Connection([node.address])
        self.stopping = threading.Event()
        self.poller = Poller(
            self.connection,
            "/api/workflow-tasks",
            {"types": "Order", "worker_id": "w"},
            self.slots,
            self.tasks.append,
            stopping=self.stopping,
            outage=Outage(),
        )
        self.thread = threading.Thread(target=self.poller.run)

    def __enter__(self) -> "Polling":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.connection.hang_up()
        self.slots.close()
        self.thread.join(5)
        assert not self.thread.is_alive()

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 5
        while len(self.tasks) < count:
            assert time.monotonic() < deadline
            time.sleep(0.005)


def test_it_hands_over_every_task(cluster: FakeCluster, node: Node) -> None:
    for name in "abc":
        cluster.start("Order", name)
    with Polling(node) as polling:
        polling.wait_for(3)
    assert {task["workflow_id"] for task in polling.tasks} == set("abc")


def test_it_asks_for_half_of_what_is_free(cluster: FakeCluster, node: Node) -> None:
    for name in "abcdef":
        cluster.start("Order", name)
    with Polling(node) as polling:
        polling.wait_for(6)
    assert polling.slots.reserve(10) == 2
    asked = [int(line["max"]) for line in node.queries if "max" in line]
    assert asked[:2] == [4, 2]


def test_slots_of_tasks_that_did_not_come_are_free_again(cluster: FakeCluster, node: Node) -> None:
    cluster.start("Order", "a")
    with Polling(node) as polling:
        polling.wait_for(1)
    assert polling.slots.reserve(10) == 7


@pytest.mark.slow
def test_a_short_outage_is_not_worth_a_line(
    cluster: FakeCluster, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.faults.extend([("/api/workflow-tasks", "503"), ("/api/workflow-tasks", "reset")])
    cluster.start("Order", "a")
    with Polling(node) as polling:
        polling.wait_for(1)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.slow
def test_a_long_outage_is_one_line(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "_WORTH_A_WARNING", 0.1)
    node.fault_always = "503"
    with Polling(node):
        deadline = time.monotonic() + 5
        while not caplog.records and time.monotonic() < deadline:
            time.sleep(0.01)
        served = len(node.served)
        while len(node.served) < served + 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"127.0.0.1:{node.port}" in record.getMessage()


@pytest.mark.slow
def test_a_refusal_is_logged_and_tried_again(
    cluster: FakeCluster, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.refusals.append(("/api/workflow-tasks", Refused(403, "role too small")))
    cluster.start("Order", "a")
    with Polling(node) as polling:
        polling.wait_for(1)
    assert "role too small" in caplog.text


def test_a_poll_that_was_parked_begins_a_new_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two leader changes, a parked poll between them, are not one long outage."""
    told: list[float] = []
    outage = Outage()
    monkeypatch.setattr(outage, "lasts", lambda since, news: told.append(since))
    patience = Patience(threading.Event(), outage)
    long_ago = time.monotonic() - 100
    patience.failed(time.monotonic(), OSError())
    patience.failed(long_ago, OSError())
    assert time.monotonic() - told[-1] < 1


def test_a_broken_poll_is_asked_again_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was granted never came; the server gives that back when it hears the name again."""
    asked: list[str] = []
    stopping = threading.Event()

    class Broken:
        """Two polls break, the third is answered, the fourth stops the worker."""

        def poll(self, _path: str, query: dict[str, str]) -> dict[str, Any] | None:
            asked.append(query["request_id"])
            if len(asked) <= 2:
                raise Unavailable("the connection broke", maybe_applied=False)
            if len(asked) == 4:
                stopping.set()
            return None

        def close(self) -> None:
            pass

    monkeypatch.setattr(poller, "backoffs", lambda *_: iter([0.0] * 10))
    Poller(
        Broken(),  # type: ignore[arg-type]
        "/api/workflow-tasks",
        {},
        Slots(2),
        lambda _task: None,
        stopping=stopping,
        outage=Outage(),
    ).run()
    first, second, third, fourth = asked
    assert first == second == third != fourth
