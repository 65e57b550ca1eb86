from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from eventually import eventually
from peers import Peer, meshed
from structlog.testing import capture_logs

from raftflow.cluster.consensus import snapshots
from raftflow.cluster.consensus.handshake import Purpose
from raftflow.cluster.consensus.snapshots import CHUNK_BYTES, SnapshotFetcher, SnapshotSource
from raftflow.cluster.consensus.types import SnapshotManifest

CONTENT = os.urandom(CHUNK_BYTES * 5 + 17)


class Store:
    def __init__(self, directory: Path, content: bytes = b"", *, index: int = 0) -> None:
        self.directory = directory
        self.content = content
        self.applied_index = index
        self.applied_term = 3
        self.copies = 0
        self.released: list[str] = []
        directory.mkdir()

    async def make_copy(self) -> tuple[str, SnapshotManifest]:
        self.copies += 1
        path = self.directory / f"copy{self.copies}"
        await asyncio.to_thread(path.write_bytes, self.content)
        digest = hashlib.sha256(self.content).hexdigest()
        return str(path), SnapshotManifest(
            self.applied_index, self.applied_term, len(self.content), digest, path.name
        )

    async def install(self, path: str, manifest: SnapshotManifest) -> None:
        self.content = await asyncio.to_thread(Path(path).read_bytes)
        self.applied_index, self.applied_term = manifest.index, manifest.term

    def release(self, snapshot_id: str) -> None:
        self.released.append(snapshot_id)


class Log:
    prev_index = 30


class Pair:
    """n1 leads and has a copy to give; n2 follows."""

    def __init__(self, root: Path, peers: dict[str, Peer]) -> None:
        self.peers = peers
        self.leader = Store(root / "leader", CONTENT, index=40)
        self.follower = Store(root / "follower")
        self.offers: list[tuple[str, SnapshotManifest]] = []
        self.announced: list[int] = []
        self.installed: list[tuple[int, int]] = []
        self.failures: list[BaseException] = []
        self.incoming = root / "incoming"
        self.log = Log()
        self.source = SnapshotSource(
            store=self.leader,
            channel=peers["n1"].channel,
            ready=lambda peer, manifest: self.offers.append((peer, manifest)),
            log=self.log,
        )
        self.fetcher = SnapshotFetcher(
            directory=str(self.incoming),
            store=self.follower,
            channel=peers["n2"].channel,
            installing=lambda manifest: self.announced.append(manifest.index),
            installed=lambda manifest: self.installed.append((manifest.index, manifest.term)),
            failed=self.failures.append,
        )

    async def offer(self) -> SnapshotManifest:
        count = len(self.offers)
        self.source.needed_by("n2")
        await eventually(lambda: len(self.offers) > count)
        return self.offers[-1][1]


@asynccontextmanager
async def pair(root: Path) -> AsyncIterator[Pair]:
    async with meshed("n1", "n2") as peers:
        await eventually(lambda: peers["n2"].channel.connected("n1"))
        made = Pair(root, peers)
        try:
            yield made
        finally:
            await made.fetcher.close()
            await made.source.close()


async def test_a_copy_travels_is_verified_and_installed(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        manifest = await both.offer()
        assert both.fetcher.fetch is None
        both.fetcher.offered("n1", manifest)
        both.fetcher.offered("n1", manifest)  # The reminder changes nothing.
        await eventually(lambda: both.fetcher.fetch and both.fetcher.fetch.received, every_s=0)
        fetch = both.fetcher.fetch
        assert fetch is not None
        assert (fetch.source, fetch.index, fetch.size) == ("n1", 40, len(CONTENT))
        assert 0 < fetch.received <= fetch.size
        await eventually(lambda: both.installed == [(40, 3)])
        assert both.follower.content == CONTENT
        await eventually(lambda: not both.incoming.exists())
        await eventually(lambda: both.fetcher.fetch is None)
        assert not both.failures


async def test_one_copy_serves_all_and_pins_the_log_while_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path) as both:
        assert both.source.pinned_index() is None
        both.source.needed_by("n2")
        assert both.source.pinned_index() == 30  # the whole log, while it is made
        [making] = both.source.pins()
        assert (making.index, making.size, making.readers) == (30, 0, ("n2",))
        await eventually(lambda: both.offers)
        [pin] = both.source.pins()
        assert (pin.index, pin.size, pin.readers) == (40, len(CONTENT), ("n2",))
        both.leader.applied_index = 90
        both.source.needed_by("n3")
        assert [(peer, m.index) for peer, m in both.offers] == [("n2", 40), ("n3", 40)]
        both.source.expire()
        assert both.source.pinned_index() == 40
        monkeypatch.setattr(snapshots, "_IDLE_S", -1.0)
        both.source.needed_by("n3")
        both.source.expire()
        assert both.source.pinned_index() is None
        assert both.leader.released == ["copy1"]


async def test_a_copy_that_the_log_does_not_reach_any_more_is_made_anew(tmp_path: Path) -> None:
    """Offered again and again it would keep its follower away for ever."""
    async with pair(tmp_path) as both:
        assert (await both.offer()).index == 40
        both.leader.applied_index, both.log.prev_index = 50, 41
        assert (await both.offer()).index == 50
        assert (await both.offer()).index == 50
        assert both.leader.copies == 2


