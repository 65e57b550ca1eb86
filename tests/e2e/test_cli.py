"""The command line against a real cluster: what a person types in the first hour."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev_cluster import DevCluster, call, dev_cluster, wait_for

pytestmark = pytest.mark.cluster

ODD_ID = 'order/42 "quoted" <script>alert(1)</script> 🦆'


class Shell:
    """Runs `raftflow` with all nodes as addresses."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster

    def __call__(self, *arguments: str, status: int = 0) -> str:
        done = self.run(*arguments)
        assert done.returncode == status, f"{arguments}: {done.stdout!r} {done.stderr!r}"
        return done.stdout.decode()

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        addresses = [part for each in self.cluster.addresses() for part in ("--address", each)]
        return subprocess.run(
            [sys.executable, "-m", "raftflow.cluster.cli.main", *arguments, *addresses],
            capture_output=True,
            timeout=60,
            check=False,
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """Its one workflow type has no worker: runs of it stay where they are."""
    with dev_cluster(tmp_path_factory.mktemp("cli") / "cluster") as running:
        types = {"workflow_types": ["Parked"], "worker_id": "nobody"}
        running.call("n1", "POST", "/api/workflow-types", types)
        yield running


@pytest.fixture
def raftflow(cluster: DevCluster) -> Shell:
    return Shell(cluster)


def test_status_shows_one_leader(raftflow: Shell) -> None:
    state = json.loads(raftflow("cluster", "status", "-o", "json"))
    assert [node["id"] for node in state["nodes"]] == ["n1", "n2", "n3"]
    roles = sorted(node["role"].lower() for node in state["nodes"])
    assert roles == ["follower", "follower", "leader"]
    plain = raftflow("cluster", "status").splitlines()
    assert plain[0].startswith(f"cluster {state['cluster_id']}  leader {state['leader']}")
    assert len(plain) == 5


def test_a_parked_run_is_started_seen_signalled_and_ended(raftflow: Shell) -> None:
    start = ("workflow", "start", "Parked", "--id", ODD_ID, "--input", "book", "-o", "json")
    started = json.loads(raftflow(*start))
    assert started["workflow_id"] == ODD_ID
    assert raftflow.run(*start).returncode == 1
    listed = json.loads(raftflow("workflow", "list", "-q", "42", "-o", "json"))
    assert [run["run_id"] for run in listed["workflows"]] == [started["run_id"]]
    assert ODD_ID in raftflow("workflow", "list")
    raftflow("workflow", "signal", ODD_ID, "approved", "--payload", "yes")
    shown = json.loads(raftflow("workflow", "show", ODD_ID, "-o", "json"))
    assert shown["input"] == "book"
    assert [(each["name"], each["payload"]) for each in shown["signals"]] == [("approved", "yes")]
    assert "approved" in raftflow("workflow", "show", ODD_ID)
    raftflow("workflow", "result", ODD_ID, "--timeout", "100ms", status=3)
    raftflow("workflow", "terminate", ODD_ID, "--reason", "enough")
    ended = raftflow.run("workflow", "result", ODD_ID)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert b"ended TERMINATED" in ended.stderr
    events = json.loads(raftflow("workflow", "history", ODD_ID, "-o", "json"))["events"]
    assert [event["event_id"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["type"] == "WorkflowTerminated"
    assert "WorkflowTerminated" in raftflow("workflow", "history", ODD_ID).splitlines()[-1]


def test_a_wait_is_over_as_soon_as_the_run_is(raftflow: Shell) -> None:
    raftflow("workflow", "start", "Parked", "--id", "to-cancel")
    threading.Timer(0.5, lambda: raftflow("workflow", "cancel", "to-cancel")).start()
    waited = raftflow.run("workflow", "result", "to-cancel")
    assert b"to-cancel ended CANCELLED" in waited.stderr


def test_unknown_runs_are_not_found(raftflow: Shell) -> None:
    for verb in (["show"], ["history"], ["result"], ["terminate"], ["cancel"]):
        raftflow("workflow", *verb, "no such run", status=1)
    raftflow("workflow", "signal", "no such run", "approved", status=1)
    raftflow("workflow", "start", "NoSuchType", status=1)


def test_a_history_is_exported_and_verified(raftflow: Shell, tmp_path: Path) -> None:
    raftflow("workflow", "start", "Parked", "--id", "to-export", "--input", "x" * 1000)
    file = tmp_path / "run.history"
    raftflow("history", "export", "to-export", "-f", str(file))
    verify = [sys.executable, "-m", "raftflow.cluster.cli.main", "history", "verify", str(file)]
    assert subprocess.run(verify, check=False).returncode == 0
    content = bytearray(file.read_bytes())
    content[20] ^= 1
    file.write_bytes(content)
    assert subprocess.run(verify, check=False).returncode == 1


def test_the_log_of_a_running_node_is_verified(cluster: DevCluster) -> None:
    for entry in cluster.entries():
        command = ["raftflow.cluster.cli.main", "log", "verify", entry["data_dir"]]
        done = subprocess.run(
            [sys.executable, "-m", *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_node_serves_the_page(cluster: DevCluster) -> None:
    import urllib.request

    for address in cluster.addresses():
        with urllib.request.urlopen(f"{address}/", timeout=10) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert b"<title>raftflow</title>" in answer.read()
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        for other in cluster.addresses():
            assert other in policy or other == address
        for name in ("app.js", "style.css", "icon.svg"):
            with urllib.request.urlopen(f"{address}/{name}", timeout=10) as answer:
                assert answer.status == 200


def test_the_loss_of_a_node_is_bridged(cluster: DevCluster, raftflow: Shell) -> None:
    first = cluster.ids()[0]
    command = [sys.executable, "-m", "raftflow.cluster.cli.main", "dev", "node"]
    directory = ["--data-dir", str(cluster.directory)]
    assert subprocess.run([*command, "kill", first, *directory], check=False).returncode == 0
    assert cluster.entry(first)["pid"] is None
    raftflow("workflow", "start", "Parked", "--id", "meanwhile")
    assert subprocess.run([*command, "start", first, *directory], check=False).returncode == 0
    wait_for("the node is ready again", lambda: is_ready(cluster.http(first)))
    run = call(cluster.http(first), "GET", "/api/workflows/meanwhile")
    assert run["workflow_id"] == "meanwhile"


def is_ready(address: str) -> bool:
    try:
        return bool(call(address, "GET", "/api/ready", timeout=1.0)["ready"])
    except Exception:  # noqa: BLE001 - refused, reset or 503: not ready yet
        return False
