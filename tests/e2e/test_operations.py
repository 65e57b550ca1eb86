"""What operators do to a cluster that works: restart it, back it up, lose it and have it again."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import sqlite3
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from certs import authority_of, issue, serve_flags
from dev_cluster import HttpError, call, wait_for, workflow_path
from node_processes import Load, Nodes, Process, nodes_in

from raftflow_sdk import Client, Context, Worker

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with nodes_in(tmp_path / "nodes") as found:
        yield found


@pytest.fixture
def three(nodes: Nodes) -> Nodes:
    nodes.bear("n1", "n2", "n3")
    return nodes


def addresses(nodes: Nodes, *ids: str) -> list[str]:
    return [f"http://{nodes[each].http}" for each in ids]


# ---- workflows that last longer than the cluster ------------------------------------------------


def patient(ctx: Context) -> str:
    ctx.sleep("a while", 4)
    return str(ctx.activity("echo", "rested"))


def told(ctx: Context) -> str:
    return str(ctx.wait_for_signal("waits", "word"))


def at_work(ctx: Context) -> str:
    return str(ctx.activity("echo", "done"))


def echo(text: str) -> str:
    return text


@contextlib.contextmanager
def working(nodes: Nodes, *ids: str) -> Iterator[Client]:
    worker = Worker(addresses(nodes, *ids))
    worker.workflow("Patient")(patient)
    worker.workflow("Told")(told)
    worker.workflow("AtWork")(at_work)
    worker.activity("echo")(echo)
    with worker:
        yield Client(addresses(nodes, *ids))


class Steady:
    """A client that has one workflow done after the other, by a worker of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.done: list[str] = []
        self.failed: list[str] = []

    def __enter__(self) -> Steady:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stopping.wait(0.05):
            run = f"work-{len(self.done) + len(self.failed)}"
            try:
                self._client.start("AtWork", workflow_id=run)
                assert self._client.result(run, wait=30) == "done"
            except Exception as error:  # noqa: BLE001  whatever it is, a call failed
                self.failed.append(f"{run}: {error!r}")
            else:
                self.done.append(run)


# ---- a rolling restart --------------------------------------------------------------------------


class Supervisor:
    """Starts whichever node has ended, as systemd would; `pids` has a file for each."""

    def __init__(self, nodes: Nodes, *ids: str) -> None:
        self.pids = nodes.directory / "pids"
        self.pids.mkdir(parents=True)
        self._nodes, self._ids = nodes, ids
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.restarts = 0

    def __enter__(self) -> Supervisor:
        self._note()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(0.05):
            for each in self._ids:
                process = self._nodes[each].process
                if process is not None and process.poll() is not None:
                    assert process.returncode == 0, self._nodes.logs()
                    self._nodes[each].start("--peers", self._nodes.peers(*self._ids))
                    self.restarts += 1
                    self._note()

    def _note(self) -> None:
        for each in self._ids:
            process = self._nodes[each].process
            assert process is not None
            (self.pids / each).write_text(str(process.pid))


