"""The saga in processes of its own, one node at a time, and across a leader kill: not a word of
complaint from the client."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import workflowd
from dev_cluster import DevCluster, wait_for

pytestmark = pytest.mark.cluster

SCRIPT = Path(__file__).with_name("saga.py")


@contextlib.contextmanager
def saga_worker(output_file: Path, addresses: list[str]) -> Iterator[None]:
    with output_file.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *addresses], stdout=output, stderr=output
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def client(cluster: DevCluster, node_id: str) -> "workflowd.Worker":
    return workflowd.Worker(address=cluster.addresses(node_id)[0])


def closed(client: "workflowd.Worker", workflow_id: str) -> dict:
    return wait_for(
        f"{workflow_id} closed",
        lambda: (
            run
            if (run := client.describe(workflow_id))["status"] not in ("RUNNING", "WAITING")
            else None
        ),
        timeout=60,
    )


def test_the_saga_through_any_node(cluster: DevCluster, tmp_path: Path) -> None:
    for node_id in cluster.ids():
        with saga_worker(tmp_path / "out", cluster.addresses(node_id)):
            through = client(cluster, node_id)
            good, bad = f"good@{node_id}", f"declined/{node_id} é"
            wait_for("the type is registered", lambda g=good, t=through: started(t, g))
            assert through.start("CompatSaga", bad, bad)["started"]
            for workflow_id in (good, bad):
                through.signal(workflow_id, "approved", "yes", request_id="once")
                through.signal(workflow_id, "approved", "yes", request_id="once")
            run = closed(through, good)
            assert run["status"] == "COMPLETED"
            assert run["output"] == f"shipped(reserved({good}))"
            run = closed(through, bad)
            assert run["status"] == "FAILED"
            assert run["error"] == "charge failed: card declined"
            assert run["steps"][3]["attempts"] == 3
            assert [r["run_id"] for r in through.runs(good)] == [through.describe(good)["run_id"]]


def started(through: "workflowd.Worker", workflow_id: str) -> bool:
    try:
        through.start("CompatSaga", workflow_id, workflow_id)
    except Exception as error:
        if getattr(error, "status", 0) not in (400, 409):
            raise
        return getattr(error, "status", 0) == 409
    return True


def test_the_saga_across_a_killed_leader(cluster: DevCluster, tmp_path: Path) -> None:
    leader = cluster.leader()
    # It works through one node at a time, the first that answers: a follower here. What is on its
    # way to this client in the moment its own node dies sits out the lease.
    with saga_worker(tmp_path / "out", cluster.addresses(*cluster.followers(), leader)):
        survivor = client(cluster, cluster.followers()[0])
        ids = [f"cross-{number}" for number in range(20)]
        wait_for("the type is registered", lambda: started(survivor, ids[0]))
        for workflow_id in ids[1:]:
            survivor.start("CompatSaga", workflow_id, workflow_id)
        cluster.kill(leader)
        for workflow_id in ids:
            survivor.signal(workflow_id, "approved", "yes")
        for workflow_id in ids:
            run = closed(survivor, workflow_id)
            assert (run["status"], run.get("error")) == ("COMPLETED", None), run
    cluster.start_node(leader)
    cluster.wait_all_serve()
    assert (tmp_path / "out").read_text() == ""
