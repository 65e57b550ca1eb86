"""Queues and workers as the nodes tell them, joined: by queue, and by worker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from raftflow.cluster.api.encoding import encode_answer
from raftflow.cluster.api.handlers import queues as handlers
from raftflow.cluster.api.payloads import timestamp
from raftflow.cluster.work_facts import (
    ACTIVITY,
    ANY_TYPE,
    WORKFLOW,
    Holding,
    Leading,
    Poller,
    QueueFacts,
    Wanted,
    Work,
)

HOSTILE = "<img src=x>\u202e"


def poller(worker: str, *, node: str = "n1", queue: str = "q", polls: int = 1) -> Poller:
    return Poller(
        node=node,
        namespace="default",
        kind=ACTIVITY,
        queue=queue,
        worker=worker,
        types=(ANY_TYPE,),
        polls=polls,
        since_ms=1_000,
        seen_ms=2_000,
    )


LEADING = Leading(
    term=1,
    settled=True,
    queues=(
        QueueFacts(
            namespace="default",
            kind=ACTIVITY,
            queue="q",
            queued=3,
            oldest_ms=40,
            leases=1,
            expired=2,
        ),
        QueueFacts(
            namespace="default",
            kind=WORKFLOW,
            queue="q",
            queued=0,
            oldest_ms=None,
            leases=0,
            expired=0,
        ),
    ),
    holdings=(
        Holding(namespace="default", kind=ACTIVITY, queue="q", worker="busy", node="n2", leases=1),
    ),
)


@dataclass
class Node:
    """The one port that these handlers ask."""

    said: Work
    wanted: Wanted | None = None

    @property
    def pollers(self) -> Node:
        return self

    async def work(self, wanted: Wanted) -> Work:
        self.wanted = wanted
        return self.said


async def rendered(answer: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(await encode_answer(answer))
    return shown


async def queues(work: Work) -> dict[str, Any]:
    return await rendered(await handlers.queues(Node(work), frozenset()))  # type: ignore[arg-type]


async def workers(work: Work) -> dict[str, Any]:
    return await rendered(await handlers.workers(Node(work), frozenset()))  # type: ignore[arg-type]


async def test_a_queue_is_what_the_leader_and_the_nodes_say_of_it() -> None:
    polling = (poller("w1"), poller("w2", node="n2"), poller("away", polls=0))
    shown = await queues(Work(pollers=polling, leading=LEADING))
    activity, workflow = shown["queues"]
    polled = {"types": [ANY_TYPE], "polls": 1, "since": timestamp(1_000)}
    assert activity == {
        "name": "q",
        "namespace": "default",
        "kind": ACTIVITY,
        "queued": 3,
        "oldest_ms": 40,
        "leases": 1,
        "expired_total": 2,
        "pollers": [
            {"node": "n1", "worker": "w1", **polled},
            {"node": "n2", "worker": "w2", **polled},
        ],
    }
    assert (workflow["kind"], workflow["pollers"]) == (WORKFLOW, [])
    assert shown["complete"] is True


async def test_a_queue_that_the_leader_does_not_know_is_empty() -> None:
    shown = await queues(Work(pollers=(poller("w", queue="new"),), leading=LEADING))
    (new,) = [each for each in shown["queues"] if each["name"] == "new"]
    assert (new["queued"], new["leases"], new["oldest_ms"]) == (0, 0, None)


async def test_without_a_leader_nobody_knows_what_is_queued() -> None:
    work = Work(pollers=(poller("w"),), leading=None, missing={"n3": "not connected"})
    shown = await queues(work)
    (only,) = shown["queues"]
    assert (only["queued"], only["leases"], only["expired_total"]) == (None, None, None)
    assert (shown["complete"], shown["missing"]) == (False, ["n3"])
    assert shown["reasons"] == {"n3": "not connected"}


async def test_workers_poll_or_hold_or_were_there_lately() -> None:
    polling = (poller("w1"), poller("w1", queue="r"), poller("away", polls=0))
    shown = await workers(Work(pollers=polling, leading=LEADING))
    rows = {(each["id"], each["node"]): each for each in shown["workers"]}
    assert rows["w1", "n1"]["queues"] == ["q", "r"]
    assert rows["w1", "n1"]["polls"] == 2
    assert rows["away", "n1"]["last_seen"] == timestamp(2_000)
    busy = rows["busy", "n2"]
    assert (busy["polls"], busy["leases"], busy["last_seen"]) == (0, 1, None)


async def test_without_a_leader_nobody_knows_the_leases() -> None:
    shown = await workers(Work(pollers=(poller("w"),), leading=None))
    assert shown["workers"][0]["leases"] is None


async def test_worker_ids_are_shown_as_given() -> None:
    shown = await workers(Work(pollers=(poller(HOSTILE),), leading=None))
    assert shown["workers"][0]["id"] == HOSTILE


async def test_only_namespaces_of_the_caller_are_asked_for() -> None:
    node = Node(Work(pollers=(), leading=None))
    await handlers.queues(node, frozenset({"shop"}))  # type: ignore[arg-type]
    assert node.wanted == Wanted(frozenset({"shop"}))
