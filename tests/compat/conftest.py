"""One cluster for all tests here, workers of the unmodified PyPI client on each of its nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

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


# What all tests here share. pytest would keep it to its own end: nodes, workers and a hook that
# sees every call, beside all tests of other folders.
_shared = ExitStack()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path.parent != Path(__file__).parent:
        _shared.close()


@pytest.fixture(scope="session", autouse=True)
def exercised() -> Exercised:
    return _shared.enter_context(Exercised())


@pytest.fixture(scope="session")
def spans() -> OtlpReceiver:
    receiver = OtlpReceiver()
    _shared.callback(receiver.close)
    return receiver


@pytest.fixture(scope="session")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, exercised: Exercised, spans: OtlpReceiver
) -> DevCluster:
    environment = {**ENVIRONMENT, "RAFTFLOW_OTLP_ENDPOINT": spans.endpoint}
    directory = tmp_path_factory.mktemp("compat") / "cluster"
    return _shared.enter_context(dev_cluster(directory, environment=environment))


@pytest.fixture(scope="session")
def workers(cluster: DevCluster) -> list[workflowd.Worker]:
    """One on each node, all with all workflows: whose poll gets a task is chance."""
    return _shared.enter_context(_workers(cluster))


@contextmanager
def _workers(cluster: DevCluster) -> Iterator[list[workflowd.Worker]]:
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
    try:
        yield started
    finally:
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

    def wait(workflow_id: str, run_id: str = "", timeout: float = 120.0) -> dict:
        def closed() -> dict | None:
            run = through().describe(workflow_id, run_id)
            return run if "closed_at" in run and _last(run, run_id) else None

        return wait_for(f"{workflow_id} closed", closed, timeout=timeout)

    return wait


def _last(run: dict, run_id: str) -> bool:
    return bool(run_id) or run["status"] != "CONTINUED_AS_NEW"
