"""Whole consensus nodes in this process: real sockets, real disks, a small store in a file."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from eventually import eventually
from ports import free_ports

from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.link import LinkLimits
from raftflow.cluster.consensus.settings import ConsensusConfig
from raftflow.cluster.consensus.types import Role, SnapshotManifest, Timing
from raftflow.raftlog.journal import LogEntry


class FileStore:
    """Applies by remembering; durable when told to be."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._path = directory / "store.json"
        self.entries: list[tuple[int, int, str]] = []
        self.applied_index = self.applied_term = 0
        self.roles: list[tuple[Role, int, str | None]] = []
        self.installs = 0
        if self._path.exists():
            self._load(self._path)

    @property
    def payloads(self) -> list[str]:
        return [payload for _, _, payload in self.entries if payload]

    def on_apply(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            if entry.index <= self.applied_index:
                continue
            assert entry.index == self.applied_index + 1, (entry.index, self.applied_index)
            self.entries.append((entry.index, entry.term, entry.payload.decode()))
            self.applied_index, self.applied_term = entry.index, entry.term

    def on_role(self, role: Role, term: int, leader: str | None) -> None:
        self.roles.append((role, term, leader))

    def checkpoint(self) -> None:
        self._dump(self._path)

    async def make_copy(self) -> tuple[str, SnapshotManifest]:
        path = self._directory / f"copy-{self.applied_index}"
        self._dump(path)
        content = path.read_bytes()
        return str(path), SnapshotManifest(
            index=self.applied_index,
            term=self.applied_term,
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            snapshot_id=f"copy-{self.applied_index}",
        )

    async def install(self, path: str, manifest: SnapshotManifest) -> None:
        os.replace(path, self._path)
        self._load(self._path)
        assert self.applied_index == manifest.index
        self.installs += 1

    def release(self, snapshot_id: str) -> None:
        (self._directory / snapshot_id).unlink()

    def _dump(self, path: Path) -> None:
        path.with_suffix(".tmp").write_text(json.dumps(self.entries))
        path.with_suffix(".tmp").rename(path)

    def _load(self, path: Path) -> None:
        self.entries = [tuple(entry) for entry in json.loads(path.read_text())]
        self.applied_index, self.applied_term = self.entries[-1][:2] if self.entries else (0, 0)


class Died(Exception):
    """The process would have ended here."""


def die(error: BaseException) -> NoReturn:
    raise Died(str(error)) from error


@dataclass
class Cluster:
    root: Path
    ports: dict[str, int]
    timing: Timing = field(default_factory=lambda: Timing(30, 250, 500))
    limits: LinkLimits = field(default_factory=LinkLimits)
    segment_bytes: int = 64 << 20
    nodes: dict[str, Consensus] = field(default_factory=dict)
    stores: dict[str, FileStore] = field(default_factory=dict)

    born: tuple[str, ...] = ()  # with whom the cluster began; all, unless some join later

    def address(self, node_id: str) -> str:
        return f"127.0.0.1:{self.ports[node_id]}"

    async def start(self, *node_ids: str) -> None:
        for node_id in node_ids or self.born or self.ports:
            config = ConsensusConfig(
                cluster_id="test",
                node_id=node_id,
                data_dir=str(self.root / node_id),
                listen=self.address(node_id),
                voters={peer: self.address(peer) for peer in self.born or self.ports},
                raft=self.address(node_id),
                http=f"http-{node_id}",
                timing=self.timing,
                limits=self.limits,
                segment_bytes=self.segment_bytes,
            )
            store = FileStore(self.root / f"{node_id}-store")
            node = Consensus(config, store=store, die=die)
            node.set_listener(store)
            await node.start()
            self.nodes[node_id], self.stores[node_id] = node, store

    async def stop(self, *node_ids: str) -> None:
        for node_id in node_ids or tuple(self.nodes):
            await self.nodes.pop(node_id).stop()

    async def leader(self, *node_ids: str, but: str = "") -> Consensus:
        """Whom all agree on: of these, or of all that run."""

        def found() -> Consensus | None:
            asked = [self.nodes[node_id] for node_id in node_ids] or list(self.nodes.values())
            leaders = [n for n in asked if n.role is Role.LEADER]
            names = {n.leader for n in asked}
            agreed = len(leaders) == 1 and names == {leaders[0].config.node_id}
            return leaders[0] if agreed and leaders[0].config.node_id != but else None

        return await eventually(found, "one leader that all agree on")

    async def applied(self, payloads: Sequence[str], *node_ids: str) -> None:
        for node_id in node_ids or tuple(self.nodes):
            store = self.stores[node_id]
            await eventually(
                lambda store=store: store.payloads == list(payloads),
                f"{node_id} applies {len(payloads)} entries",
            )


@asynccontextmanager
async def cluster(root: Path, *node_ids: str, **settings: object) -> AsyncIterator[Cluster]:
    names = node_ids or ("n1", "n2", "n3")
    made = Cluster(root, dict(zip(names, free_ports(len(names)), strict=True)), **settings)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


async def propose_all(node: Consensus, payloads: Sequence[str]) -> None:
    for payload in payloads:
        node.propose(payload.encode())
        await asyncio.sleep(0)
