"""Commits per second and their latency: three processes, loopback, fsync on, apply does nothing.

    python benchmarks/commit.py [--seconds 5] [--concurrency 1,16,64,256] [--in-flight 2]

Every client proposes one 256-byte command at a time in the leader's process. The proposer is the
smallest group commit there is: what arrives while entries are being written becomes the next entry.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import structlog
import uvloop

from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.settings import ConsensusConfig
from raftflow.cluster.consensus.types import Role, SnapshotManifest
from raftflow.raftlog.journal import LogEntry

COMMAND = os.urandom(256)
COLUMNS = (
    ("clients", "clients"),
    ("commits/s", "rate"),
    ("p50 ms", "p50_ms"),
    ("p99 ms", "p99_ms"),
    ("max ms", "max_ms"),
    ("entries/s", "entries"),
    ("cmds/entry", "batch"),
    ("fsyncs/s L", "fsyncs_leader"),
    ("fsync ms", "fsync_ms"),
    ("msgs/s L", "messages"),
    ("CPU L", "cpu_leader"),
    ("CPU F", "cpu_followers"),
    ("lag p99 ms", "lag_ms"),
)


class NoStore:
    """A store that is nothing and never behind."""

    applied_index = applied_term = 0

    async def make_copy(self) -> tuple[str, SnapshotManifest]:
        raise NotImplementedError

    async def install(self, path: str, manifest: SnapshotManifest) -> None:
        raise NotImplementedError

    def release(self, snapshot_id: str) -> None:
        raise NotImplementedError


class GroupCommit:
    def __init__(self, node: Consensus, *, in_flight: int) -> None:
        self._node = node
        self._limit = in_flight
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._written: dict[int, list[tuple[bytes, asyncio.Future[None]]]] = {}
        self._scheduled = False
        self.entries = 0

    def submit(self, command: bytes) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, done))
        self._schedule()
        return done

    def on_apply(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            for _, done in self._written.pop(entry.index, ()):
                done.set_result(None)
        if self._waiting:
            self._schedule()

    def on_role(self, role: Role, term: int, leader: str | None) -> None:
        if self._written and role is not Role.LEADER:
            sys.exit("lost leadership during the benchmark")

    def _schedule(self) -> None:
        if not self._scheduled and len(self._written) < self._limit:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._propose)

    def _propose(self) -> None:
        self._scheduled = False
        if self._waiting and len(self._written) < self._limit:
            batch, self._waiting = self._waiting, []
            proposed = self._node.propose(b"".join(command for command, _ in batch))
            self._written[proposed.index] = batch
            self.entries += 1


def counters(node: Consensus) -> dict[str, float]:
    usage, stats = resource.getrusage(resource.RUSAGE_SELF), node.stats()
    return {
        "cpu": usage.ru_utime + usage.ru_stime,
        "flushes": stats.flushes,
        "flush_seconds": stats.flush_seconds,
        "messages": stats.messages_sent + stats.messages_received,
        "lag_ms": stats.loop_lag.p99_ms,
        "at": time.perf_counter(),
    }


async def load(proposer: GroupCommit, clients: int, seconds: float) -> dict[str, Any]:
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def client() -> None:
        while (began := time.perf_counter()) < end:
            await proposer.submit(COMMAND)
            latencies.append(time.perf_counter() - began)

    entries, began = proposer.entries, time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    took = time.perf_counter() - began
    latencies.sort()
    return {
        "clients": clients,
        "rate": len(latencies) / took,
        "p50_ms": latencies[len(latencies) // 2] * 1000,
        "p99_ms": latencies[int(len(latencies) * 0.99)] * 1000,
        "max_ms": latencies[-1] * 1000,
        "entries": (proposer.entries - entries) / took,
        "batch": len(latencies) / max(1, proposer.entries - entries),
    }


async def serve(options: argparse.Namespace) -> None:
    """One node, told what to do line by line."""
    voters = json.loads(options.voters)
    config = ConsensusConfig(
        cluster_id="bench",
        node_id=options.node,
        data_dir=options.data,
        listen=voters[options.node],
        voters=voters,
    )
    node = Consensus(config, store=NoStore())
    proposer = GroupCommit(node, in_flight=options.in_flight)
    node.set_listener(proposer)
    await node.start()
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        answer: dict[str, Any] = {"leads": node.role is Role.LEADER, **counters(node)}
        if order:
            answer = await load(proposer, order["clients"], order["seconds"])
        print(json.dumps(answer), flush=True)
    await node.stop()


class Process:
    def __init__(self, arguments: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **order: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def free_addresses(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]


def find_leader(nodes: dict[str, Process]) -> str:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        leaders = [name for name, node in nodes.items() if node.ask()["leads"]]
        if len(leaders) == 1:
            return leaders[0]
        time.sleep(0.1)
    raise SystemExit("no leader within 10 s")


def measure(nodes: dict[str, Process], clients: int, seconds: float) -> dict[str, Any]:
    leader = find_leader(nodes)
    before = {name: node.ask() for name, node in nodes.items()}
    result = nodes[leader].ask(clients=clients, seconds=seconds)
    after = {name: node.ask() for name, node in nodes.items()}

    def delta(name: str, what: str) -> float:
        return float(after[name][what] - before[name][what])

    took, flushes = delta(leader, "at"), delta(leader, "flushes")
    followers = nodes.keys() - {leader}
    return result | {
        "fsyncs_leader": flushes / took,
        "fsync_ms": delta(leader, "flush_seconds") / max(1, flushes) * 1000,
        "messages": delta(leader, "messages") / took,
        "cpu_leader": delta(leader, "cpu") / took,
        "cpu_followers": sum(delta(name, "cpu") / took for name in followers) / len(followers),
        "lag_ms": after[leader]["lag_ms"],
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--concurrency", default="1,16,64,256")
    parser.add_argument("--in-flight", type=int, default=2)
    parser.add_argument("--dir", help="where the data goes (default: a temporary directory)")
    for hidden in ("--node", "--data", "--voters"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.node:
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )
        uvloop.run(serve(options))
        return
    with tempfile.TemporaryDirectory(dir=options.dir) as root:
        voters = dict(zip(("n1", "n2", "n3"), free_addresses(3), strict=True))
        common = ["--voters", json.dumps(voters), "--in-flight", str(options.in_flight)]
        nodes = {
            name: Process([*common, "--node", name, "--data", os.path.join(root, name)])
            for name in voters
        }
        try:
            print("  ".join(f"{title:>10}" for title, _ in COLUMNS))
            for clients in map(int, options.concurrency.split(",")):
                result = measure(nodes, clients, options.seconds)
                print("  ".join(f"{result[key]:>10.2f}" for _, key in COLUMNS), flush=True)
        finally:
            for node in nodes.values():
                node.stop()


if __name__ == "__main__":
    main()
