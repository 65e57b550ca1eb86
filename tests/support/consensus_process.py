"""One consensus node in a process of its own, told what to do by JSON lines on stdin.

python consensus_process.py '{"node": "n1", "root": "...", "ports": {...}}'
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop
from consensus_nodes import FileStore

from raftflow.cluster import logs
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.settings import ConsensusConfig
from raftflow.cluster.consensus.types import NotLeader, Role, Timing
from raftflow.raftlog.journal import LogEntry


class Worker(FileStore):
    """A store whose proposals are answered when applied, or when leadership is lost."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.waiting: dict[int, tuple[int, asyncio.Future[bool]]] = {}

    def on_apply(self, entries: Sequence[LogEntry]) -> None:
        super().on_apply(entries)
        for entry in entries:
            term, done = self.waiting.pop(entry.index, (0, None))
            if done is not None:
                done.set_result(term == entry.term)

    def on_role(self, role: Role, term: int, leader: str | None) -> None:
        super().on_role(role, term, leader)
        if role is not Role.LEADER:
            for _, done in self.waiting.values():
                done.set_result(False)
            self.waiting.clear()


async def answer(node: Consensus, store: Worker, order: dict[str, Any]) -> dict[str, Any]:
    match order["do"]:
        case "status":
            status = node.status()
            return {
                "role": status.role.value,
                "leader": status.leader,
                "term": status.term,
                "commit": status.commit_index,
                "first": status.first_index,
                "applied": store.applied_index,
                "count": len(store.payloads),
                "installs": store.installs,
                "elections": status.counters.elections,
            }
        case "propose":
            try:
                proposed = node.propose(order["payload"].encode())
            except NotLeader:
                return {"ok": False, "refused": True}
            done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            store.waiting[proposed.index] = (proposed.term, done)
            return {"ok": await done}
        case "read_index":
            return {"index": await node.read_index(timeout_ms=order["timeout_ms"])}
        case "payloads":
            return {"payloads": store.payloads}
        case "compact":
            store.checkpoint()
            node.compact(store.applied_index)
            return {}
        case "limit_file_size":
            # The next write beyond it fails with EFBIG, as on a full disk.
            resource.setrlimit(resource.RLIMIT_FSIZE, (order["bytes"], resource.RLIM_INFINITY))
            return {}
    raise ValueError(order)


async def serve(options: dict[str, Any]) -> None:
    name, root, ports = options["node"], Path(options["root"]), options["ports"]
    store = Worker(root / f"{name}-store")
    config = ConsensusConfig(
        cluster_id="test",
        node_id=name,
        data_dir=str(root / name),
        listen=f"127.0.0.1:{ports[name]}",
        voters={peer: f"127.0.0.1:{port}" for peer, port in ports.items()},
        timing=Timing(*options["timing"]),
        segment_bytes=options["segment_bytes"],
    )
    node = Consensus(config, store=store)
    node.set_listener(store)
    await node.start()
    tasks: set[asyncio.Task[None]] = set()

    async def handle(order: dict[str, Any]) -> None:
        try:
            result = await answer(node, store, order)
        except Exception as error:  # noqa: BLE001  # the test sees it
            result = {"error": repr(error)}
        print(json.dumps({"id": order["id"], **result}), flush=True)

    while line := await asyncio.to_thread(sys.stdin.readline):
        task = asyncio.create_task(handle(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await node.stop()


class Gone(Exception):
    """The process ended before it answered."""


@dataclass
class NodeProcess:
    """The test's handle on one node."""

    name: str
    options: dict[str, Any]
    log: Path
    _process: asyncio.subprocess.Process | None = None
    _reader: asyncio.Task[None] | None = None
    _waiting: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    _ids: int = 0

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                __file__,
                json.dumps(self.options),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=64 << 20,
            )
        self._reader = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    async def kill(self) -> None:
        """SIGKILL; the process is gone when this returns."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        await self._process.wait()
        if self._reader is not None:
            await self._reader

    async def exit_code(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def ask(self, do: str, **order: Any) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        if self._reader is None or self._reader.done():
            raise Gone(self.name)
        self._ids += 1
        future = self._waiting[self._ids] = asyncio.get_running_loop().create_future()
        line = json.dumps({"id": self._ids, "do": do, **order}) + "\n"
        try:
            self._process.stdin.write(line.encode())
        except RuntimeError as error:  # uvloop: the pipe is closed
            raise Gone(self.name) from error
        return await future

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            result = json.loads(line)
            future = self._waiting.pop(result.pop("id"))
            if not future.done():
                future.set_result(result)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Gone(self.name))
        self._waiting.clear()


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    # Terse: a limited file size holds for the log of the process too.
    logs.configure(level="warning", style="json", node_id=options["node"])
    uvloop.run(serve(options))