async def test_a_broken_transfer_goes_on_where_it_stopped(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        manifest = await both.offer()
        # What an earlier attempt left behind.
        place = both.incoming / "40-3"
        both.fetcher.offered("n1", replace(manifest, snapshot_id="unknown"))
        await eventually((place / "manifest.json").exists)
        await eventually(lambda: both.fetcher._task is None)
        shutil.rmtree(place)
        snapshots._prepare(str(both.incoming), manifest)
        (place / "part").write_bytes(CONTENT[: CHUNK_BYTES * 2 + 5])
        with capture_logs() as logs:
            both.fetcher.offered("n1", manifest)
            await eventually(lambda: both.installed == [(40, 3)])
        assert next(log["resumed_at"] for log in logs if "resumed_at" in log) == (
            CHUNK_BYTES * 2 + 5
        )
        assert both.follower.content == CONTENT


async def test_the_connection_breaks_in_the_middle(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        manifest = await both.offer()
        both.fetcher.offered("n1", manifest)
        part = both.incoming / "40-3" / "part"
        await eventually(lambda: part.exists() and part.stat().st_size > 0)
        both.peers["n1"].mesh.link("n2", Purpose.CHANNEL).close("test")
        await eventually(lambda: both.fetcher._task is None)
        await eventually(lambda: both.peers["n2"].channel.connected("n1"))
        both.fetcher.offered("n1", manifest)
        await eventually(lambda: both.installed == [(40, 3)])
        assert both.follower.content == CONTENT


async def test_a_damaged_copy_is_never_installed(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        manifest = await both.offer()
        (both.leader.directory / "copy1").write_bytes(bytes(len(CONTENT)))
        with capture_logs() as logs:
            both.fetcher.offered("n1", manifest)
            await eventually(lambda: both.fetcher._task is None)
        assert "SHA-256" in next(log["error"] for log in logs if "error" in log)
        assert not both.installed
        assert not (both.incoming / "40-3" / "part").exists()
        # The bytes are right again: so is the result.
        (both.leader.directory / "copy1").write_bytes(CONTENT)
        both.fetcher.offered("n1", manifest)
        await eventually(lambda: both.installed == [(40, 3)])


async def test_an_offer_that_the_leader_has_forgotten_makes_it_offer_anew(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        stale = SnapshotManifest(30, 2, 10, "00", "stale")
        both.fetcher.offered("n1", stale)
        await eventually(lambda: both.offers)
        both.fetcher.offered(*("n1", both.offers[0][1]))
        await eventually(lambda: both.installed == [(40, 3)])


async def test_an_older_copy_never_rolls_back(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        manifest = await both.offer()
        both.follower.applied_index = 41
        both.follower.content = b"newer"
        both.fetcher.offered("n1", manifest)
        await eventually(lambda: both.fetcher._task is None)
        assert both.follower.content == b"newer"
        assert not both.installed


async def test_a_copy_that_the_log_overtakes_while_it_is_installed_is_no_failure(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as both:

        async def install(path: str, manifest: SnapshotManifest) -> None:
            both.follower.applied_index = manifest.index
            raise ValueError("older than what is here")

        both.follower.install = install  # type: ignore[method-assign]
        both.fetcher.offered("n1", await both.offer())
        await eventually(lambda: both.follower.applied_index == 40)
        await eventually(lambda: both.fetcher._task is None)
        assert not both.failures
        assert not both.installed


async def test_a_store_that_cannot_install_is_fatal(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:

        async def install(path: str, manifest: SnapshotManifest) -> None:
            raise OSError("no space")

        both.follower.install = install  # type: ignore[method-assign]
        both.fetcher.offered("n1", await both.offer())
        await eventually(lambda: [str(e) for e in both.failures] == ["no space"])


@pytest.mark.slow
async def test_heartbeats_do_not_wait_for_a_copy(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        both.leader.content = os.urandom(96 << 20)
        manifest = await both.offer()
        await eventually(lambda: both.peers["n1"].link("n2"))
        both.fetcher.offered("n1", manifest)
        asked = both.peers["n1"].link("n2", Purpose.CHANNEL)
        overtaken, pieces_before = [], []
        while not both.installed:
            pieces, count = asked.frames_received, len(both.peers["n2"].raft.frames)
            assert both.peers["n1"].link("n2").send(b"heartbeat")
            frames = both.peers["n2"].raft.frames
            await eventually(lambda f=frames, c=count: len(f) > c, every_s=0)
            overtaken.append(asked.frames_received - pieces)
            pieces_before.append(pieces)
            await asyncio.sleep(0.005)
        # Not by the clock, which a busy machine decides: few of 384 pieces go before a heartbeat,
        # and heartbeats go on while the whole is read again and installed.
        assert len(overtaken) > 10
        assert max(overtaken) < 20
        assert sum(pieces >= 384 for pieces in pieces_before) > 3
