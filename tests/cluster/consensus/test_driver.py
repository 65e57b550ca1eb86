from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from pathlib import Path

import pytest
from consensus_nodes import Cluster, cluster, propose_all
from eventually import eventually

from raftflow.cluster.consensus.identity import IdentityError
from raftflow.cluster.consensus.mesh import AddressUnavailable
from raftflow.cluster.consensus.types import NotLeader, Role, Timing, Unavailable


def numbered(count: int, start: int = 0) -> list[str]:
    return [f"command-{i}" for i in range(start, start + count)]


async def test_three_nodes_elect_and_replicate(tmp_path: Path) -> None:
    async with cluster(tmp_path) as nodes:
        leader = await nodes.leader()
        payloads = numbered(200)
        await propose_all(leader, payloads)
        await nodes.applied(payloads)
        assert len({tuple(store.entries) for store in nodes.stores.values()}) == 1
        follower = next(n for n in nodes.nodes.values() if n.role is Role.FOLLOWER)
        with pytest.raises(NotLeader) as caught:
            follower.propose(b"x")
        assert caught.value.leader == leader.config.node_id
        await eventually(lambda: all(peer.connected for peer in leader.peers().values()))
        assert {peer.http for peer in leader.peers().values()} == {"http-n1", "http-n2", "http-n3"}


@pytest.mark.slow
async def test_the_largest_entry_travels_whole(tmp_path: Path) -> None:
    async with cluster(tmp_path, timing=Timing()) as nodes:
        leader = await nodes.leader()
        payloads = ["x" * leader.config.max_entry_bytes, "y" * 65_536, "z"]
        await propose_all(leader, payloads)
        await nodes.applied(payloads)
        with pytest.raises(ValueError, match="limit"):
            leader.propose(bytes(leader.config.max_entry_bytes + 1))
        assert leader.role is Role.LEADER


