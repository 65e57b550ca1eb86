"""What `why` says when a node of an older release is among the others, on real nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dev_cluster import HttpError, wait_for
from mixed_cluster import MixedCluster, mixed_cluster

ORDER = {"type": "Order", "workflow_id": "order-1", "search_attributes": {"city": "Rome"}}

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def links(cluster: MixedCluster, asked: str, subject: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.call(asked, "GET", f"/api/why/{subject}")["links"]
    return found


def gate(cluster: MixedCluster) -> dict[str, Any] | None:
    chain = links(cluster, "n1", "node/n3")
    beside = [*chain, *chain[0]["evidence"].get("also", [])]
    return next((each for each in beside if each["cause"] == "version_gate"), None)


def refused_for_it(cluster: MixedCluster) -> None:
    """What an older release would not understand is not started, and `why` says so at any node."""
    cluster.call("n1", "POST", "/api/workflow-types", {"workflow_types": ["Order"]})
    with pytest.raises(HttpError, match="FEATURE_UNAVAILABLE"):
        cluster.call("n1", "POST", "/api/workflows", ORDER)
    absent, gated = links(cluster, "n2", f"run/{ORDER['workflow_id']}")
    assert (absent["cause"], gated["cause"]) == ("no_such_run", "version_gate")
    assert gated["evidence"]["node"] == "n1"
    assert "n3" in gated["evidence"]["message"]
    # Who cannot tell who polls there is named.
    cluster.call("n1", "POST", "/api/workflows", {"type": "Order", "workflow_id": "plain"})
    chain = links(cluster, "n2", "run/plain")
    assert chain[-1]["cause"] == "no_poller"
    assert chain[-1]["evidence"]["not_heard"].keys() == {"n3"}


def test_an_older_release_holds_the_level_back_until_it_is_upgraded(tmp_path: Path) -> None:
    with mixed_cluster(tmp_path / "cluster") as cluster:
        cluster.start("n3", "0.1.0")
        cluster.start("n1")
        cluster.wait_serving("n1")  # so that no entry is written before the old one is heard of
        cluster.start("n2")
        for node in cluster.ids:
            cluster.wait_serving(node)
        found = wait_for("the gate is named", lambda: gate(cluster), timeout=90)
        assert "n3" in found["says"]
        assert "finish the upgrade" in found["next"]
        for subject in ("leader", "log"):  # a node that tells less is no trouble
            assert links(cluster, "n1", subject)
        refused_for_it(cluster)
        cluster.stop("n3")
        cluster.start("n3")
        cluster.wait_serving("n3")
        wait_for("nobody holds it back", lambda: gate(cluster) is None, timeout=90)
        cluster.call("n1", "POST", "/api/workflows", ORDER)
        chain = links(cluster, "n2", f"run/{ORDER['workflow_id']}")
        assert [each["cause"] for each in chain] == ["run_waits", "task_queued", "no_poller"]
        assert "not_heard" not in chain[-1]["evidence"]
