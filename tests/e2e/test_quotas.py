"""A quota is the cluster's: whichever nodes take the starts, and after all of them have died."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from dev_cluster import DevCluster, HttpError, wait_for, workflow_path

from raftflow_sdk import Client

pytestmark = pytest.mark.cluster

BOUND = 7


def start(cluster: DevCluster, node: str, workflow_id: str) -> int:
    """The status of the answer."""
    body = {"type": "Order", "workflow_id": workflow_id, "request_id": f"start {workflow_id}"}
    try:
        cluster.call(node, "POST", "/api/workflows", body)
    except HttpError as error:
        if (error.body["reason"], error.body["limit"]) != ("QUOTA_EXCEEDED", "max_open_runs"):
            raise
        return error.status
    return 201


def test_a_quota_holds_over_all_nodes_and_their_deaths(cluster: DevCluster) -> None:
    ids = cluster.ids()
    client = Client(cluster.addresses())
    cluster.call(ids[0], "POST", "/api/workflow-types", {"workflow_types": ["Order"]})
    client.set_namespace_quota("default", max_open_runs=BOUND)

    def attempt(number: int) -> int:
        return start(cluster, ids[number % 3], f"order-{number}")

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(attempt, range(30)))
    assert sorted(answers) == [201] * BOUND + [429] * (30 - BOUND)

    cluster.kill(*ids)
    for node in ids:
        cluster.start_node(node)
    cluster.wait_all_serve()
    for node in ids:
        assert start(cluster, node, f"late at {node}") == 429

    begun = answers.index(201)
    refused = answers.index(429)
    cluster.call(ids[1], "POST", workflow_path(f"order-{begun}", "/terminate"), {"reason": "room"})
    assert start(cluster, ids[2], f"order-{refused}") == 201  # by the request id that was refused
    assert start(cluster, ids[0], "one more") == 429
    wait_for("all nodes agree", lambda: agreed(cluster))

    client.set_namespace_quota("default")
    assert start(cluster, ids[0], "one more") == 201


def agreed(cluster: DevCluster) -> bool:
    """The digests of the nodes, at one index."""
    rows: list[dict[str, Any]] = cluster.call(cluster.ids()[0], "GET", "/api/cluster")["nodes"]
    seen = {(row["applied_index"], row["state_digest"]) for row in rows}
    return len(seen) == 1
