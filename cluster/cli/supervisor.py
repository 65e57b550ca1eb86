"""Keeps the node processes of `raftflow dev`: starts them, notices deaths, stops them all.

One thread and one loop, that looks every POLL_S at what has changed: nothing here is worth a
signal handler that does more than set a flag.
"""

import ctypes
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from raftflow.cluster import config_sources
from raftflow.cluster.cli import devfile
from raftflow.cluster.cli.cert import AUTHORITY_DAYS, DAYS
from raftflow.cluster.cli.devfile import DevCluster, DevNode
from raftflow.cluster.cli.errors import EXIT_USAGE, CommandError
from raftflow.cluster.printable import printable

POLL_S = 0.05
HEALTH_POLL_S = 0.2
HINT_AFTER_S = 10.0
STOP_TIMEOUT_S = 15.0
RESTART_PAUSE_S = 1.0
# -P: a folder named raftflow in the working directory, such as a clone, is not what is installed.
SERVE = (sys.executable, "-P", "-m", "raftflow.cluster.cli.main", "serve")
PR_SET_PDEATHSIG = 1
LAST_WORDS_BYTES = 4096
RENEW_DAYS = 30
# Meant for one node, it would be wrong for the others.
PER_NODE_VARIABLES = ("RAFTFLOW_ADVERTISE_", "RAFTFLOW_PEER_")


class Say(Protocol):
    """A line for people; the same as facts for programs: the `event`, and which node."""

    def __call__(self, text: str, /, **facts: Any) -> None: ...


class Supervisor:
    def __init__(
        self,
        cluster: DevCluster,
        *,
        restart: bool,
        config: Path | None,
        say: Say,
        serve: tuple[str, ...] = SERVE,
    ) -> None:
        self._cluster = cluster
        self._restart = restart
        self._config = config
        self._say = say
        self._serve = serve
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._restart_at: dict[str, float] = {}
        self._ready = False
        self._started_at = 0.0
        self._next_health_check = 0.0
        self._hinted = False
        self._trust: ssl.SSLContext | None = None
        self._stopping = False

    def run(self) -> None:
        """Until a signal, or until every node is dead before there was a leader."""
        self._refuse_certificates()
        _refuse_taken_ports(self._cluster)
        if self._cluster.tls:
            _certify(self._cluster)
            self._trust = ssl.create_default_context(cafile=self._cluster.certificates / "ca.crt")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self._started_at = time.monotonic()
        try:
            for node in self._cluster.nodes:
                self._start(node)
            self._announce()
            while not self._stopping:
                self._reap()
                self._start_wanted()
                self._look_for_leader()
                time.sleep(POLL_S)
        finally:
            self._stop_all()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def _start(self, node: DevNode) -> None:
        devfile.start_request(self._cluster.directory, node.id).unlink(missing_ok=True)
        log = self._log_path(node.id)
        with log.open("ab") as output:
            process = subprocess.Popen(
                self._command(node),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_node_environment(),
                # Ctrl-C at the terminal is for the supervisor, which then stops the nodes.
                start_new_session=True,
                preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - this process has one thread
            )
        self._processes[node.id] = process
        self._record(node.id, process.pid)

    def _refuse_certificates(self) -> None:
        """One certificate for all nodes cannot be right, and here they would be asked in the
        clear. With --tls each has its own."""
        if self._cluster.tls:
            return
        flags = self._settings(self._cluster.nodes[0])
        settings = config_sources.load(flags=flags, env=_node_environment(), file=self._config)
        for name in ("tls_cert_file", "peer_cert_file"):
            if getattr(settings, name):
                raise CommandError(
                    f"{name} is set, by RAFTFLOW_{name.upper()} or --config, and would be the same"
                    " for all nodes: leave it out and use --tls, with which each gets its own",
                    status=EXIT_USAGE,
                )

    def _settings(self, node: DevNode) -> dict[str, str]:
        return {
            "node_id": node.id,
            "data_dir": str(node.data_dir),
            "cluster_id": self._cluster.cluster_id,
            "peers": ",".join(f"{each.id}={each.raft}" for each in self._cluster.nodes),
            "http_addr": node.http,
            "grpc_addr": node.grpc,
            "raft_addr": node.raft,
            "metrics_addr": node.metrics,
        }

    def _command(self, node: DevNode) -> list[str]:
        named = self._settings(node).items()
        flags = {f"--{name.replace('_', '-')}": value for name, value in named}
        if self._cluster.tls:
            flags |= _certificate_flags(self._cluster.certificates, node.id)
        if self._config:
            flags["--config"] = str(self._config.absolute())
        return [*self._serve, *(part for flag in flags.items() for part in flag)]

    def _record(self, node_id: str, pid: int | None) -> None:
        self._cluster = self._cluster.with_pid(node_id, pid)
        devfile.write(self._cluster)

    def _announce(self) -> None:
        for node in self._cluster.nodes:
            self._say(
                f"{node.id}  {self._cluster.url(node)}  grpc {node.grpc}  raft {node.raft}  "
                f"metrics {node.metrics}  log {self._log_path(node.id)}",
                event="serves",
                node=node.id,
                url=self._cluster.url(node),
                grpc=node.grpc,
                raft=node.raft,
                metrics=node.metrics,
                log=str(self._log_path(node.id)),
            )
        if self._cluster.tls:
            urls = ",".join(self._cluster.url(node) for node in self._cluster.nodes)
            trusted = self._cluster.certificates / "ca.crt"
            self._say(
                f"export RAFTFLOW_ADDRESS={urls} RAFTFLOW_CA_FILE={trusted}",
                event="trusts",
                addresses=urls,
                ca_file=str(trusted),
            )

    def _reap(self) -> None:
        for node_id, process in list(self._processes.items()):
            status = process.poll()
            if status is None:
                continue
            del self._processes[node_id]
            self._record(node_id, None)
            said = f" ({self._last_words(node_id)})" if status > 0 else ""
            self._say(
                f"{node_id} {_ending(status)}{said}; {self._next_step(node_id)}",
                event="ended",
                node=node_id,
                status=status,
            )
        if not self._processes and not self._restart_at and not self._ready:
            self._stopping = True
            raise CommandError(f"no node came up; the last words are in {self._log_hint()}")

    def _next_step(self, node_id: str) -> str:
        if self._restart:
            self._restart_at[node_id] = time.monotonic() + RESTART_PAUSE_S
            return "it is started again"
        return (
            f"it stays dead (see {self._log_path(node_id)}); start it with: "
            f"raftflow dev node start {node_id} --data-dir {self._cluster.directory}"
        )

    def _start_wanted(self) -> None:
        now = time.monotonic()
        for node in self._cluster.nodes:
            if node.pid is not None:
                continue
            asked = devfile.start_request(self._cluster.directory, node.id).exists()
            if asked or now >= self._restart_at.get(node.id, now + 1):
                self._restart_at.pop(node.id, None)
                self._start(node)
                pid = self._processes[node.id].pid
                self._say(f"{node.id} started (pid {pid})", event="started", node=node.id, pid=pid)

    def _look_for_leader(self) -> None:
        now = time.monotonic()
        if self._ready or now < self._next_health_check:
            return
        self._next_health_check = now + HEALTH_POLL_S
        living = [node for node in self._cluster.nodes if node.pid is not None]
        leaders = {_leader_seen_by(node, self._trust) for node in living}
        # Every living node knows it: whoever is called next will answer.
        if len(leaders) == 1 and "" not in leaders:
            self._ready = True
            self._say("ready", event="ready", leader=leaders.pop())
        elif now - self._started_at > HINT_AFTER_S and not self._hinted:
            self._hinted = True
            self._say(f"still no leader; see {self._log_hint()}", event="no_leader")

    def _stop_all(self) -> None:
        for process in self._processes.values():
            process.terminate()
            # A node that was paused (SIGSTOP) must wake to hear of it.
            process.send_signal(signal.SIGCONT)
        give_up_at = time.monotonic() + STOP_TIMEOUT_S
        for node_id, process in self._processes.items():
            try:
                process.wait(max(0.0, give_up_at - time.monotonic()))
            except subprocess.TimeoutExpired:
                late = f"{node_id} did not stop in {STOP_TIMEOUT_S:.0f} s and is killed"
                self._say(late, event="killed", node=node_id)
                process.kill()
                process.wait()
            self._record(node_id, None)
        self._processes.clear()

    def _log_path(self, node_id: str) -> Path:
        return self._cluster.directory / f"{node_id}.log"

    def _last_words(self, node_id: str) -> str:
        """The last line of its log: a node that refuses to start says there why."""
        with self._log_path(node_id).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LAST_WORDS_BYTES))
            lines = log.read().decode("utf-8", "replace").splitlines()
        return printable(lines[-1]) if lines else "it said nothing"

    def _log_hint(self) -> str:
        return str(self._cluster.directory / "n*.log")


