"""After the last heal: what was acknowledged is there, once, and the same on every node."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from typing import Any

from dev_cluster import DevCluster, call, wait_for, workflow_path
from workload import Saga

CLOSED = ("COMPLETED", "FAILED", "TERMINATED")
RESULTS = ("StepCompleted", "StepFailed", "TimerFired", "SignalConsumed", "StepCancelled")


def settle(cluster: DevCluster, sagas: list[Saga], *, timeout: float) -> list[str]:
    """Wait until every run is closed; those that stay open are violations."""
    open_ones = {saga.workflow_id for saga in sagas if "yes" in saga.signals_ok}
    node = cluster.ids()[0]

    def all_closed() -> bool:
        for workflow_id in list(open_ones):
            if cluster.describe(node, workflow_id)["status"] not in CLOSED:
                return False
            open_ones.discard(workflow_id)
        return True

    try:
        wait_for("all runs are closed", all_closed, timeout=timeout)
    except AssertionError:
        stuck = [cluster.describe(node, each) for each in sorted(open_ones)]
        return [
            f"{run['workflow_id']} stays open: {json.dumps(run)}"
            for run in stuck
            if run["status"] not in CLOSED
        ]
    return []


def check(
    cluster: DevCluster, sagas: list[Saga], calls: Counter[str]
) -> tuple[list[str], list[str]]:
    """The violations, and the steps that failed because a lease ran out: ran or never ran."""
    violations: list[str] = []
    expired: list[str] = []
    digests_agree(cluster, violations)
    for node in cluster.ids():
        missing = {saga.workflow_id for saga in sagas} - listed(cluster, node)
        if missing:
            violations.append(f"{node} does not list {sorted(missing)[:5]} ({len(missing)})")
    for saga in sagas:
        files = {history_file(cluster, node, saga) for node in cluster.ids()}
        if len(files) != 1:
            violations.append(f"{saga.workflow_id}: histories differ between nodes")
        page = cluster.call(cluster.ids()[0], "GET", history_path(saga))
        for step in check_history(saga, page["events"], violations):
            ran = calls[f"{step['step_name']} {saga.workflow_id}"]
            expired.append(
                f"{saga.workflow_id} {step['step_name']} ran {ran}, node {step.get('node')}"
            )
    for line, count in calls.items():
        if count != 1:
            violations.append(f"{line!r} ran {count} times with a policy of one attempt")
    return violations, expired


def check_history(
    saga: Saga, events: list[dict[str, Any]], violations: list[str]
) -> list[dict[str, Any]]:
    """Complains; returns the steps that failed because a lease ran out."""

    def wrong(what: str) -> None:
        violations.append(f"{saga.workflow_id}: {what}")

    if [event["event_id"] for event in events] != list(range(1, len(events) + 1)):
        wrong("event ids have gaps")
    results = Counter(event["sequence"] for event in events if event["type"] in RESULTS)
    if any(count != 1 for count in results.values()):
        wrong(f"a step has several results: {results}")
    closing = [event for event in events if event["type"].startswith("Workflow")][1:]
    if len(closing) > 1 or (closing and events[-1] is not closing[0]):
        wrong(f"closed by {[event['type'] for event in closing]}, not once at the end")
    if saga.terminated and events[-1]["type"] != "WorkflowTerminated":
        wrong(f"terminated, but ends with {events[-1]['type']}")
    received = [event["payload"] for event in events if event["type"] == "SignalReceived"]
    if len(received) != len(set(received)):
        wrong(f"a signal was recorded twice: {received}")
    if [each for each in received if each in saga.signals_ok] != saga.signals_ok:
        wrong(f"signals {saga.signals_ok} acknowledged, recorded {received}")
    if not set(received) <= saga.signals_maybe:
        wrong(f"signals that nobody sent: {received}")
    if events[-1]["type"] == "WorkflowFailed":
        failed = [event for event in events if event["type"] == "StepFailed"]
        if [event.get("error_type") for event in failed] == ["LeaseExpired"]:
            names = {e["sequence"]: e["step_name"] for e in events if e["type"] == "StepScheduled"}
            return [{**event, "step_name": names[event["sequence"]]} for event in failed]
        wrong(f"failed: {events[-1]}")
    return []


def digests_agree(cluster: DevCluster, violations: list[str]) -> None:
    def agree() -> bool:
        nodes = cluster.call(cluster.ids()[0], "GET", "/api/cluster")["nodes"]
        seen = {(node["applied_index"], node["state_digest"]) for node in nodes}
        return len(seen) == 1 and None not in seen.pop()

    try:
        wait_for("digests agree", agree, timeout=30)
    except AssertionError:
        nodes = cluster.call(cluster.ids()[0], "GET", "/api/cluster")["nodes"]
        violations.append(f"state digests differ: {nodes}")
    for entry in cluster.entries():
        metrics = metrics_of(entry["metrics"])
        broken = [
            line
            for line in metrics.splitlines()
            if "invariant_violations" in line
            and not line.startswith("#")
            and not line.endswith(" 0.0")
        ]
        if broken:
            violations.append(f"{entry['id']}: {broken}")


def metrics_of(address: str) -> str:
    with urllib.request.urlopen(f"http://{address.removeprefix('http://')}/metrics") as answer:
        return str(answer.read().decode())


def listed(cluster: DevCluster, node: str) -> set[str]:
    found: set[str] = set()
    cursor = ""
    while True:
        page = call(
            cluster.http(node), "GET", f"/api/workflows?limit=1000&cursor={cursor}", timeout=30
        )
        found |= {run["workflow_id"] for run in page["workflows"]}
        cursor = page.get("cursor") or page.get("next_cursor") or ""
        if not cursor:
            return found


def history_path(saga: Saga, query: str = "limit=1000") -> str:
    return workflow_path(saga.workflow_id, f"/history?run_id={saga.run_id}&{query}")


def history_file(cluster: DevCluster, node: str, saga: Saga) -> bytes:
    url = f"http://{cluster.http(node)}{history_path(saga, 'format=binary')}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return bytes(answer.read())
