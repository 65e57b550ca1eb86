"""Every command that there is, on a real cluster, with `-o json`: one document each, or a document
a line from those that follow. And those that follow, through the death of the node they asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from dev_cluster import PROGRAM, DevCluster, call, dev_cluster, serve_command, wait_for
from ports import free_ports

from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.main import cli

pytestmark = pytest.mark.cluster

ADMIN = "the-first-admin-of-all-9b1f"
HOSTILE_ID = "order/\u202e\u200b<b>"
HOSTILE = HOSTILE_ID + "\x1b[2J"


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        yield path
        return
    if command.invoke_without_command:
        yield path
    for name, each in command.commands.items():
        yield from leaves(each, (*path, name))


def test_every_command_has_the_option() -> None:
    def options(path: tuple[str, ...]) -> set[str]:
        command: Any = cli
        for name in path:
            command = command.commands[name]
        return {flag for parameter in command.params for flag in parameter.opts}

    assert not [path for path in leaves(cli) if "-o" not in options(path)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    directory = tmp_path_factory.mktemp("whole")
    tokens = directory / "tokens"
    tokens.write_text(f"{ADMIN} name=root\n")
    tokens.chmod(0o600)
    arguments = ("--auth-token-file", str(tokens), "-o", "json")
    with dev_cluster(directory / "cluster", arguments=arguments) as running:
        types = {"workflow_types": ["Parked"], "worker_id": "nobody"}
        running.call("n1", "POST", "/api/workflow-types", types, token=ADMIN)
        yield running


class Walk:
    """Runs commands in this process, and notes which."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.walked: set[tuple[str, ...]] = set()
        self.known = set(leaves(cli))

    def result(self, *arguments: str, fails: bool | None = False) -> str:
        """`fails` None: it may."""
        path = max((each for each in self.known if arguments[: len(each)] == each), key=len)
        self.walked.add(path)
        env = {"RAFTFLOW_ADDRESS": ",".join(self.cluster.addresses()), "RAFTFLOW_TOKEN": ADMIN}
        done = CliRunner().invoke(cli, [*arguments, "-o", "json"], env=env)
        if done.exception is not None and fails is False:
            raise AssertionError(f"{arguments}: {done.output}") from done.exception
        if done.exception is not None or fails:
            assert isinstance(done.exception, CommandError), done.output
        assert {"\x1b", "\u202e", "\u200b"}.isdisjoint(done.output), arguments
        return done.stdout

    def document(self, *arguments: str, fails: bool | None = False) -> Any:
        return json.loads(self.result(*arguments, fails=fails))

    def lines(self, *arguments: str) -> list[Any]:
        return [json.loads(line) for line in self.result(*arguments).splitlines()]


def test_every_command_prints_json(cluster: DevCluster, tmp_path: Path) -> None:
    walk = Walk(cluster)
    said = [json.loads(line) for line in (cluster.directory / "dev.out").read_text().splitlines()]
    events = [each["event"] for each in said if each["event"] != "no_leader"]  # it took its time
    assert events == [*["serves"] * 3, "ready"]
    walk.walked.add(("dev",))
    _runs(walk, tmp_path)
    _rules(walk, tmp_path)
    _nodes(walk)
    _machine(walk, tmp_path)
    _members(walk, tmp_path)
    cluster.stop()
    _stopped(walk, tmp_path)
    assert walk.known - walk.walked == set(), "new commands belong in this walk"


def _runs(walk: Walk, tmp_path: Path) -> None:
    start = ("workflow", "start", "Parked", "--input", HOSTILE, "--id")
    assert walk.document(*start, HOSTILE_ID)["workflow_id"] == HOSTILE_ID
    for name in ("a", "b", "c"):
        walk.document(*start, name)
    assert walk.document("workflow", "list")["total"] == 4
    assert walk.document("workflow", "show", HOSTILE_ID)["input"] == HOSTILE
    assert walk.document("workflow", "history", "a")["events"]
    assert walk.document("workflow", "signal", "a", "go")["status"] == "delivered"
    assert walk.document("workflow", "pause", "a")["status"]
    assert walk.document("workflow", "unpause", "a")["status"]
    assert walk.document("workflow", "cancel", "a")["status"]
    assert walk.document("workflow", "terminate", "b")["status"] == "terminated"
    assert walk.document("workflow", "result", "b", fails=True)["status"] == "TERMINATED"
    assert [each["status"] for each in walk.lines("workflow", "show", "b", "--follow")] == [
        "TERMINATED"
    ]
    history = str(tmp_path / "c.history")
    assert walk.document("history", "export", "c", "-f", history)["file"] == history
    assert walk.document("history", "verify", history)[0]["damage"] is None
    assert walk.document("workflow", "delete", "a")["runs"] == 1
    assert isinstance(walk.document("queue", "list")["queues"], list)
    assert isinstance(walk.document("worker", "list")["workers"], list)


