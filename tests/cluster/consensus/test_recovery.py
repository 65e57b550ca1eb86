"""Whole consensus nodes over real sockets and disks: damaged logs and lost states come back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from consensus_nodes import Cluster, cluster
from corrupt import damage_entry
from eventually import eventually

from raftflow.raftlog.errors import JournalDamaged

SENT = [str(number) for number in range(12)]


async def loaded(nodes: Cluster) -> None:
    leader = await nodes.leader()
    for payload in SENT:
        leader.propose(payload.encode())
    await nodes.applied(SENT)


@pytest.mark.slow
async def test_a_different_entry_on_every_node_comes_back(tmp_path: Path) -> None:
    async with cluster(tmp_path) as nodes:
        await loaded(nodes)
        names = sorted(nodes.nodes)
        await nodes.stop()
        for number, name in enumerate(names):
            damage_entry(tmp_path / name / "raft", 4 + 2 * number)
        await asyncio.gather(*(nodes.start(name) for name in names))
        await nodes.leader()
        await nodes.applied(SENT)


@pytest.mark.slow
async def test_a_state_that_was_lost_is_copied_from_a_peer(tmp_path: Path) -> None:
    async with cluster(tmp_path, segment_bytes=4096 + 120) as nodes:
        await loaded(nodes)
        for name, node in nodes.nodes.items():
            nodes.stores[name].checkpoint()
            node.compact(8)
        await eventually(
            lambda: all(node.status().first_index > 1 for node in nodes.nodes.values()),
            "the logs are compacted",
        )
        await nodes.stop("n2")
        (tmp_path / "n2-store" / "store.json").unlink()
        await nodes.start("n2")
        await nodes.nodes["n2"].recovery.has_state()
        await nodes.applied(SENT)
        assert nodes.stores["n2"].installs == 1
        assert nodes.nodes["n2"].recovery.waiting_for == ""


async def test_a_cluster_of_one_refuses_as_ever(tmp_path: Path) -> None:
    async with cluster(tmp_path, "n1") as nodes:
        await loaded(nodes)
        await nodes.stop()
        damage_entry(tmp_path / "n1" / "raft", 3)
        with pytest.raises(JournalDamaged):
            await nodes.start()
