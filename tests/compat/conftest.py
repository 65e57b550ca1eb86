"""One cluster for all tests here, workers of the unmodified PyPI client on each of its nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
import workflowd
from dev_cluster import DevCluster, dev_cluster, wait_for
from otlp_receiver import OtlpReceiver

from tests.compat import workflows
from tests.compat.surface import Exercised

ENVIRONMENT = {
    "RAFTFLOW_LEASE_MS": "4s",  # beats come at a third of it: how soon an activity hears
    "RAFTFLOW_LIMITS_SUGGEST_CONTINUE_AS_NEW_AT": "20",
}

_turn = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def exercised() -> Iterator[Exercised]:
    with Exercised() as noting:
        yield noting


@pytest.fixture(scope="session")
def spans() -> Iterator[OtlpReceiver]:
    receiver = OtlpReceiver()
    yield receiver
    receiver.close()


@pytest.fixture(scope="session")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, exercised: Exercised, spans: OtlpReceiver
) -> Iterator[DevCluster]:
    environment = {**ENVIRONMENT, "RAFTFLOW_OTLP_ENDPOINT": spans.endpoint}
    directory = tmp_path_factory.mktemp("compat") / "cluster"
    with dev_cluster(directory, environment=environment) as running:
        yield running


@pytest.fixture(scope="session")
def workers(cluster: DevCluster) -> Iterator[list[workflowd.Worker]]:
    """One on each node, all with all workflows: whose poll gets a task is chance."""
    ids = cluster.ids()
    started = [
        workflows.define(
            workflowd.Worker(
                # Its own node first; the others for when it dies.
                addresses=cluster.addresses(node_id, *[each for each in ids if each != node_id]),
                worker_id=f"worker@{node_id}",
                sdk="python/compat",
                activity_concurrency=8,
                workflow_concurrency=3,
            )
        )
        for node_id in ids
    ]
    for worker in started:
        worker.run(block=False)
    yield started
    for worker in started:
        worker.stop()


@pytest.fixture
def through(cluster: DevCluster, workers: list[workflowd.Worker]) -> Callable[[], workflowd.Worker]:
    """A client of the next node, a different one at each call."""
    ids = cluster.ids()
    return lambda: workflowd.Worker(address=cluster.addresses(ids[next(_turn) % len(ids)])[0])


@pytest.fixture
def ended(through: Callable[[], workflowd.Worker]) -> Callable[..., dict]:
    """The run once it is closed, as some node tells it."""

    def wait(workflow_id: str, run_id: str = "", timeout: float = 30.0) -> dict:
        def closed() -> dict | None:
            run = through().describe(workflow_id, run_id)
            return run if "closed_at" in run and _last(run, run_id) else None

        return wait_for(f"{workflow_id} closed", closed, timeout=timeout)

    return wait


def _last(run: dict, run_id: str) -> bool:
    return bool(run_id) or run["status"] != "CONTINUED_AS_NEW"
