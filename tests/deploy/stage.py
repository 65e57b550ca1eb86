"""Start what a deployment describes, be its user, and say what was seen.

`python -m tests.deploy.stage PLAN` runs in namespaces of its own (`play` makes them): a network, in
which each machine has an address and its names, mounts and processes. The kernel takes all of it
down when the first process ends.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.machines import ROOT, Machine, inside
from tests.jepsen.hosts.isolation import UNSHARE
from tests.jepsen.hosts.network import Network

READY_S = 90.0
STOP_S = 30.0
WATCHED_S = 90.0
PROMETHEUS = "http://127.0.0.1:9099"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`before` run to their end, one after the other; then `nodes` together; once all are ready
    `probes` run, each beside the node of its name, and `after`, as users of the cluster. A
    `prometheus` watches while all is well, and while all nodes but the first are dead. `later` are
    nodes that start when all that is over, `adding` what their operator does then."""

    directory: str
    nodes: tuple[Machine, ...]
    before: tuple[Machine, ...] = ()
    probes: tuple[Machine, ...] = ()
    after: tuple[Machine, ...] = ()
    prometheus: Machine | None = None
    later: tuple[Machine, ...] = ()
    adding: tuple[Machine, ...] = ()
    # What secrets.sh made for its users.
    client_files: str = ""
    http_port: int = 8233
    metrics_port: int = 9090

    def encoded(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Plan:
        crowds = ("nodes", "before", "probes", "after", "later", "adding")
        known = {name: tuple(map(Machine.of, fields.pop(name))) for name in crowds}
        watching = fields.pop("prometheus")
        prometheus = None if watching is None else Machine.of(watching)
        return cls(**known, prometheus=prometheus, **fields)


@dataclass(slots=True)
class Seen:
    """What came of it."""

    readiness: dict[str, Any] = field(default_factory=dict)
    without_token: dict[str, int] = field(default_factory=dict)
    in_clear: dict[str, str] = field(default_factory=dict)
    run_status: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)
    probes: dict[str, tuple[int, str]] = field(default_factory=dict)
    after: dict[str, tuple[int, str]] = field(default_factory=dict)
    # What the kernel says of the process: its user, its rights, whether calls are filtered.
    rights: dict[str, dict[str, str]] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    alerts_when_well: list[str] = field(default_factory=list)
    alerts_without_quorum: list[str] = field(default_factory=list)
    exits: dict[str, int] = field(default_factory=dict)


def obstacle() -> str:
    if os.geteuid() != 0:
        return "needs root, for networks and mounts"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "needs /dev/net/tun"
    probe = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else f"unshare: {probe.stderr.strip()}"


def need_a_stage() -> None:
    problem = obstacle()
    if problem and os.environ.get("CI"):
        pytest.fail(f"CI plays deployments: {problem}")
    if problem:
        pytest.skip(problem)


