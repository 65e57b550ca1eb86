"""The leader dies or freezes under load: nothing is lost, nobody sees an error."""

import concurrent.futures
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from dev_cluster import DevCluster, HttpError, call, wait_for, workflow_path
from workers import worker_process

pytestmark = pytest.mark.cluster

SAGAS = 50


def start(address: str, workflow_id: str, kind: str = "PlainSaga") -> str:
    answer = call(
        address,
        "POST",
        "/api/workflows",
        {
            "type": kind,
            "workflow_id": workflow_id,
            "input": workflow_id,
            "request_id": f"start-{workflow_id}",
        },
    )
    return str(answer["run_id"])


def approve(address: str, workflow_id: str) -> None:
    call(
        address,
        "POST",
        workflow_path(workflow_id, "/signal"),
        {"name": "approved", "payload": "yes", "request_id": f"approve-{workflow_id}"},
    )


def test_fifty_sagas_of_one_attempt_survive_a_killed_leader(
    cluster: DevCluster, tmp_path: Path
) -> None:
    leader = cluster.leader()
    follower, other = cluster.followers()
    with worker_process(tmp_path, cluster.addresses(follower)) as worker:
        wait_for("types are registered", lambda: registered(cluster.http(follower)))
        ids = [f"saga/{n} ✓" for n in range(SAGAS)]
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            address = cluster.http(other)
            starts = [pool.submit(start, address, workflow_id) for workflow_id in ids[:25]]
            signals = [
                pool.submit(approve_when_started, address, s, i)
                for s, i in zip(starts, ids[:25], strict=True)
            ]
            wait_for("work is under way", lambda: len(worker.calls()) > 10)
            cluster.kill(leader)
            more = [pool.submit(start, address, workflow_id) for workflow_id in ids[25:]]
            signals += [
                pool.submit(approve_when_started, address, s, i)
                for s, i in zip(more, ids[25:], strict=True)
            ]
            for future in starts + more + signals:
                future.result(timeout=60)  # no client call failed
        for workflow_id in ids:
            run = cluster.wait_status(follower, workflow_id, "COMPLETED", "FAILED")
            assert run["status"] == "COMPLETED", json.dumps(run, indent=1)
            assert_one_result_per_step(cluster, follower, workflow_id)
        # No step ran more often than its single attempt allows.
        repeated = {line: count for line, count in worker.calls().items() if count != 1}
        assert repeated == {}
        assert worker.output() == ""


def test_tasks_on_their_way_to_a_node_that_dies_are_not_lost(
    cluster: DevCluster, tmp_path: Path
) -> None:
    """The worker polls every node, and each step has one attempt. A node dies with grants to its
    polls that nobody received: the worker asks again elsewhere, and they go back at once."""
    with worker_process(tmp_path, cluster.addresses()) as worker:
        wait_for("types are registered", lambda: registered(cluster.http("n1")))
        finished = 0
        for round_number in range(3):
            leader = cluster.leader()
            survivor = cluster.followers()[0]
            ids = [f"round {round_number} saga {n}" for n in range(20)]
            with concurrent.futures.ThreadPoolExecutor(20) as pool:
                address = cluster.http(survivor)
                starts = [pool.submit(start, address, workflow_id) for workflow_id in ids]
                signals = [
                    pool.submit(approve_when_started, address, s, i)
                    for s, i in zip(starts, ids, strict=True)
                ]
                enough = finished * 3 + 5
                wait_for("work is under way", lambda n=enough: len(worker.calls()) > n)
                cluster.kill(leader)
                for future in starts + signals:
                    future.result(timeout=60)
            for workflow_id in ids:
                run = cluster.wait_status(survivor, workflow_id, "COMPLETED", "FAILED")
                assert run["status"] == "COMPLETED", json.dumps(run, indent=1)
            finished += len(ids)
            cluster.start_node(leader)
            cluster.wait_all_serve()
        repeated = {line: count for line, count in worker.calls().items() if count != 1}
        assert {line for line in repeated if line.split()[1]} == set()


