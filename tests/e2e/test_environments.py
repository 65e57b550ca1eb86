"""Nodes that differ in everything that Python takes from its surroundings stay equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from mixed_cluster import MixedCluster, mixed_cluster, stored_rows
from upgrade_load import load

pytestmark = pytest.mark.cluster

SURROUNDINGS = {
    "n1": {
        "PYTHONHASHSEED": "0",
        "TZ": "Asia/Kathmandu",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONINTMAXSTRDIGITS": "640",
    },
    "n2": {
        "PYTHONHASHSEED": "4242",
        "TZ": "America/St_Johns",
        "LC_ALL": "C.UTF-8",
        "PYTHONINTMAXSTRDIGITS": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    },
    "n3": {
        "PYTHONHASHSEED": "random",
        "TZ": "UTC",
        "LC_ALL": "tr_TR.UTF-8",
        "LANG": "tr_TR.UTF-8",
        "PYTHONUTF8": "1",
        "PYTHONMALLOC": "malloc",
    },
}


def start(cluster: MixedCluster, node_id: str, workflow_id: str) -> None:
    body = {
        "type": "Größe İı ✓",
        "workflow_id": workflow_id,
        "input": "\u0130\u0131 \U0001f680",
        "search_attributes": {f"a{n}": f"ß{n}" for n in range(20)} | {"zahl": 12.5},
        "memo": {f"m{n}": "İ" for n in range(20)} | {"digits": 10**600},
    }
    cluster.call(node_id, "POST", "/api/workflows", body)


def test_three_nodes_in_three_surroundings(tmp_path: Path) -> None:
    with mixed_cluster(tmp_path / "cluster", own=SURROUNDINGS) as cluster:
        cluster.start_all()
        cluster.call("n1", "POST", "/api/workflow-types", {"workflow_types": ["Größe İı ✓"]})
        with load(cluster) as work:
            for leader in cluster.ids:
                cluster.make_lead(leader)
                for node_id in cluster.ids:
                    start(cluster, node_id, f"{leader}-{node_id} ✓")
                work.progress()
            work.stop_starting()
            work.check()
        cluster.wait_equal()
        for node_id in cluster.ids:
            assert cluster.gauge(node_id, "workflowd_state_digest_disputes") == 0
            assert cluster.gauge(node_id, "workflowd_state_digest_compared_index") > 0
        assert [cluster.stop(node_id) for node_id in cluster.ids] == [0, 0, 0]
        rows, *rest = [stored_rows(cluster.data_dir(node_id)) for node_id in cluster.ids]
        assert rows["runs"]
        assert all(each == rows for each in rest)
