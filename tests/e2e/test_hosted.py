"""The built-in saga: any node decides for it, with no workflow worker anywhere."""

import pytest
from dev_cluster import DevCluster, wait_for

from raftflow_sdk import Client, Worker

pytestmark = pytest.mark.cluster


def test_the_saga_parks_without_a_worker_and_completes_with_activities_alone(
    cluster: DevCluster,
) -> None:
    client = Client([cluster.http(node) for node in cluster.ids()])
    client.start("OrderSaga", workflow_id="order-1", input="order-1")

    def parked() -> bool:
        run = client.describe("order-1")
        steps = [(step["step_name"], step["status"]) for step in run["steps"]]
        return steps == [("reserve", "SCHEDULED")] and run["status"] == "WAITING"

    wait_for("the saga waits for a worker", parked)
    cluster.kill(cluster.leader())
    worker = Worker([cluster.http(node) for node in cluster.followers()])
    for name in ("reserve", "charge", "ship"):
        worker.activity(name)(lambda text, name=name: f"{name} {text}")
    with worker:
        client.signal("order-1", "approved", "yes")
        assert client.result("order-1", wait=20) == "ship reserve order-1"
    assert all(step.get("attempts", 0) <= 1 for step in client.describe("order-1")["steps"])
