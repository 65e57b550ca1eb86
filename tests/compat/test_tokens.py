"""A node that asks for tokens: with and without a namespace of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import workflowd
from dev_cluster import DevCluster, call, dev_cluster, wait_for

from tests.compat.test_runs import _closed, refused

pytestmark = pytest.mark.cluster

ADMIN = "of-the-operators-themselves"
TEAM = "of-one-team-and-no-other"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    directory: Path = tmp_path_factory.mktemp("guarded")
    tokens = directory / "tokens"
    tokens.write_text(f"{ADMIN}\n{TEAM} namespace=team\n")
    environment = {"RAFTFLOW_AUTH_TOKEN_FILE": str(tokens)}
    with dev_cluster(directory / "cluster", nodes=1, environment=environment) as running:
        yield running


def test_tokens_with_and_without_a_namespace(guarded: DevCluster) -> None:
    address = guarded.addresses()[0]
    for token in (None, "of-nobody-at-all"):
        with refused(401):
            workflowd.Worker(address, token=token).describe("x")
    with refused(403):
        workflowd.Worker(address, token=TEAM, namespace="default").describe("x")
    assert call(guarded.http("n1"), "GET", "/api/health")["status"]

    admin = workflowd.Worker(address, token=ADMIN)
    admin.conn.request("POST", "/api/namespaces", {"name": "team"})
    team = workflowd.Worker(address, token=TEAM)  # the token says which namespace
    team.workflow("Work")(lambda ctx: ctx.activity("do", ctx.input))
    team.activity("do")(str.upper)
    team.run(block=False)
    try:
        wait_for("it is registered", lambda: team._registered_epoch == team.conn.epoch)
        team.start("Work", "done", "w")
        run = wait_for("it ends", lambda: _closed(team, "w"))
    finally:
        team.stop()
    assert run["output"] == "DONE"
    assert workflowd.Worker(address, token=ADMIN, namespace="team").describe("w") == run
    with refused(404):
        admin.describe("w")
    log = (guarded.directory / "n1.log").read_text()
    assert ADMIN not in log
    assert TEAM not in log
