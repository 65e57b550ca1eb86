"""Real meshes on loopback, each with a recording raft handler and a channel."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from eventually import eventually
from ports import free_ports

from raftflow.cluster.consensus.certified import PeerTls
from raftflow.cluster.consensus.channel import PeerChannel
from raftflow.cluster.consensus.handshake import Hello, Purpose
from raftflow.cluster.consensus.ledger import PeerLedger
from raftflow.cluster.consensus.link import Link, LinkLimits
from raftflow.cluster.consensus.mesh import Mesh

FAST = LinkLimits(
    handshake_timeout_ms=300, keepalive_ms=50, silence_ms=300, send_buffer_bytes=1 << 20
)


@dataclass
class Recorder:
    """A handler of one purpose that remembers everything."""

    frames: list[tuple[str, bytes]] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)

    def link_up(self, link: Link) -> None:
        self.events.append(("up", link.peer_id))

    def link_frame(self, link: Link, payload: bytes) -> None:
        self.frames.append((link.peer_id, payload))

    def link_down(self, link: Link, *, died: bool) -> None:
        self.events.append(("died" if died else "down", link.peer_id))


@dataclass
class Peer:
    mesh: Mesh
    raft: Recorder
    channel: PeerChannel
    hello: Hello
    port: int
    refusals: list[tuple[str, str]] = field(default_factory=list)  # of this node, by others

    def link(self, other: str, purpose: Purpose = Purpose.RAFT) -> Link | None:
        return self.mesh.link(other, purpose)


def hello_of(node_id: str, *, cluster_id: str = "test", boot_id: str = "boot") -> Hello:
    return Hello(
        cluster_id=cluster_id,
        node_id=node_id,
        incarnation=f"inc-{node_id}",
        boot_id=boot_id,
        feature_level=1,
        version="test",
        http=f"{node_id}:1",
        grpc=f"{node_id}:2",
        raft=f"{node_id}:3",
        metrics=f"{node_id}:4",
    )


async def start_peer(
    node_id: str,
    ports: dict[str, int],
    *,
    limits: LinkLimits = FAST,
    hello: Hello | None = None,
    tls: PeerTls | None = None,
    ledger: PeerLedger | None = None,
) -> Peer:
    def serves(peer: str) -> bool:
        return mesh.is_member(peer)

    raft, channel = Recorder(), PeerChannel(serves=serves)
    hello = hello or hello_of(node_id)
    refusals: list[tuple[str, str]] = []
    mesh = Mesh(
        hello=hello,
        listen=f"127.0.0.1:{ports[node_id]}",
        peers={peer: f"127.0.0.1:{port}" for peer, port in ports.items() if peer != node_id},
        handlers={Purpose.RAFT: raft, Purpose.CHANNEL: channel},
        limits=limits,
        tls=tls,
        ledger=ledger,
        on_refused=lambda peer, refusal: refusals.append((peer, refusal.reason)),
    )
    await mesh.bind()
    await mesh.start()
    return Peer(mesh, raft, channel, hello, ports[node_id], refusals)


@asynccontextmanager
async def meshed(*node_ids: str, limits: LinkLimits = FAST) -> AsyncIterator[dict[str, Peer]]:
    """All of them, all connected, stopped at the end."""
    ports = dict(zip(node_ids, free_ports(len(node_ids)), strict=True))
    peers = {node_id: await start_peer(node_id, ports, limits=limits) for node_id in node_ids}
    for one, other in itertools.permutations(node_ids, 2):
        for purpose in Purpose:
            await eventually(lambda o=one, p=other, q=purpose: peers[o].link(p, q))
    try:
        yield peers
    finally:
        for peer in peers.values():
            await peer.mesh.stop()
