"""Runs of every kind are under way on all nodes when the leader is killed: none of them notices."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import workflowd
from dev_cluster import DevCluster, wait_for

from tests.compat.test_steps import waits_for
from tests.compat.workflows import seen

pytestmark = pytest.mark.cluster

Ended = Callable[..., dict]
Through = Callable[[], workflowd.Worker]


def test_everything_across_a_killed_leader(
    cluster: DevCluster, workers: list, through: Through, ended: Ended
) -> None:
    cluster.wait_all_serve()
    client = workflowd.Worker(addresses=cluster.addresses(*cluster.followers()))
    anywhere = lambda: client  # noqa: E731
    order = {"id": 1, "card": "good", "good_at": 2}
    for n in range(4):
        client.start("Saga", order, f"lost/saga-{n}")
        client.start("Countdown", 4, f"lost/chain-{n}")
        client.start("FanOut", "20", f"lost/fan-{n}")
    client.start("LateSignal", "", "lost/late")
    client.start("Compensating", "", "lost/cancel")
    client.start("Holding", "", "lost/holding")
    client.start("Clock", "", "lost/clock")
    waits_for(anywhere, "lost/late", "SIGNAL", "second")
    wait_for(
        "the activities are out", lambda: seen["lost/cancel/hold"] and seen["lost/holding/hold"]
    )
    leader = cluster.leader()
    cluster.kill(leader)
    client.signal("lost/late", "go", 1, request_id="s1")
    client.signal("lost/late", "go", 1, request_id="s1")
    client.signal("lost/late", "go", "two")
    client.cancel("lost/cancel", "now", graceful=True)
    client.cancel("lost/holding", "now")
    for n in range(4):
        client.start("Echo", "x", f"text:lost-{n}")
        client.signal(f"text:lost-{n}", "go", "x")

    def end(workflow_id: str) -> dict:
        def closed() -> dict | None:
            run = client.describe(workflow_id)
            open_still = "closed_at" not in run or run["status"] == "CONTINUED_AS_NEW"
            return None if open_still else run

        return wait_for(f"{workflow_id} closed", closed)

    for n in range(4):
        assert json.loads(end(f"lost/saga-{n}")["output"])["sent"] == "sent 1"
        assert end(f"lost/chain-{n}")["output"].startswith("done in")
        assert len(client.runs(f"lost/chain-{n}")) == 5
        assert json.loads(end(f"lost/fan-{n}")["output"]) == [k * k for k in range(20)]
        assert end(f"text:lost-{n}")["output"] == "x"
    assert json.loads(end("lost/late")["output"]) == [None, 1, "two"]
    assert end("lost/cancel")["status"] == end("lost/holding")["status"] == "CANCELLED"
    assert end("lost/clock")["status"] == "COMPLETED"
    assert len(set(map(str, seen["lost/clock"]))) == 1
    told = ["begun", ("cancelled", True)]
    for name in ("lost/cancel/hold", "lost/holding/hold"):
        wait_for("the activity was told", lambda name=name: seen[name] == told)
    cluster.start_node(leader)
    cluster.wait_all_serve()