async def test_strangers_do_not_disturb_a_working_cluster(tmp_path: Path) -> None:
    async with cluster(tmp_path) as nodes:
        leader = await nodes.leader()
        term = leader.term
        stop = asyncio.Event()

        async def pester(port: int, junk: bytes) -> None:
            while not stop.is_set():
                with contextlib.suppress(ConnectionError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(junk)
                    await writer.drain()
                    writer.close()

        junk = [
            b"GET / HTTP/1.1\r\n\r\n",
            b"\xff" * 8,
            b"\x04\x00\x00\x00oops{}",
            os.urandom(4_096),
        ]
        pests = [
            asyncio.create_task(pester(port, some))
            for port in nodes.ports.values()
            for some in junk
        ]
        for text in numbered(100):
            leader.propose(text.encode())
            await asyncio.sleep(0.002)
        stop.set()
        await asyncio.gather(*pests)
        await nodes.applied(numbered(100))
        assert leader.term == term


async def test_one_node_alone_commits(tmp_path: Path) -> None:
    async with cluster(tmp_path, "n1") as nodes:
        leader = await nodes.leader()
        await propose_all(leader, numbered(10))
        await nodes.applied(numbered(10))
        assert await leader.read_index(timeout_ms=1_000) >= 10


@pytest.mark.slow
async def test_a_cluster_without_its_leader_goes_on_and_the_old_one_comes_back(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as nodes:
        payloads: list[str] = []
        for round_number in range(3):
            leader = await nodes.leader()
            fresh = numbered(20, start=len(payloads))
            await propose_all(leader, fresh)
            payloads += fresh
            await nodes.applied(payloads)
            name = leader.config.node_id
            began = time.monotonic()
            await nodes.stop(name)
            successor = await nodes.leader()
            assert time.monotonic() - began < 1.5
            fresh = numbered(20, start=len(payloads))
            await propose_all(successor, fresh)
            payloads += fresh
            await nodes.applied(payloads)
            await nodes.start(name)
            await nodes.applied(payloads)
            del round_number
        assert len({tuple(store.entries) for store in nodes.stores.values()}) == 1


@pytest.mark.slow
async def test_everything_survives_a_restart_of_all(tmp_path: Path) -> None:
    async with cluster(tmp_path) as nodes:
        await propose_all(await nodes.leader(), numbered(50))
        await nodes.applied(numbered(50))
        nodes.stores["n2"].checkpoint()
        await nodes.stop()
        await nodes.start()
        await nodes.leader()
        await nodes.applied(numbered(50))


async def test_reads_are_confirmed_on_every_node(tmp_path: Path) -> None:
    async with cluster(tmp_path) as nodes:
        leader = await nodes.leader()
        await propose_all(leader, numbered(5))
        await nodes.applied(numbered(5))
        committed = leader.status().commit_index
        for node in nodes.nodes.values():
            indexes = await asyncio.gather(*(node.read_index(timeout_ms=1_000) for _ in range(50)))
            assert min(indexes) >= committed


@pytest.mark.slow
async def test_no_majority_no_read(tmp_path: Path) -> None:
    async with cluster(tmp_path) as nodes:
        leader = await nodes.leader()
        await nodes.stop(*(set(nodes.nodes) - {leader.config.node_id}))
        with pytest.raises(Unavailable):
            await leader.read_index(timeout_ms=1_000)
        await eventually(lambda: leader.role is not Role.LEADER)
        with pytest.raises(NotLeader):
            leader.propose(b"x")


async def lag(nodes: Cluster, *, count: int) -> tuple[str, list[str]]:
    """Stop a follower, write and compact beyond what it has."""
    leader = await nodes.leader()
    lagging = next(name for name in nodes.nodes if name != leader.config.node_id)
    await nodes.stop(lagging)
    payloads = [f"{text}-{'x' * 500}" for text in numbered(count)]
    await propose_all(leader, payloads)
    await nodes.applied(payloads)
    for name, node in nodes.nodes.items():
        nodes.stores[name].checkpoint()
        node.compact(nodes.stores[name].applied_index)
    assert leader.status().first_index > 1
    return lagging, payloads


@pytest.mark.slow
async def test_a_node_that_was_away_too_long_fetches_a_copy(tmp_path: Path) -> None:
    async with cluster(tmp_path, segment_bytes=64 << 10) as nodes:
        lagging, payloads = await lag(nodes, count=1_000)
        await nodes.start(lagging)
        await nodes.applied(payloads)
        assert nodes.stores[lagging].installs == 1
        payloads += numbered(20)
        await propose_all(await nodes.leader(), numbered(20))
        await nodes.applied(payloads)
        await nodes.stop(lagging)
        await nodes.start(lagging)
        await nodes.applied(payloads)


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True])
async def test_a_node_that_lost_its_disk_gets_everything_again(
    tmp_path: Path, compacted: bool
) -> None:
    """Its leader, which goes on, remembers acknowledgements of entries that are gone."""
    async with cluster(tmp_path, segment_bytes=64 << 10) as nodes:
        leader = await nodes.leader()
        payloads = [f"{text}-{'x' * 500}" for text in numbered(400)]
        await propose_all(leader, payloads)
        await nodes.applied(payloads)
        lost = next(name for name in nodes.nodes if name != leader.config.node_id)
        await nodes.stop(lost)
        if compacted:
            for name, node in nodes.nodes.items():
                nodes.stores[name].checkpoint()
                node.compact(nodes.stores[name].applied_index)
        shutil.rmtree(tmp_path / lost)
        shutil.rmtree(tmp_path / f"{lost}-store")
        await nodes.start(lost)
        await nodes.applied(payloads)
        status = nodes.nodes[lost].status()
        assert status.commit_index == status.heard_commit_index == leader.status().commit_index
        assert leader.role is Role.LEADER


async def test_leadership_is_handed_over(tmp_path: Path) -> None:
    async with cluster(tmp_path) as nodes:
        leader = await nodes.leader()
        old = leader.config.node_id
        assert await leader.transfer_leadership(None)
        successor = await nodes.leader(but=old)
        await propose_all(successor, numbered(3))
        await nodes.applied(numbered(3))


async def test_a_second_process_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path, "n1") as nodes:
        with pytest.raises(IdentityError, match="in use"):
            await nodes.start("n1")


async def test_a_taken_port_is_named_and_the_directory_freed(tmp_path: Path) -> None:
    async with cluster(tmp_path, "n1") as nodes:
        other = Cluster(tmp_path / "other", nodes.ports)
        with pytest.raises(AddressUnavailable, match=str(nodes.ports["n1"])):
            await other.start()
        await nodes.stop()
        await other.start()
        await other.leader()
        await other.stop()