def _refuse_taken_ports(cluster: DevCluster) -> None:
    """Says which port is taken and what to do, before anything is started."""
    for node in cluster.nodes:
        for name in devfile.PORTS:
            host, _, port = getattr(node, name).rpartition(":")
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((host, int(port)))
                except OSError as error:
                    raise CommandError(
                        f"port {port} ({name} of {node.id}) cannot be used: {error.strerror}; "
                        "choose others with --port-offset"
                    ) from None


def _node_environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith(PER_NODE_VARIABLES)
    }


def _die_with(parent: int) -> Callable[[], None] | None:
    """Run in the child: the kernel kills it when the supervisor is gone, however it went."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def arrange() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return arrange


def _ending(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _certify(cluster: DevCluster) -> None:
    """What is missing or ends soon is made."""
    # It loads a library of X.509: who speaks no TLS need not wait for it.
    from raftflow.cluster.cli.authority import Authority, listed

    authority = Authority(cluster.certificates)
    if not authority.trusted.exists():
        authority.create(cluster.cluster_id, days=AUTHORITY_DAYS)
    for node in cluster.nodes:
        made = authority.certificate(node.id)
        if not made.exists():
            authority.issue(node.id, hosts=("127.0.0.1", "localhost"), days=DAYS)
        elif any(each["days_left"] < RENEW_DAYS for each in listed(made)):
            authority.renew(node.id, days=DAYS)


def _certificate_flags(directory: Path, node_id: str) -> dict[str, str]:
    certificate, key = f"{directory / node_id}.crt", f"{directory / node_id}.key"
    return {
        "--tls-cert-file": certificate,
        "--tls-key-file": key,
        "--peer-cert-file": certificate,
        "--peer-key-file": key,
        "--peer-ca-file": str(directory / "ca.crt"),
    }


def _leader_seen_by(node: DevNode, trust: ssl.SSLContext | None) -> str:
    connection = http.client.HTTPConnection(node.http, timeout=1.0)
    if trust is not None:
        connection = http.client.HTTPSConnection(node.http, timeout=1.0, context=trust)
    try:
        connection.request("GET", "/api/health")
        health = json.loads(connection.getresponse().read())
        return str(health.get("leader") or "")
    except (OSError, ValueError, AttributeError, http.client.HTTPException):
        return ""
    finally:
        connection.close()