def _rules(walk: Walk, tmp_path: Path) -> None:
    assert walk.document("namespace", "create", "shop")["name"] == "shop"
    assert walk.document("namespace", "update", "shop", "--keep")["name"] == "shop"
    assert walk.document("namespace", "quota", "shop", "--max-open-runs", "5")["max_open_runs"]
    assert len(walk.document("namespace", "list")["namespaces"]) == 2
    minted = walk.document("token", "mint", "ann", "--role", "viewer")
    assert minted["token"].startswith("rf_")
    assert walk.document("token", "list")["tokens"]
    assert walk.document("token", "revoke", minted["id"])["applied_by"]
    assert walk.document("audit", "list", "--call", "MintToken")["entries"]
    assert any(each["call"] == "MintToken" for each in walk.lines("audit", "export"))
    file = str(tmp_path / "audit.jsonl")
    assert walk.document("audit", "export", "-f", file)["file"] == file
    walk.result("audit", "list", "--call", "MintTokn", fails=True)


def _nodes(walk: Walk) -> None:
    cluster = walk.cluster
    assert walk.document("cluster", "status")["leader"]
    assert len(walk.lines("cluster", "status", "--watch", "--count", "2", "--every", "50ms")) == 2
    [seen] = walk.lines("top", "--count", "1")
    assert seen["cluster"]["leader"]
    assert walk.document("cluster", "transfer")["leader"]
    assert walk.document("node", "snapshot", "n1")["index"]
    directory = ("--data-dir", str(cluster.directory))
    assert walk.document("dev", "node", "kill", "n3", *directory)["pid"] is None
    assert walk.document("dev", "node", "start", "n3", *directory)["pid"]
    wait_for("all is well again", lambda: _well(walk))
    again = " ".join((*PROGRAM, "dev", *directory, "node"))
    each = f"{again} kill $NODE >/dev/null && {again} start $NODE >/dev/null"
    assert len(walk.document("cluster", "restart", "--each", each)) == 3
    wait_for("all is well again", lambda: _well(walk))


def _well(walk: Walk) -> bool:
    assert len(walk.document("node", "list")["nodes"]) == 3
    return bool(walk.document("doctor", fails=None)["healthy"])


def _machine(walk: Walk, tmp_path: Path) -> None:
    certs = str(tmp_path / "certs")
    assert walk.document("cert", "init", certs, "--cluster-id", "shop")["cluster_id"] == "shop"
    assert walk.document("cert", "issue", certs, "n1", "--host", "n1.example")["key"]
    assert walk.document("cert", "rotate", certs)["trusted"]
    assert walk.document("cert", "rotate", certs, "n1")["certificate"]
    assert walk.document("cert", "rotate", certs, "--drop-old")["trusted"]
    assert len(walk.document("cert", "show", certs)["certificates"]) == 2
    assert walk.document("completion", "bash")["shell"] == "bash"
    assert walk.document("serve", "--print-config")["node_id"] == "n1"
    place = str(tmp_path / "backups")
    made = walk.document("backup", "create", place)["backup"]
    assert [each["backup"] for each in walk.document("backup", "list", place)] == [made]
    assert walk.document("backup", "verify", made)["violations"] == []
    data = str(tmp_path / "restored")
    restored = walk.document("backup", "restore", made, "--node-id", "n1", "--data-dir", data)
    assert restored["new_cluster_id"]
    directory = walk.cluster.entry("n1")["data_dir"]
    assert {each["kind"] for each in walk.lines("log", "dump", directory)} >= {"vote", "entry"}
    assert walk.lines("log", "verify", directory) == []
    for arguments in (("run", "c"), ("queue", "default"), ("log",), ("leader",), ("node", "n1")):
        assert walk.document("why", *arguments)["links"]
    [absent] = walk.document("why", "task", "c", "1")["links"]
    assert absent["cause"] == "no_such_step"