def registered(address: str) -> bool:
    """Whether the worker's types are known: a start of one is not refused."""
    try:
        start(address, "probe", "Quick")
    except HttpError as error:
        return error.status == 409
    return True


def approve_when_started(
    address: str, started: "concurrent.futures.Future[str]", workflow_id: str
) -> None:
    started.result(timeout=60)
    approve(address, workflow_id)


def assert_one_result_per_step(cluster: DevCluster, node: str, workflow_id: str) -> None:
    events = cluster.call(node, "GET", workflow_path(workflow_id, "/history"))["events"]
    assert [event["event_id"] for event in events] == list(range(1, len(events) + 1))
    results = [
        event["sequence"]
        for event in events
        if event["type"] in ("StepCompleted", "StepFailed", "TimerFired", "SignalConsumed")
    ]
    assert sorted(results) == sorted(set(results)) == [1, 2, 3, 4, 5]
    received = [event for event in events if event["type"] == "SignalReceived"]
    assert len(received) == 1


def test_new_work_is_accepted_soon_after_the_leader_freezes(cluster: DevCluster) -> None:
    """The times are printed by benchmarks/failover.py; here only the outcome counts."""
    register(cluster)
    leader = cluster.leader()
    follower = cluster.followers()[0]
    cluster.signal(leader, signal.SIGSTOP)
    try:
        start(cluster.http(follower), "after-freeze", "Quick")
    finally:
        cluster.signal(leader, signal.SIGCONT)
    cluster.wait_status(leader, "after-freeze", "WAITING")


def register(cluster: DevCluster) -> None:
    cluster.call(
        cluster.ids()[0],
        "POST",
        "/api/workflow-types",
        {"workflow_types": ["Quick", "PlainSaga"], "worker_id": "t"},
    )


def test_a_paused_leader_that_wakes_serves_nothing_old(cluster: DevCluster) -> None:
    register(cluster)
    old = cluster.leader()
    first, second = cluster.followers()
    start(cluster.http(old), "before", "Quick")
    cluster.signal(old, signal.SIGSTOP)
    try:
        new = cluster.leader(other_than=old)
        for number in range(5):
            cluster.call(
                new,
                "POST",
                workflow_path("before", "/signal"),
                {"name": "n", "payload": str(number), "request_id": f"r{number}"},
            )
        cluster.call(new, "POST", workflow_path("before", "/terminate"), {"reason": "done"})
        start(cluster.http(first), "during", "Quick")
        # Questions that reach the old leader while it sleeps are the first thing it sees.
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            address = cluster.http(old)
            read = pool.submit(attempt, address, "GET", workflow_path("before"))
            unseen = pool.submit(attempt, address, "GET", workflow_path("during"))
            write = pool.submit(
                attempt,
                address,
                "POST",
                "/api/workflows",
                {"type": "Quick", "workflow_id": "woken", "request_id": "woken"},
            )
            poll = pool.submit(
                attempt, address, "GET", "/api/workflow-tasks?types=Quick&worker_id=late"
            )
            wait_until_sent()
            cluster.signal(old, signal.SIGCONT)
            status, body = read.result(60)
            assert status == 503 or (body["status"], len(body["signals"])) == ("TERMINATED", 5)
            status, body = unseen.result(60)
            assert status in (200, 503), body
            status, body = write.result(60)
            # An acknowledgement is one that the new leader committed.
            if status == 201:
                assert cluster.describe(second, "woken")["run_id"] == body["run_id"]
            status, body = poll.result(60)
            if status == 200 and body:
                assert body["workflow_id"] != "before", "a task of a closed run was handed out"
    finally:
        cluster.signal(old, signal.SIGCONT)


def wait_until_sent() -> None:
    """The kernel takes bytes for a stopped process; give four requests the time to leave."""
    time.sleep(0.3)


def attempt(address: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    try:
        answer = call(address, method, path, body)
    except HttpError as error:
        return error.status, error.body
    return (201 if method == "POST" and path == "/api/workflows" else 200), answer