def play(plan: Plan) -> Seen:
    """In namespaces that are gone when this returns."""
    directory = Path(plan.directory)
    (directory / "plan.json").write_text(plan.encoded())
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-m", "tests.deploy.stage", str(directory / "plan.json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    said = "\n".join(
        f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
        for path in sorted(directory.glob("*.log"))
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{said}"
    return Seen(**json.loads(done.stdout))


class Stage:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.directory = Path(plan.directory)
        nodes = (*plan.nodes, *plan.later)
        self.network = Network([node.name for node in nodes])
        self.hosts = "".join(
            f"{self.network.address(node.name)} {name}\n" for node in nodes for name in node.names
        )
        self.seen = Seen()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._know_the_names()

    def _know_the_names(self) -> None:
        known = self.directory / "hosts"
        known.write_text(f"127.0.0.1 localhost\n{self.hosts}")
        subprocess.run(["mount", "--bind", known, "/etc/hosts"], check=True)

    def play(self) -> Seen:
        for machine in self.plan.before:
            status, said = self._to_the_end(machine)
            assert status == 0, f"{machine.name}: {status}\n{said}"
        for node in self.plan.nodes:
            self._start(node)
        for node in self.plan.nodes:
            self.seen.readiness[node.name] = self._ready(node)
        if self.plan.nodes:
            self._use()
        for probe in self.plan.probes:
            prefix = self.network.wrapper(probe.name)
            self.seen.probes[probe.name] = self._to_the_end(probe, prefix=prefix)
        for machine in self.plan.after:
            self.seen.after[machine.name] = self._to_the_end(machine)
        if self.plan.prometheus is not None:
            self._watch(self.plan.prometheus)
        for node in self.plan.later:
            self._start(node)
        for machine in self.plan.adding:
            self.seen.after[machine.name] = self._to_the_end(machine)
        for node in self.plan.later:
            self.seen.readiness[node.name] = self._ready(node)
        self._stop()
        return self.seen

    # ---- processes ------------------------------------------------------------------------------

    def _start(self, node: Machine) -> None:
        command = [*self.network.wrapper(node.name), *inside(node, self.hosts)]
        with (self.directory / f"{node.name}.log").open("ab") as output:
            self._running[node.name] = subprocess.Popen(command, stdout=output, stderr=output)

    def _to_the_end(self, machine: Machine, *, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
        done = subprocess.run(
            [*prefix, *inside(machine, self.hosts)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout

    def _watch(self, prometheus: Machine) -> None:
        with (self.directory / "prometheus.log").open("wb") as output:
            command = inside(prometheus, self.hosts)
            watching = subprocess.Popen(command, stdout=output, stderr=output)
        nodes = len(self.plan.nodes)
        scraped = 'up{job="raftflow"} == 1'
        _wait_for(lambda: len(self._asked(scraped)) == nodes, WATCHED_S, self._not_scraped)
        self.seen.targets = sorted(each["instance"] for each in self._asked(scraped))
        # Long enough to see what is pending at first, and then fires.
        _wait_for(
            lambda: self._asked("workflowd_raft_leader_known offset 20s == 1"),
            WATCHED_S,
            lambda: "no leader is known to Prometheus",
        )
        self.seen.alerts_when_well = self._alerts()
        for node in self.plan.nodes[1:]:
            lost = self._running.pop(node.name)
            os.kill(_program_of(lost.pid), signal.SIGKILL)
            lost.wait(STOP_S)
        _wait_for(
            lambda: "RaftflowNoQuorum" in self._alerts(),
            WATCHED_S,
            lambda: f"alerts: {self._alerts()}",
        )
        self.seen.alerts_without_quorum = self._alerts()
        os.kill(_program_of(watching.pid), signal.SIGKILL)
        watching.wait(STOP_S)

    def _not_scraped(self) -> str:
        with urllib.request.urlopen(f"{PROMETHEUS}/api/v1/targets", timeout=10) as answer:
            found = json.loads(answer.read())["data"]["activeTargets"]
        return f"not scraped: {[each['lastError'] for each in found]}"

    def _alerts(self) -> list[str]:
        firing = self._asked('ALERTS{alertstate="firing"}')
        return sorted({each["alertname"] for each in firing})

    def _asked(self, query: str) -> list[dict[str, str]]:
        """The labels of what Prometheus answers."""
        words = urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(f"{PROMETHEUS}/api/v1/query?{words}", timeout=10) as answer:
                found = json.loads(answer.read())
        except OSError:
            return []
        return [each["metric"] for each in found["data"]["result"]]

    def _stop(self) -> None:
        """As a supervisor does; unshare(1) passes no signals on, so the program itself gets it."""
        for process in self._running.values():
            os.kill(_program_of(process.pid), signal.SIGTERM)
        for name, process in self._running.items():
            self.seen.exits[name] = process.wait(STOP_S)

    # ---- a user ---------------------------------------------------------------------------------

    def _ready(self, node: Machine) -> Any:
        last = ""

        def answer() -> Any:
            nonlocal last
            status = self._running[node.name].poll()
            assert status is None, f"{node.name} ended with {status}"
            try:
                return self._call(node, "GET", "/api/ready", token="")
            except urllib.error.HTTPError as error:
                last = f"{error.code} {error.read().decode()}"
            except OSError as error:
                last = str(error)
            return None

        return _wait_for(answer, READY_S, lambda: f"{node.name} is not ready: {last}")

    def _use(self) -> None:
        first, *others = self.plan.nodes
        types = {"workflow_types": ["Order"], "worker_id": "w"}
        self._call(first, "POST", "/api/workflow-types", types)
        self._call(first, "POST", "/api/workflows", {"type": "Order", "workflow_id": "order-1"})
        for node in (first, *others):
            described = self._call(node, "GET", "/api/workflows/order-1")
            self.seen.run_status[node.name] = described["status"]
            self.seen.metrics[node.name] = self._metrics(node)
            self.seen.rights[node.name] = _rights(_program_of(self._running[node.name].pid))
            self.seen.in_clear[node.name] = self._in_clear(node)
            for port, path in (
                (self.plan.http_port, "/api/workflows"),
                (self.plan.metrics_port, "/metrics"),
            ):
                self.seen.without_token[f"{node.name}{path}"] = self._refused(node, port, path)

    def _refused(self, node: Machine, port: int, path: str) -> int:
        try:
            self._fetch(node, port, "GET", path, token="")
        except urllib.error.HTTPError as error:
            return error.code
        return 200

    def _call(
        self, node: Machine, method: str, path: str, body: Any = None, *, token: str = "token"
    ) -> Any:
        return json.loads(self._fetch(node, self.plan.http_port, method, path, body, token=token))

    def _metrics(self, node: Machine) -> str:
        text = self._fetch(node, self.plan.metrics_port, "GET", "/metrics", token="metrics-token")
        return text.decode()

    def _fetch(
        self,
        node: Machine,
        port: int,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str,
    ) -> bytes:
        files = Path(self.plan.client_files)
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {(files / token).read_text()}"
        request = urllib.request.Request(
            f"https://{node.names[0]}:{port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers=headers,
        )
        trusting = ssl.create_default_context(cafile=files / "ca.crt")
        with urllib.request.urlopen(request, timeout=20, context=trusting) as answer:
            content: bytes = answer.read()
        return content

    def _in_clear(self, node: Machine) -> str:
        """What a caller gets who speaks no TLS."""
        with socket.create_connection((node.names[0], self.plan.http_port), timeout=10) as caller:
            caller.sendall(b"GET /api/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            try:
                return caller.recv(64).decode(errors="replace")
            except OSError:
                return ""


def _program_of(pid: int) -> int:
    """The child of unshare(1)."""
    [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def _rights(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {
        name: " ".join(rest.split()) for name, _, rest in (line.partition(":") for line in lines)
    }


def _wait_for(condition: Callable[[], Any], within_s: float, problem: Callable[[], str]) -> Any:
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, problem()
        time.sleep(0.1)
    return value


# ---- what every deployment must show ------------------------------------------------------------


def check(plan: Plan, seen: Seen) -> None:
    """Three nodes serve as one, to those who belong and to nobody else, and stop in order."""
    names = [node.name for node in plan.nodes]
    assert len(names) == 3
    leaders = {seen.readiness[name]["leader"] for name in names}
    assert len(leaders) == 1
    for node in plan.later:  # ready only once they vote
        assert seen.readiness[node.name]["ready"]
    assert seen.run_status == dict.fromkeys(names, "WAITING")
    for text in seen.metrics.values():
        assert "workflowd_raft_leader_known 1.0" in text
        assert "workflowd_raft_voters_connected 3.0" in text
    # The run that was started has a decision for which nobody has come yet.
    led = next(text for name, text in seen.metrics.items() if {name} == leaders)
    assert "workflowd_workflow_task_queue_depth 1.0" in led
    assert value(led, "workflowd_workflow_task_queue_oldest_seconds") > 0
    for text in seen.metrics.values():
        assert (
            value(text, "workflowd_disk_size_bytes") > value(text, "workflowd_disk_free_bytes") > 0
        )
        assert value(text, 'workflowd_data_bytes{part="log"}') > 0
    for node in plan.nodes:
        rights = seen.rights[node.name]
        assert set(rights["Uid"].split()) == {str(node.user)}
        assert (int(rights["CapEff"], 16), int(rights["CapBnd"], 16)) == (0, 0)
        assert rights["NoNewPrivs"] == "1"
        assert rights["Seccomp"] == ("2" if node.syscalls else "0")
    for status, said in (*seen.probes.values(), *seen.after.values()):
        assert status == 0, said
    assert set(seen.without_token.values()) == {401}
    assert not any(text.startswith("HTTP") for text in seen.in_clear.values()), seen.in_clear
    for name in names:
        uses = re.findall(r'certificate_expiry_seconds\{use="(\w+)"\}', seen.metrics[name])
        assert {"api", "peer"} <= set(uses)
    everybody = [*names, *(node.name for node in plan.later)]
    assert seen.exits == dict.fromkeys(everybody, 0)


def value(metrics: str, series: str) -> float:
    [line] = [line for line in metrics.splitlines() if line.startswith(f"{series} ")]
    return float(line.split()[-1])


if __name__ == "__main__":
    _plan = Plan.of(json.loads(Path(sys.argv[1]).read_text()))
    print(json.dumps(asdict(Stage(_plan).play())))
