"""The client's own ways: its pure decide, how it serves and stops, nodes that are away."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest
import workflowd
from dev_cluster import DevCluster, wait_for
from ports import free_ports

pytestmark = pytest.mark.cluster

Through = Callable[[], workflowd.Worker]
Ended = Callable[..., dict]


def test_a_task_is_decided_by_a_pure_function(through: Through, ended: Ended) -> None:
    client = through()
    code = lambda ctx: ctx.input + ctx.activity("square", "4")  # noqa: E731
    client.workflow("ByHand")(code)
    client.register()
    client.start("ByHand", "it is ", "by-hand")
    for expected in ("schedule_activity", "complete_workflow"):
        task = client.conn.request("GET", "/api/workflow-tasks?types=ByHand&worker_id=hand")
        decision = workflowd.decide(code, task)
        assert [command["type"] for command in decision["commands"]] == [expected]
        answer = {"workflow_id": "by-hand", "task_token": task["task_token"], **decision}
        for _ in range(2):  # the same again is as good
            through().conn.request("POST", "/api/workflow-tasks/complete", answer)
    assert ended("by-hand")["output"] == "it is 16"


def test_a_worker_serves_until_it_is_stopped(cluster: DevCluster, ended: Ended) -> None:
    dead = f"http://127.0.0.1:{free_ports(1)[0]}"
    worker = workflowd.Worker(addresses=[dead, *cluster.addresses()], workflow_concurrency=1)
    worker.workflow("Briefly")(lambda ctx: json.dumps([ctx.workflow_id, ctx.run_id, ctx.input]))
    serving = threading.Thread(target=worker.run)
    serving.start()
    wait_for("it found a node that lives", lambda: worker.address != dead)
    wait_for("it is registered", lambda: worker._registered_epoch == worker.conn.epoch)
    run_id = worker.start("Briefly", "x", "briefly")["run_id"]
    assert json.loads(ended("briefly")["output"]) == ["briefly", run_id, "x"]
    worker.stop()
    serving.join(5)
    assert not serving.is_alive()
