"""The conformance scenarios on three real nodes, whose leader is killed in the middle."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import conformance
import pytest
from conformance_cluster import Fleet, OnCluster
from conformance_code import IMPLEMENTATIONS
from dev_cluster import DevCluster, dev_cluster, wait_for

# In real time, many at once.
AT_ONCE = 24

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_all_scenarios_with_the_leader_killed_in_the_middle(
    implementation: str, tmp_path: Path
) -> None:
    played = [each for each in conformance.scenarios() if not each.document.get("needs")]
    with dev_cluster(tmp_path / "cluster") as cluster:
        fleet = Fleet(cluster, implementation, played)
        with fleet.worker:
            failures = _play_all(fleet, cluster)
    told = json.dumps(failures, indent=1)
    assert not failures, f"{told}\n{cluster.logs()}"


def _play_all(fleet: Fleet, cluster: DevCluster) -> dict[str, Any]:
    failures: dict[str, Any] = {}
    played: list[str] = []
    lock = threading.Lock()

    def play(prefix: str) -> None:
        stage = OnCluster(fleet, prefix)
        try:
            conformance.play(fleet.scenarios[prefix], stage)
        except Exception as error:  # noqa: BLE001 - all failures are told together
            failures[prefix] = {"error": f"{type(error).__name__}: {error}", **stage.story()}
        with lock:
            played.append(prefix)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for prefix in fleet.scenarios:
            pool.submit(play, prefix)
        third = len(fleet.scenarios) // 3
        wait_for("a third is played", lambda: len(played) >= third, timeout=120)
        leader = cluster.leader()
        cluster.kill(leader)
        cluster.leader(other_than=leader)
        cluster.start_node(leader)
    assert len(played) == len(fleet.scenarios)
    return failures
