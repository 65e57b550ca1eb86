"""Make the golden data directory of this version: a node's disk after every kind of run.

usage: python -m tests.golden.make     (from the repository's root; only before a release)

A released directory is never made again: it is what that version left on disks.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from dev_cluster import HttpError, call, wait_for, workflow_path
from golden_node import GoldenNode

HERE = Path(__file__).resolve().parent


def start(node: GoldenNode, workflow_id: str, kind: str = "Order", **fields: Any) -> None:
    body = {"type": kind, "workflow_id": workflow_id, "request_id": workflow_id, **fields}
    call(node.http, "POST", "/api/workflows", body)


def decide(node: GoldenNode, workflow_id: str, *commands: dict[str, Any]) -> None:
    task = call(node.http, "GET", "/api/workflow-tasks?worker_id=golden")
    assert task["workflow_id"] == workflow_id, task
    body = {"workflow_id": workflow_id, "task_token": task["task_token"], "commands": commands}
    call(node.http, "POST", "/api/workflow-tasks/complete", body)


def activity(node: GoldenNode, **result: Any) -> None:
    task = call(node.http, "GET", "/api/activity-tasks?worker_id=golden")
    names = ("workflow_id", "step_name", "sequence", "lease_token")
    body = {name: task[name] for name in names} | result
    call(node.http, "POST", "/api/activity-tasks/complete", body)


def schedule(name: str, sequence: int, **fields: Any) -> dict[str, Any]:
    return {"type": "schedule_activity", "step_name": name, "sequence": sequence, **fields}


def timer(sequence: int, delay_ms: int) -> dict[str, Any]:
    return {"type": "start_timer", "step_name": "nap", "sequence": sequence, "delay_ms": delay_ms}


def wait_for_signal(sequence: int) -> dict[str, Any]:
    return {
        "type": "await_signal",
        "step_name": "gate",
        "sequence": sequence,
        "signal_name": "approved",
    }


def populate(node: GoldenNode) -> None:
    """One run in every state that this version knows."""
    call(node.http, "POST", "/api/workflow-types", {"workflow_types": ["Order", "Größe ✓"]})
    call(node.http, "POST", "/api/namespaces", {"name": "acme", "retention_ms": 86_400_000})
    start(node, "order/1 ✓", input="tea", execution_timeout_ms=10**11)
    decide(node, "order/1 ✓", schedule("reserve", 1, input_base64="/wD+"))
    activity(node, output_base64="AP8=")
    decide(node, "order/1 ✓", timer(2, 1))
    decide(node, "order/1 ✓", wait_for_signal(3))
    signal_body = {"name": "approved", "payload": "ja", "request_id": "s1"}
    call(node.http, "POST", workflow_path("order/1 ✓", "/signal"), signal_body)
    decide(node, "order/1 ✓", {"type": "complete_workflow", "output": "done ✓"})
    start(node, "failed", input_base64="gA==")
    decide(node, "failed", schedule("charge", 1))
    activity(node, error="declined", error_type="Declined", non_retryable=True)
    decide(node, "failed", {"type": "fail_workflow", "error": "declined"})
    start(node, "terminated")
    call(node.http, "POST", workflow_path("terminated", "/terminate"), {"reason": "enough"})
    start(node, "cancelled")
    call(node.http, "POST", workflow_path("cancelled", "/cancel"), {"reason": "no longer"})
    start(node, "timed-out", execution_timeout_ms=1)
    wait_for("it timed out", lambda: node.status("timed-out") == "TIMED_OUT")
    start(node, "awaits-a-signal")
    call(
        node.http,
        "POST",
        workflow_path("awaits-a-signal", "/signal"),
        {"name": "other", "payload": "kept"},
    )
    decide(node, "awaits-a-signal", wait_for_signal(1))
    start(node, "sleeps")
    decide(node, "sleeps", timer(1, 10**11))
    start(node, "backs-off")
    policy = {"max_attempts": 5, "initial_backoff_ms": 10**9}
    decide(node, "backs-off", schedule("flaky", 1, retry_policy=policy))
    activity(node, error="not yet", error_type="Transient")
    start(node, "queued", input="x" * 5_000)
    decide(node, "queued", schedule("nobody-has-this", 1, input="y" * 3_000))
    start(node, "undecided", kind="Größe ✓", task_queue="other")
    populate_0_2(node)
    populate_0_4(node)


def child(sequence: int, workflow_id: str, policy: str) -> dict[str, Any]:
    return {
        "type": "start_child_workflow",
        "step_name": "child",
        "sequence": sequence,
        "workflow_type": "Order",
        "workflow_id": workflow_id,
        "input_base64": "/wA=",
        "task_queue": "family",
        "parent_close_policy": policy,
    }


def marker(sequence: int, kind: str, step_name: str, data: str) -> dict[str, Any]:
    return {
        "type": "record_marker",
        "step_name": step_name,
        "sequence": sequence,
        "marker": kind,
        "data": data,
    }


def post(node: GoldenNode, workflow_id: str, verb: str, **body: Any) -> None:
    call(node.http, "POST", workflow_path(workflow_id, f"/{verb}"), body)


def known(node: GoldenNode) -> list[str]:
    runs = call(node.http, "GET", "/api/workflows")["workflows"]
    return sorted({run["workflow_id"] for run in runs})


def populate_0_2(node: GoldenNode) -> None:
    """What release 0.2 added. Whatever waits for a decision is told to sleep, so that `decide`
    meets the run that it names."""
    labels = {"tier": "gold", "total": 12.5, "paid": True}
    start(node, "labelled", search_attributes=labels, memo={"note": "zerbrechlich ✓"})
    upsert = {"type": "upsert_search_attributes", "attributes": {"stage": "packed", "tier": None}}
    decide(node, "labelled", upsert, timer(1, 10**11))
    start(node, "parent")
    kept = child(2, "child-2", "ABANDON")
    decide(node, "parent", child(1, "child-1", "TERMINATE"), kept)
    start(node, "left-by-its-parent")
    decide(node, "left-by-its-parent", child(1, "told-to-cancel", "REQUEST_CANCEL"))
    wait_for("the child runs", lambda: "told-to-cancel" in known(node))
    post(node, "left-by-its-parent", "terminate", reason="enough")
    start(node, "chained", input="first")
    decide(node, "chained", {"type": "continue_as_new", "input": "second"})
    decide(node, "chained", timer(1, 10**11))
    start(node, "marked")
    recorded = marker(1, "version", "v", "2")
    cancelled = {"type": "cancel_step", "step_name": "nap", "sequence": 2, "reason": "no need"}
    decide(node, "marked", recorded, timer(2, 10**11), cancelled, timer(3, 10**11))
    start(node, "compensates")
    post(node, "compensates", "cancel", reason="gently", graceful=True)
    decide(node, "compensates", marker(1, "cancel", "cancellation", "2"), timer(2, 10**11))
    start(node, "signalled", signal={"name": "approved", "payload": "ja"})
    decide(node, "signalled", wait_for_signal(1))
    decide(node, "signalled", timer(2, 10**11))
    start(node, "forgotten")
    post(node, "forgotten", "terminate", reason="enough")
    call(node.http, "DELETE", workflow_path("forgotten"))
    start(node, "again")
    post(node, "again", "terminate", reason="enough")
    start(node, "again", request_id="again-2", id_reuse_policy="ALLOW_DUPLICATE")
    decide(node, "again", timer(1, 10**11))
    start(node, "paused")
    post(node, "paused", "pause", reason="to look at it")
    crowded(node)


def crowded(node: GoldenNode) -> None:
    """Two stale decisions in a row: what comes during the third one waits for it."""
    start(node, "crowded")
    for number in range(3):
        task = call(node.http, "GET", "/api/workflow-tasks?worker_id=golden")
        assert task["workflow_id"] == "crowded", task
        post(node, "crowded", "signal", name="other", payload=str(number))
        if number < 2:
            body = {"workflow_id": "crowded", "task_token": task["task_token"], "commands": []}
            with suppress(HttpError):  # 409: made on an older history
                call(node.http, "POST", "/api/workflow-tasks/complete", body)


def populate_0_4(node: GoldenNode) -> None:
    """What release 0.4 added; what was done above stands in the audit log already."""
    quota = {"max_open_runs": 100, "starts_per_second": 50}
    call(node.http, "PUT", "/api/namespaces/acme/quota", quota)
    call(node.http, "POST", "/api/tokens", {"name": "boss ✓", "role": "admin"})
    limited = {"role": "viewer", "namespaces": ["acme"], "lifetime_ms": 10**11}
    call(node.http, "POST", "/api/tokens", {"name": "limited", **limited})
    lost = call(node.http, "POST", "/api/tokens", {"name": "lost", "role": "worker"})
    call(node.http, "DELETE", f"/api/tokens/{lost['id']}")


def main() -> None:
    target = HERE / f"v{version('raftflow')}"
    if target.exists():
        raise SystemExit(f"{target.name} is released: it stays as it is")
    with tempfile.TemporaryDirectory() as directory:
        node = GoldenNode(Path(directory) / "data")
        node.start()
        try:
            populate(node)
            expected = node.observed(known(node))  # the store has written all that a list saw
        finally:
            node.process.send_signal(signal.SIGKILL)
            node.process.wait()
        shutil.copytree(node.data_dir, target / "data", ignore=shutil.ignore_patterns("lock"))
    (target / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    size = subprocess.run(["du", "-sh", target], capture_output=True, text=True, check=True).stdout
    print(size.strip())


if __name__ == "__main__":
    main()