def _members(walk: Walk, tmp_path: Path) -> None:
    http, grpc, raft, metrics = (f"127.0.0.1:{port}" for port in free_ports(4))
    added = walk.document("node", "add", f"n4={raft}", "--no-wait")
    assert added["start"].startswith("raftflow serve --node-id n4")
    assert walk.document("node", "remove", "n4")["member"] == "removed"
    join = added["start"].split("--join ")[1]
    command = serve_command(
        "n4",
        tmp_path / "n4",
        **{"http": http, "grpc": grpc, "raft": raft, "metrics": metrics},
        arguments=("--cluster-id", added["cluster_id"], "--join", join, "--auth", "on"),
    )
    with (tmp_path / "n4.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        replaced = walk.document("node", "replace", "n3", f"n4={raft}")
        assert replaced["member"] == "removed"
    finally:
        process.kill()
        process.wait()


def _stopped(walk: Walk, tmp_path: Path) -> None:
    first = walk.cluster.directory / "n1"
    examined = walk.document("doctor", "--data-dir", str(first))
    assert (examined["healthy"], examined["node"]) == (True, "n1")
    recovered = walk.document("force-recover", str(first), "--yes-lose-data")
    assert recovered["node"] == "n1"
    rebuilt = walk.document("node", "rebuild", str(walk.cluster.directory / "n2"), "--yes")
    assert rebuilt["node"] == "n2"


# ---- what follows --------------------------------------------------------------------------------


class Following:
    """A command that goes on, and what it said so far."""

    def __init__(self, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "raftflow.cluster.cli.main", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        self.lines += []
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def wait(self, what: str, condition: Callable[[list[str]], Any]) -> Any:
        try:
            return wait_for(what, lambda: condition(list(self.lines)))
        except AssertionError as error:
            raise AssertionError(f"{error}; it said {self.lines}") from None

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[DevCluster]:
    with dev_cluster(tmp_path / "cluster") as running:
        types = {"workflow_types": ["Parked"], "worker_id": "nobody"}
        running.call("n1", "POST", "/api/workflow-types", types)
        running.wait_all_serve()
        yield running


def test_who_watches_sees_the_leader_fall_through_another_node(three: DevCluster) -> None:
    """Only the leader was named, and it is killed: the others are known from what it said."""
    leader = three.leader()
    address = ("--address", three.http(leader))
    status = Following("cluster", "status", "--watch", "--every", "100ms", "-o", "plain", *address)
    top = Following("top", "--every", "200ms", "-o", "json", *address)
    three.call(leader, "POST", "/api/workflows", {"type": "Parked", "workflow_id": "w"})
    show = Following("workflow", "show", "w", "--follow", "-o", "plain", *address)
    try:
        status.wait("the table is there", lambda lines: len(lines) >= 5)
        top.wait("top looks", lambda lines: len(lines) >= 2)
        show.wait("the run is shown", lambda lines: any("workflow id:" in line for line in lines))
        killed_at = time.monotonic()
        three.kill(leader)
        told = status.wait(
            "the new leader is told",
            lambda lines: next((each for each in lines if " leads in term " in each), None),
        )
        assert leader not in told.split(" leads ")[0]
        assert time.monotonic() - killed_at < 30
        status.wait(
            "who is lost is told",
            lambda lines: any(f" {leader} is lost, as " in each for each in lines),
        )

        def sees_another(lines: list[str]) -> bool:
            document = json.loads(lines[-1])
            return bool(document["cluster"]["leader"] not in (None, leader, ""))

        top.wait("top sees the new leader", sees_another)
        other = next(each for each in three.ids() if each != leader)
        path = "/api/workflows/w/terminate"
        three.call(other, "POST", path, {"reason": "enough"})
        # `show` knows the one address that was given, and waits for it.
        three.start_node(leader)
        show.wait("the end is shown", lambda lines: lines[-1].startswith("TERMINATED"))
        assert show.process.wait(20) == 0
    finally:
        ended = [each.end() for each in (status, top, show) if each.process.poll() is None]
    assert ended == [130, 130]


def test_queues_and_workers_and_the_doctor_see_what_is_there(three: DevCluster) -> None:
    def raftflow(*arguments: str) -> Any:
        done = subprocess.run(
            [*PROGRAM, *arguments, "-o", "json", "--address", three.http("n2")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def poll() -> None:
        query = "worker_id=w7&task_queue=payments&activities=charge"
        call(three.http("n3"), "GET", f"/api/activity-tasks?{query}")

    poller = threading.Thread(target=poll, daemon=True)
    poller.start()
    [queue] = wait_for(
        "the queue is there",
        lambda: [q for q in raftflow("queue", "list")["queues"] if q["name"] == "payments"],
    )
    assert [(each["node"], each["worker"]) for each in queue["pollers"]] == [("n3", "w7")]
    [worker] = [each for each in raftflow("worker", "list")["workers"] if each["id"] == "w7"]
    assert worker["queues"] == ["payments"]
    ports = call(three.http("n2"), "GET", "/api/cluster/ports")
    assert len(ports["ports"]) == 3 * 2 * 4
    assert all(each["reachable"] for each in ports["ports"])
    report = wait_for("all is well", lambda: (r := raftflow("doctor"))["healthy"] and r)
    assert all(each["process"]["open_files"] > 10 for each in report["nodes"])
    # A node that waits for others to repair it from says so to whoever asks it itself.
    silent = next(each for each in three.followers() if each != "n2")
    three.kill(silent)
    # Of the others a busy machine may have advice.
    dead = wait_for(
        "it is missed",
        lambda: [f for f in raftflow("doctor")["findings"] if f["severity"] == "problem"],
    )
    assert {each["node"] for each in dead} == {silent}
    config = ("--data-dir", three.entry(silent)["data_dir"])
    assert raftflow("doctor", *config)["healthy"]
