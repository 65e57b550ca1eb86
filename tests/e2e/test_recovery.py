"""All three nodes die at the same moment; a run goes on exactly where it was."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from dev_cluster import DevCluster, HttpError, dev_cluster, wait_for, workflow_path
from workers import WorkerProcess, worker_process

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DevCluster, WorkerProcess]]:
    """One cluster and one worker for all: each test kills every node once."""
    directory = tmp_path_factory.mktemp("recovery")
    settings = {"RAFTFLOW_LEASE_MS": "8000", "RAFTFLOW_DECISION_TIMEOUT_MS": "2000"}
    with (
        dev_cluster(directory / "cluster", environment=settings) as cluster,
        worker_process(directory, cluster.addresses()) as worker,
    ):
        wait_for("types are registered", lambda: registered(cluster))
        yield cluster, worker


def registered(cluster: DevCluster) -> bool:
    try:
        start(cluster, "Quick", "probe")
    except HttpError as error:
        return error.status == 409
    return True


def start(cluster: DevCluster, kind: str, workflow_id: str) -> None:
    cluster.call(
        cluster.ids()[0],
        "POST",
        "/api/workflows",
        {"type": kind, "workflow_id": workflow_id, "input": workflow_id},
    )


def kill_all_and_restart(cluster: DevCluster) -> None:
    cluster.kill(*cluster.ids())
    for node_id in cluster.ids():
        cluster.start_node(node_id)
    cluster.wait_all_serve()


def finish(cluster: DevCluster, workflow_id: str) -> dict[str, Any]:
    return cluster.wait_status(cluster.ids()[1], workflow_id, "COMPLETED", "FAILED")


def step(cluster: DevCluster, workflow_id: str, sequence: int) -> dict[str, Any] | None:
    steps = cluster.describe(cluster.ids()[0], workflow_id)["steps"]
    return steps[sequence - 1] if len(steps) >= sequence else None


def test_killed_at_step_three_of_five_it_resumes_there(
    shared: tuple[DevCluster, WorkerProcess],
) -> None:
    cluster, worker = shared
    worker.close_gate()
    start(cluster, "FiveSteps", "five")
    wait_for("step three runs", lambda: worker.calls()["hold five"] == 1)
    kill_all_and_restart(cluster)
    worker.open_gate()
    run = finish(cluster, "five")
    assert (run["status"], run["output"]) == ("COMPLETED", "five")
    for name in ("one", "two", "hold", "four", "five"):
        assert worker.calls()[f"{name} five"] == 1, "a recorded step ran again"


def test_killed_while_waiting_on_an_activity(shared: tuple[DevCluster, WorkerProcess]) -> None:
    cluster, worker = shared
    worker.close_gate()
    start(cluster, "Waiter", "act")
    wait_for("the activity runs", lambda: worker.calls()["hold act"] == 1)
    kill_all_and_restart(cluster)
    attempt = step(cluster, "act", 1)
    assert attempt is not None
    assert (attempt["status"], attempt["attempts"]) == ("SCHEDULED", 1)
    worker.open_gate()
    cluster.call(
        cluster.ids()[0],
        "POST",
        workflow_path("act", "/signal"),
        {"name": "go", "payload": "on"},
    )
    assert finish(cluster, "act")["output"] == "act:on"


def test_a_timer_that_came_due_while_all_were_down_fires_at_once(
    shared: tuple[DevCluster, WorkerProcess],
) -> None:
    cluster, worker = shared
    start(cluster, "Sleeper", "timer")
    armed = wait_for("the timer is armed", lambda: step(cluster, "timer", 2))
    assert armed["kind"] == "TIMER"
    cluster.kill(*cluster.ids())
    wait_for_wall_clock(3.2)
    for node_id in cluster.ids():
        cluster.start_node(node_id)
    cluster.wait_all_serve()
    run = finish(cluster, "timer")
    assert run["status"] == "COMPLETED"
    assert worker.calls()["one timer"] == worker.calls()["two timer"] == 1


def wait_for_wall_clock(seconds: float) -> None:
    """Let a due time pass that only the wall clock brings."""
    import time

    due = time.monotonic() + seconds
    wait_for("the due time has passed", lambda: time.monotonic() > due)


def test_a_buffered_signal_is_still_there(shared: tuple[DevCluster, WorkerProcess]) -> None:
    cluster, worker = shared
    worker.close_gate()
    start(cluster, "Waiter", "buffered")
    wait_for("the activity runs", lambda: worker.calls()["hold buffered"] == 1)
    cluster.call(
        cluster.ids()[2],
        "POST",
        workflow_path("buffered", "/signal"),
        {"name": "go", "payload": "kept ✓"},
    )
    kill_all_and_restart(cluster)
    worker.open_gate()
    assert finish(cluster, "buffered")["output"] == "buffered:kept ✓"


def test_killed_in_the_middle_of_a_decision(shared: tuple[DevCluster, WorkerProcess]) -> None:
    cluster, _ = shared
    cluster.call(
        cluster.ids()[0],
        "POST",
        "/api/workflow-types",
        {"workflow_types": ["ByHand"], "worker_id": "hand"},
    )
    start(cluster, "ByHand", "decision")
    task = cluster.call(cluster.ids()[0], "GET", "/api/workflow-tasks?types=ByHand&worker_id=hand")
    assert task["workflow_id"] == "decision"
    kill_all_and_restart(cluster)
    answer = {
        "workflow_id": "decision",
        "task_token": task["task_token"],
        "command": {"type": "complete_workflow", "output": "by hand"},
    }
    # Its deadline of two seconds may strike first: then it is handed out again.
    if not completes(cluster, answer):
        again = cluster.call(
            cluster.ids()[1], "GET", "/api/workflow-tasks?types=ByHand&worker_id=hand"
        )
        assert completes(cluster, {**answer, "task_token": again["task_token"]})
    assert finish(cluster, "decision")["output"] == "by hand"


def completes(cluster: DevCluster, answer: dict[str, Any]) -> bool:
    try:
        cluster.call(cluster.ids()[1], "POST", "/api/workflow-tasks/complete", answer)
    except HttpError as error:
        if error.status != 409:
            raise
        return False
    return True


def test_killed_in_a_retry_backoff(shared: tuple[DevCluster, WorkerProcess]) -> None:
    cluster, worker = shared
    start(cluster, "Retrier", "flaky")
    wait_for("the first attempt failed", lambda: worker.calls()["flaky flaky"] == 1)
    wait_for("the step backs off", lambda: backs_off(cluster.describe("n1", "flaky")))
    kill_all_and_restart(cluster)
    run = finish(cluster, "flaky")
    assert run["status"] == "COMPLETED"
    assert run["steps"][0]["attempts"] == worker.calls()["flaky flaky"] == 2


def backs_off(run: dict[str, Any]) -> bool:
    return any("after a pause" in wait["detail"] for wait in run["waiting_on"])


def test_a_closed_run_stays_as_it_was(shared: tuple[DevCluster, WorkerProcess]) -> None:
    cluster, worker = shared
    start(cluster, "Quick", "closed")
    before = finish(cluster, "closed")
    history = [
        cluster.call(node_id, "GET", workflow_path("closed", "/history"))
        for node_id in cluster.ids()
    ]
    kill_all_and_restart(cluster)
    assert cluster.describe("n2", "closed") == before
    again = [
        cluster.call(node_id, "GET", workflow_path("closed", "/history"))
        for node_id in cluster.ids()
    ]
    assert again == history
    assert worker.calls()["one closed"] == 1


def test_two_dead_nodes_and_one_back(shared: tuple[DevCluster, WorkerProcess]) -> None:
    cluster, _ = shared
    survivor = cluster.followers()[0]
    dead = [node_id for node_id in cluster.ids() if node_id != survivor]
    start(cluster, "Quick", "quorum")
    finish(cluster, "quorum")
    cluster.kill(*dead)
    body = {"type": "Quick", "workflow_id": "alone", "request_id": "alone"}

    def refused(method: str, path: str, payload: dict[str, Any] | None = None) -> None:
        with pytest.raises(HttpError) as refusal:
            cluster.call(survivor, method, path, payload, timeout=10)
        assert refusal.value.status == 503
        assert refusal.value.body["code"] == "UNAVAILABLE"
        assert refusal.value.body["maybe_applied"] is False

    with ThreadPoolExecutor() as pool:
        calls = (
            pool.submit(refused, "POST", "/api/workflows", body),
            pool.submit(refused, "GET", workflow_path("quorum")),
            pool.submit(refused, "GET", workflow_path("quorum", "/history")),
        )
    for call in calls:
        call.result()
    cluster.start_node(dead[0])
    cluster.call(survivor, "POST", "/api/workflows", body)
    assert finish(cluster, "alone")["status"] == "COMPLETED"
    cluster.start_node(dead[1])
    cluster.leader()


def test_a_leader_that_lost_its_majority_says_maybe(
    shared: tuple[DevCluster, WorkerProcess],
) -> None:
    """Proposed, and the followers are frozen: the honest answer is "maybe"."""
    cluster, _ = shared
    leader = cluster.leader()
    followers = cluster.followers()
    for node_id in followers:
        cluster.signal(node_id, signal.SIGSTOP)
    try:
        with pytest.raises(HttpError) as refused:
            cluster.call(
                leader,
                "POST",
                "/api/workflows",
                {"type": "Quick", "workflow_id": "maybe", "request_id": "maybe"},
                timeout=10,
            )
    finally:
        for node_id in followers:
            cluster.signal(node_id, signal.SIGCONT)
    assert (refused.value.status, refused.value.body["maybe_applied"]) == (503, True)
    cluster.leader()
    again = cluster.call(
        leader,
        "POST",
        "/api/workflows",
        {"type": "Quick", "workflow_id": "maybe", "request_id": "maybe"},
    )
    assert again["workflow_id"] == "maybe"