def test_all_nodes_are_restarted_under_load_and_no_call_fails(
    three: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = ("n1", "n2", "n3")
    with (
        Supervisor(three, *ids) as supervisor,
        working(three, *ids) as client,
        Load(three) as load,
        Steady(client) as steady,
    ):
        leader = three.leader()
        term = (three.state() or {})["term"]
        command = f'kill -TERM "$(cat {supervisor.pids}/$NODE)"'
        said = three.cli("cluster", "restart", "--each", command, "--timeout", "60s")
        assert supervisor.restarts == 3
        lines = said.splitlines()
        assert f"{leader}, which leads: restarting" in lines, "the leader comes last"
        assert lines[-1] == "all 3 nodes are restarted"
        after = three.state()
        assert after is not None
        assert after["term"] <= term + 1, "leadership moved once"
    assert load.failed + steady.failed == [], three.logs()
    for node in three.running():
        for run in load.acknowledged:
            found = call(node.http, "GET", workflow_path(run))
            assert len(found["signals"]) == 1, f"{run} at {node.id}"
    assert len(steady.done) > 5
    for run in steady.done:
        (step,) = call(three["n1"].http, "GET", workflow_path(run))["steps"]
        assert step["attempts"] == 1, "a task that was on its way to a stopping node went back"
    with capsys.disabled():
        runs = len(load.acknowledged) + len(steady.done)
        print(f"\nrolling restart: {runs} runs, longest pause", end=" ")
        print(f"{load.slowest_s * 1000:.0f} ms")


def test_a_restart_that_does_not_come_back_stops_there(three: Nodes) -> None:
    done = three.try_cli("cluster", "restart", "--each", "exit 3")
    assert done.returncode == 1
    assert "the command ended with status 3. None was restarted before it" in done.stderr
    done = three.try_cli("cluster", "restart", "--each", "true", "--timeout", "2s")
    assert done.returncode == 3
    assert "runs on: the command has not restarted it" in done.stderr
    three["n3"].stop()
    done = three.try_cli("cluster", "restart", "--each", "echo touched")
    assert done.returncode == 1
    assert "nothing was restarted: n3 does not answer" in done.stderr
    assert "touched" not in done.stdout


# ---- backups ------------------------------------------------------------------------------------


def test_backed_up_under_load_wiped_and_restored(
    three: Nodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = ("n1", "n2", "n3")
    place = tmp_path / "backups"
    with working(three, *ids) as client:
        with Load(three) as load:
            client.start("Patient", workflow_id="patient")
            client.start("Told", workflow_id="told")
            wait_for("the timer is armed", lambda: waits(three, "patient"))
            wait_for("the wait is open", lambda: waits(three, "told"))
            before = list(load.acknowledged)
            made = json.loads(three.cli("backup", "create", str(place), "-o", "json"))
            wait_for("work goes on", lambda: len(load.acknowledged) > len(before) + 5)
        assert load.failed == [], three.logs()
        with capsys.disabled():
            print(f"\nbackup under load: longest pause {load.slowest_s * 1000:.0f} ms")
        for each in ids:
            three[each].stop(signal.SIGKILL)
            shutil.rmtree(three[each].data)
        verified = three.cli("backup", "verify", made["backup"])
        assert f"whole; entry {made['index']}, digest {made['digest']}" in verified
        for each in ids:
            said = three.cli("backup", "restore", made["backup"], *settings(three, each, *ids))
            assert f"begins after entry {made['index']}" in said
            assert applied(three[each].data) == (made["index"], made["digest"])
        time.sleep(4)  # the timer falls due while nobody is there
        for each in ids:
            three[each].start("--peers", three.peers(*ids))
        three.wait_settled(*ids)
        state = three.state()
        assert state is not None
        assert state["cluster_id"] not in ("", made["cluster_id"])
        # Polls that had begun before the loss have broken; the same worker goes on.
        assert client.result("patient", wait=60) == "rested"
        client.signal("told", "word", "at last")
        assert client.result("told", wait=60) == "at last"
    for node in three.running():
        for run in before:
            assert len(call(node.http, "GET", workflow_path(run))["signals"]) == 1
    states_agree(three)


def waits(nodes: Nodes, run: str) -> bool:
    found = call(nodes.running()[0].http, "GET", workflow_path(run))
    return bool(found["steps"]) and found["status"] == "WAITING"


def settings(nodes: Nodes, node_id: str, *ids: str) -> tuple[str, ...]:
    own = ("--node-id", node_id, "--data-dir", str(nodes[node_id].data))
    return (*own, "--peers", nodes.peers(*ids))


def applied(data: Path) -> tuple[int, str]:
    with contextlib.closing(sqlite3.connect(data / "state.db")) as db:
        index, digest = db.execute("SELECT log_index, digest FROM applied").fetchone()
    return index, digest.hex()


def states_agree(nodes: Nodes) -> None:
    def agreed() -> bool:
        rows = (nodes.state() or {"nodes": []})["nodes"]
        return len({(row["applied_index"], row["state_digest"]) for row in rows}) == 1

    wait_for("all states are the same", agreed)


def test_a_secure_node_gives_a_backup_to_who_may_have_it_and_keeps_its_tokens(
    nodes: Nodes, tmp_path: Path
) -> None:
    """With the old id the certificates stay good; minted tokens are in the state, and so in the
    backup."""
    node, root = nodes["n1"], "the-root-token-of-this-test"
    authority = authority_of(tmp_path / "certs", "shop")
    issue(authority, "n1")
    node.trusted = authority.trusted
    (tmp_path / "tokens").write_text(f"{root}\n")
    secure = ("--cluster-id", "shop", *serve_flags(authority, "n1"))
    secure = (*secure, "--auth-token-file", str(tmp_path / "tokens"))
    node.start(*secure)
    wait_for("n1 is ready", node.is_ready)
    place = str(tmp_path / "kept")
    admin, blind, viewer = (
        mint(node, root, role=role, sees_payloads=sees)
        for role, sees in (("admin", True), ("admin", False), ("viewer", True))
    )
    for token, said in ((blind, "payloads"), (viewer, "admin"), ("", "a token is needed")):
        done = nodes.try_cli("backup", "create", place, "--token", token)
        assert done.returncode == 1
        assert said in done.stderr
    assert not Path(place).exists(), "nothing is begun for who may not have it"
    made = json.loads(nodes.cli("backup", "create", place, "--token", admin, "-o", "json"))
    node.stop()
    shutil.rmtree(node.data)
    own = ("--node-id", "n1", "--data-dir", str(node.data), "--raft-addr", node.raft)
    done = nodes.try_cli("backup", "restore", made["backup"], *own, "--cluster-id", "shop")
    assert done.returncode == 0, done.stderr
    assert "WARNING: the new cluster has the id of the old one" in done.stderr
    node.start(*secure)
    wait_for("n1 is ready", node.is_ready)
    listed = json.loads(nodes.cli("cluster", "status", "--token", viewer, "-o", "json"))
    assert (listed["cluster_id"], listed["leader"]) == ("shop", "n1")
    taken = nodes.cli("audit", "list", "--call", "TakeBackup", "--token", admin, "-o", "json")
    actors = [entry["actor"] for entry in json.loads(taken)["entries"]]
    assert actors == [admin.split("_")[1]], "the backup says itself who took it, and only he did"
    again = nodes.cli("backup", "create", place, "--token", admin, "-o", "json")
    assert json.loads(again)["index"] > made["index"]


def mint(node: Process, token: str, **fields: object) -> str:
    request = urllib.request.Request(
        f"https://{node.http}/api/tokens",
        data=json.dumps({"name": "t", **fields}).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
    )
    trusted = ssl.create_default_context(cafile=node.trusted)
    with urllib.request.urlopen(request, timeout=20, context=trusted) as answer:
        return str(json.load(answer)["token"])


# ---- a lost majority ----------------------------------------------------------------------------


def test_a_survivor_goes_on_alone_and_the_others_join_anew(three: Nodes) -> None:
    with Load(three) as load:
        pass
    states_agree(three)
    old = three.state()
    assert old is not None
    for each in ("n1", "n2", "n3"):
        three[each].stop(signal.SIGKILL)
    shutil.rmtree(three["n3"].data)
    asked = three.try_cli("force-recover", str(three["n1"].data))
    assert asked.returncode == 130, "nobody typed the node's id"
    assert "WARNING, this cannot be undone" in asked.stderr
    done = three.cli("force-recover", str(three["n1"].data), "--yes-lose-data", "-o", "json")
    recovered = json.loads(done)["cluster_id"]
    assert recovered.startswith(f"{old['cluster_id']}-r1.")
    # With its old command line; and beside it a node of the old cluster, which must not be heard.
    peers = ("--peers", three.peers("n1", "n2", "n3"))
    three["n1"].start(*peers)
    three["n2"].start(*peers)
    wait_for("n1 leads", lambda: leads(three, "n1"))
    wait_for("n2 is told", lambda: "wrong_cluster" in three["n2"].log.read_text())
    state = call(three["n1"].http, "GET", "/api/cluster")
    assert (state["cluster_id"], state["leader"]) == (recovered, "n1")
    three["n2"].stop()
    for each in ("n2", "n3"):
        shutil.rmtree(three[each].data, ignore_errors=True)
        three.add(each)
    three.wait_settled("n1", "n2", "n3")
    assert load.failed == []
    for node in three.running():
        for run in load.acknowledged:
            assert len(call(node.http, "GET", workflow_path(run))["signals"]) == 1
    states_agree(three)
    with Load(three) as load:
        pass
    assert load.failed == []


def leads(nodes: Nodes, node_id: str) -> bool:
    with contextlib.suppress(OSError, HttpError):
        return bool(call(nodes[node_id].http, "GET", "/api/health")["role"] == "leader")
    return False


# ---- nodes that never vote ----------------------------------------------------------------------


def test_an_api_node_serves_and_never_votes(three: Nodes) -> None:
    node = three["n4"]
    said = three.cli("node", "add", f"n4={node.raft}", "--as", "api", "--no-wait")
    line = next(each for each in said.splitlines() if "raftflow serve" in each)
    node.start(*line.split()[4:])
    again = three.cli("node", "add", f"n4={node.raft}", "--as", "api", "--timeout", "60s")
    assert again.rstrip().endswith("n4 serves, and never votes")
    wait_for("n4 is ready", node.is_ready)
    with working(three, "n4") as client:
        client.start("Told", workflow_id="through-n4")
        client.signal("through-n4", "word", "heard")
        assert client.result("through-n4", wait=30) == "heard"
    # It counts in no majority: with two voters away nobody leads, with one away all goes on.
    three["n3"].stop()
    call(node.http, "POST", "/api/workflows", {"type": "Told", "workflow_id": "two-of-three"})
    three["n2"].stop()
    with pytest.raises((HttpError, OSError)):
        call(node.http, "POST", "/api/workflows", {"type": "Told", "workflow_id": "one-of-three"})
    peers = ("--peers", three.peers("n1", "n2", "n3"))
    for each in ("n2", "n3"):
        three[each].start(*peers)
    # An empty disk makes no difference to what it is.
    node.stop()
    shutil.rmtree(node.data)
    node.start(*line.split()[4:])
    wait_for("n4 is an API node still", lambda: three.members().get("n4") == "api")
    wait_for("n4 is ready", node.is_ready)
    assert {*three.members().values()} == {"voter", "api"}
    assert "n4 is removed" in three.cli("node", "remove", "n4")
    assert node.ended()[0] == 78


# ---- one machine becomes three ------------------------------------------------------------------


def test_a_node_that_was_born_on_loopback_grows_to_three(nodes: Nodes) -> None:
    """It was started as in the README; the address that others reach came later."""
    nodes["n1"].start()
    nodes.wait_settled("n1")
    with Load(nodes) as load:
        pass
    nodes["n1"].stop()
    nodes["n1"].raft = nodes["n1"].raft.replace("127.0.0.1", "127.0.0.2")
    nodes["n1"].start()
    nodes.wait_settled("n1")
    with Load(nodes) as more:
        for each in ("n2", "n3"):
            said = nodes.add(each)
            assert nodes["n1"].raft in said, "they are told the address that is reached"
        nodes.wait_settled("n1", "n2", "n3")
    assert load.failed + more.failed == []
    nodes["n1"].stop()
    for node in nodes.running():
        for run in (*load.acknowledged, *more.acknowledged):
            found = wait_for("it answers", lambda n=node, r=run: fetched(n.http, r))
            assert len(found["signals"]) == 1, f"{run} at {node.id}"


def fetched(http: str, run: str) -> dict[str, object] | None:
    try:
        found: dict[str, object] = call(http, "GET", workflow_path(run))
    except (HttpError, OSError):
        return None
    return found
