"""What `why` says when a node of an older release is among the others, on real nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dev_cluster import wait_for
from mixed_cluster import MixedCluster, mixed_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def links(cluster: MixedCluster, asked: str, subject: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.call(asked, "GET", f"/api/why/{subject}")["links"]
    return found


def gate(cluster: MixedCluster) -> dict[str, Any] | None:
    chain = links(cluster, "n1", "node/n3")
    beside = [*chain, *chain[0]["evidence"].get("also", [])]
    return next((each for each in beside if each["cause"] == "version_gate"), None)


def test_an_older_release_holds_the_level_back_until_it_is_upgraded(tmp_path: Path) -> None:
    with mixed_cluster(tmp_path / "cluster") as cluster:
        for node in ("n1", "n2"):
            cluster.start(node)
        cluster.start("n3", "0.2.0")
        for node in cluster.ids:
            cluster.wait_serving(node)
        found = wait_for("the gate is named", lambda: gate(cluster), timeout=90)
        assert "n3" in found["says"]
        assert "finish the upgrade" in found["next"]
        for subject in ("leader", "log"):  # a node that tells less is no trouble
            assert links(cluster, "n1", subject)
        cluster.stop("n3")
        cluster.start("n3")
        cluster.wait_serving("n3")
        wait_for("nobody holds it back", lambda: gate(cluster) is None, timeout=90)
