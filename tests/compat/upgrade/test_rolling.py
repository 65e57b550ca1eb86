"""A cluster of a released version is upgraded node by node, under load: the first and the last
release in one order, or all of them in every one (UPGRADE_ORDERS=all, as `make campaigns` does)."""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dev_cluster import PROGRAM, HttpError, wait_for, workflow_path
from mixed_cluster import MixedCluster, mixed_cluster, stored_rows
from upgrade_load import load

from raftflow.engine.commands import FEATURE_LEVEL

pytestmark = pytest.mark.cluster

LEVELS = {"0.1.0": 1, "0.2.0": 2, "0.3.0": 3, "0.4.0": 4}
ORDERS = ["".join(order) for order in itertools.permutations("123")]
UPGRADES = [("0.1.0", "312"), ("0.4.0", "213")]
if os.environ.get("UPGRADE_ORDERS") == "all":
    UPGRADES = list(itertools.product(LEVELS, ORDERS))


def refused(cluster: MixedCluster, node_id: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(HttpError) as error:
        cluster.call(node_id, "POST", path, body)
    assert error.value.body["reason"] == "FEATURE_UNAVAILABLE", error.value
    assert error.value.status == 409
    assert error.value.body["code"] == "FAILED_PRECONDITION"
    return error.value.body


def nobody_to_remove(cluster: MixedCluster) -> bool:
    """Whether the cluster looks for the member at all."""
    with pytest.raises(HttpError) as error:
        cluster.call("n1", "DELETE", "/api/cluster/nodes/n9")
    return bool(error.value.body["reason"] == "NODE_NOT_FOUND")


def start_with_memo(cluster: MixedCluster, node_id: str, workflow_id: str) -> dict[str, Any]:
    body = {"type": "Memo", "workflow_id": workflow_id, "memo": {"a": 1}}
    answer: dict[str, Any] = cluster.call(node_id, "POST", "/api/workflows", body)
    return answer


def all_histories(cluster: MixedCluster, ids: list[str]) -> list[list[Any]]:
    """Of these runs, from each node."""
    return [
        [cluster.call(node, "GET", workflow_path(each, "/history")) for each in ids]
        for node in cluster.ids
    ]


@pytest.mark.parametrize(("release", "order"), UPGRADES)
def test_node_by_node(tmp_path: Path, release: str, order: str) -> None:
    old = LEVELS[release]
    with mixed_cluster(tmp_path / "cluster") as cluster:
        cluster.start_all(release)
        cluster.call("n1", "POST", "/api/workflow-types", {"workflow_types": ["Memo"]})
        with load(cluster, release) as work:
            work.progress()
            upgraded: list[str] = []
            for node_id in [f"n{each}" for each in order]:
                assert cluster.stop(node_id) == 0
                cluster.start(node_id)
                cluster.wait_ready(node_id)
                upgraded.append(node_id)
                work.progress()
                cluster.all_run()
                if node_id != f"n{order[-1]}" and old < 3:
                    body = {"id": "n9", "raft": "127.0.0.1:9"}
                    told = refused(cluster, node_id, "/api/cluster/nodes", body)
                    assert (told["needs_level"], told["level"]) == (3, old)
                if node_id != f"n{order[-1]}" and old < 4:
                    body = {"name": "t", "role": "viewer"}
                    told = refused(cluster, node_id, "/api/tokens", body)
                    assert (told["needs_level"], told["level"]) == (4, old)
                behind = [each for each in cluster.ids if each not in upgraded]
                if behind and old == 1:
                    body = {"type": "Memo", "workflow_id": "m", "memo": {"a": 1}}
                    told = refused(cluster, node_id, "/api/workflows", body)
                    assert (told["needs_level"], told["level"]) == (2, 1)
                    assert set(behind) <= set(told["held_back_by"])
                elif behind:
                    start_with_memo(cluster, node_id, f"m-{node_id}")
                    assert cluster.call(node_id, "GET", "/api/cluster")["feature_level"] == old
            for node_id in cluster.ids:
                state = cluster.call(node_id, "GET", "/api/cluster")
                assert state["feature_level"] == FEATURE_LEVEL
                start_with_memo(cluster, node_id, f"all-{node_id}")
            wait_for("members can be changed", lambda: nobody_to_remove(cluster))
            work.progress()
            work.stop_starting()
            work.check()
        cluster.wait_equal()
        first, *others = all_histories(cluster, work.signalled)
        assert all(each == first for each in others)
        cluster.all_run()
        assert [cluster.stop(node_id) for node_id in cluster.ids] == [0, 0, 0]
        rows, *rest = [stored_rows(cluster.data_dir(node_id)) for node_id in cluster.ids]
        assert rows["events"]
        assert all(each == rows for each in rest)


@contextmanager
def started_again(cluster: MixedCluster) -> Iterator[None]:
    """Whoever ends is started in the release under test, as by a supervisor that found it there."""
    stopping = threading.Event()

    def run() -> None:
        while not stopping.wait(0.05):
            for node_id, process in list(cluster.processes.items()):
                if process.poll() is not None:
                    cluster.start(node_id)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def test_by_one_command(tmp_path: Path) -> None:
    with mixed_cluster(tmp_path / "cluster") as cluster:
        cluster.start_all("0.4.0")
        pids = {each: process.pid for each, process in cluster.processes.items()}
        kill = "; ".join(f"[ $NODE = {each} ] && kill {pid}" for each, pid in pids.items())
        cluster.call("n1", "POST", "/api/workflow-types", {"workflow_types": ["Memo"]})
        with load(cluster, "0.4.0") as work, started_again(cluster):
            work.progress()
            done = subprocess.run(
                [*PROGRAM, "cluster", "restart", "--each", f"{kill}; true"],
                env={**os.environ, "RAFTFLOW_ADDRESS": ",".join(map(cluster.http, cluster.ids))},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert done.stdout.count("well again") == 3
            work.progress()
            work.stop_starting()
            work.check()
        assert all(cluster.processes[each].pid != pid for each, pid in pids.items())
        cluster.all_run()
        cluster.wait_equal()
