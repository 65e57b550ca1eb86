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
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from dev_cluster import call, wait_for, workflow_path
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


def main() -> None:
    target = HERE / f"v{version('raftflow')}"
    with tempfile.TemporaryDirectory() as directory:
        node = GoldenNode(Path(directory) / "data")
        node.start()
        populate(node)
        wait_for("the store has written all", lambda: node.call("GET", "/api/workflows"))
        expected = node.observed()
        node.process.send_signal(signal.SIGKILL)
        node.process.wait()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(node.data_dir, target / "data", ignore=shutil.ignore_patterns("lock"))
    (target / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    size = subprocess.run(["du", "-sh", target], capture_output=True, text=True, check=True).stdout
    print(size.strip())


if __name__ == "__main__":
    main()
