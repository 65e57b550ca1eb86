"""Three real processes on loopback with real disks, and what SIGKILL and SIGSTOP do to them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from consensus_process import Gone, NodeProcess
from eventually import eventually
from ports import free_ports

from raftflow.cluster.consensus.ending import EXIT_FATAL

pytestmark = pytest.mark.cluster
TIMING = [50, 400, 800]


class Processes:
    def __init__(self, root: Path, *, segment_bytes: int = 1 << 20) -> None:
        ports = dict(zip(("n1", "n2", "n3"), free_ports(3), strict=True))
        common = {"root": str(root), "ports": ports, "timing": TIMING}
        self.nodes = {
            name: NodeProcess(
                name,
                {"node": name, "segment_bytes": segment_bytes, **common},
                root / f"{name}.log",
            )
            for name in ports
        }
        self.acked: list[str] = []
        self.unknown: list[str] = []

    async def statuses(self, *names: str) -> dict[str, dict[str, Any]]:
        async def one(name: str) -> tuple[str, dict[str, Any]]:
            with contextlib.suppress(Gone, TimeoutError):
                return name, await asyncio.wait_for(self.nodes[name].ask("status"), 0.5)
            return name, {"role": "", "leader": None, "term": 0, "count": -1}

        return dict(await asyncio.gather(*(one(name) for name in names or self.nodes)))

    async def until(self, condition: Any, what: str, *names: str, within_s: float = 20) -> Any:
        deadline = time.monotonic() + within_s
        while True:
            statuses = await self.statuses(*names)
            if result := condition(statuses):
                return result
            assert time.monotonic() < deadline, f"not within {within_s} s: {what}; {statuses}"
            await asyncio.sleep(0.01)

    async def leader(self, *names: str) -> str:
        def found(statuses: dict[str, dict[str, Any]]) -> str | None:
            leaders = [name for name, status in statuses.items() if status["role"] == "leader"]
            agreed = {status["leader"] for status in statuses.values()} == set(leaders)
            return leaders[0] if len(leaders) == 1 and agreed else None

        return str(await self.until(found, "one leader", *names))

    async def write(self, name: str, payload: str) -> bool:
        """One write with its outcome booked: acknowledged, refused, or unknown."""
        try:
            result = await self.nodes[name].ask("propose", payload=payload)
        except Gone:
            result = {"ok": False}
        if result["ok"]:
            self.acked.append(payload)
        elif not result.get("refused"):
            self.unknown.append(payload)
        return bool(result["ok"])

    async def settled(self) -> list[str]:
        """All nodes have the same payloads; returns them. Nothing acknowledged may be missing."""
        await self.until(
            lambda statuses: (
                len({status["count"] for status in statuses.values()}) == 1
                and min(status["count"] for status in statuses.values()) >= len(self.acked)
            ),
            "equal counts",
        )
        answers = [await node.ask("payloads") for node in self.nodes.values()]
        payloads: list[str] = answers[0]["payloads"]
        assert all(answer["payloads"] == payloads for answer in answers)
        assert len(set(payloads)) == len(payloads)
        assert set(self.acked) <= set(payloads)
        assert set(payloads) <= set(self.acked) | set(self.unknown)
        return payloads


@asynccontextmanager
async def processes(root: Path, **settings: Any) -> AsyncIterator[Processes]:
    cluster = Processes(root, **settings)
    try:
        await asyncio.gather(*(node.start() for node in cluster.nodes.values()))
        yield cluster
    finally:
        await asyncio.gather(*(node.kill() for node in cluster.nodes.values()))


async def write_steadily(cluster: Processes, stop: asyncio.Event, gaps: list[float]) -> None:
    """Write to whoever leads, one after the other; note the pauses between acknowledgements."""
    number, last_ack, target = 0, time.monotonic(), "n1"
    while not stop.is_set():
        number += 1
        if await cluster.write(target, f"w{number}"):
            gaps.append(time.monotonic() - last_ack)
            last_ack = time.monotonic()
            continue
        statuses = await cluster.statuses()
        terms = {s["term"]: name for name, s in statuses.items() if s["role"] == "leader"}
        target = terms[max(terms)] if terms else target
        await asyncio.sleep(0.005)


async def test_kill_9_of_the_leader_loses_nothing_and_costs_little(tmp_path: Path) -> None:
    async with processes(tmp_path) as cluster:
        await cluster.leader()
        stop, gaps = asyncio.Event(), [0.0]
        writing = asyncio.create_task(write_steadily(cluster, stop, gaps))
        for _ in range(4):
            leader = await cluster.leader()
            await asyncio.sleep(0.2)
            await cluster.nodes[leader].kill()
            others = [name for name in cluster.nodes if name != leader]
            await cluster.leader(*others)
            await cluster.nodes[leader].start()
            await cluster.leader()
        stop.set()
        await writing
        await cluster.settled()
        print(f"longest pause {max(gaps) * 1000:.0f} ms, {len(cluster.acked)} acknowledged")
        assert max(gaps) < 1.5


async def test_kill_9_of_all_loses_nothing(tmp_path: Path) -> None:
    async with processes(tmp_path) as cluster:
        leader = await cluster.leader()
        writes = [cluster.write(leader, f"w{i}") for i in range(500)]
        writing = asyncio.gather(*writes)
        await eventually(lambda: len(cluster.acked) >= 100)
        await asyncio.gather(*(node.kill() for node in cluster.nodes.values()))
        await writing
        await asyncio.gather(*(node.start() for node in cluster.nodes.values()))
        leader = await cluster.leader()
        assert await cluster.write(leader, "after")
        assert (await cluster.settled())[-1] == "after"


async def test_a_follower_that_stood_still_deposes_nobody(tmp_path: Path) -> None:
    async with processes(tmp_path) as cluster:
        leader = await cluster.leader()
        before = (await cluster.statuses())[leader]
        follower = next(name for name in cluster.nodes if name != leader)
        for pause_s in (1.0, 2.0, 4.0):
            os.kill(cluster.nodes[follower].pid, signal.SIGSTOP)
            writes = [cluster.write(leader, f"{pause_s}-{i}") for i in range(100)]
            assert all(await asyncio.gather(*writes))
            await asyncio.sleep(pause_s)
            os.kill(cluster.nodes[follower].pid, signal.SIGCONT)
            await cluster.settled()
            after = (await cluster.statuses())[leader]
            assert (after["role"], after["term"]) == ("leader", before["term"])


async def test_a_leader_that_stood_still_is_replaced_and_steps_down(tmp_path: Path) -> None:
    async with processes(tmp_path) as cluster:
        old = await cluster.leader()
        assert await cluster.write(old, "first")
        os.kill(cluster.nodes[old].pid, signal.SIGSTOP)
        others = [name for name in cluster.nodes if name != old]
        new = await cluster.leader(*others)
        assert await cluster.write(new, "second")
        os.kill(cluster.nodes[old].pid, signal.SIGCONT)
        assert not await cluster.write(old, "stale") or "stale" in cluster.acked
        assert await cluster.leader() == new
        assert (await cluster.settled())[:2] == ["first", "second"]


async def test_a_copy_is_fetched_over_and_over_until_it_is_there(tmp_path: Path) -> None:
    """The fetching follower is killed in the middle, again and again."""
    async with processes(tmp_path, segment_bytes=256 << 10) as cluster:
        leader = await cluster.leader()
        lagging = next(name for name in cluster.nodes if name != leader)
        await cluster.nodes[lagging].kill()
        filler = "x" * 50_000
        for batch in range(10):
            writes = [cluster.write(leader, f"{batch}-{i}-{filler}") for i in range(60)]
            assert all(await asyncio.gather(*writes))
        for name in cluster.nodes.keys() - {lagging}:
            await cluster.nodes[name].ask("compact")
        for pause_s in (0.55, 0.65, 0.75):
            await cluster.nodes[lagging].start()
            await asyncio.sleep(pause_s)
            await cluster.nodes[lagging].kill()
        await cluster.nodes[lagging].start()
        await cluster.settled()
        status = (await cluster.statuses())[lagging]
        assert status["first"] > 1


async def test_a_disk_that_fails_ends_the_process_with_the_reason(tmp_path: Path) -> None:
    async with processes(tmp_path) as cluster:
        leader = await cluster.leader()
        assert await cluster.write(leader, "before")
        await cluster.nodes[leader].ask("limit_file_size", bytes=65_536)
        writes = [cluster.write(leader, f"w{i}-{'x' * 500}") for i in range(300)]
        await asyncio.gather(*writes)
        assert await asyncio.wait_for(cluster.nodes[leader].exit_code(), 5) == EXIT_FATAL
        told = cluster.nodes[leader].log.read_text(errors="replace")
        assert "node_stopping" in told
        assert str(tmp_path / leader / "raft") in told
        await cluster.leader(*(cluster.nodes.keys() - {leader}))
        await cluster.nodes[leader].start()
        await cluster.leader()
        await cluster.settled()
