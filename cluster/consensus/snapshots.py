"""Copies of the store between nodes: made by the leader, pulled by offset, verified, installed.

The follower pulls, so it sets the pace, and a broken transfer goes on where it stopped: the part
file stays, and the leader repeats its offer until the follower has caught up.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Protocol

import structlog

from raftflow.cluster.background import end, in_thread
from raftflow.cluster.consensus.channel import PeerChannel, PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.consensus.types import SnapshotManifest
from raftflow.cluster.durable import sync_directory

log = structlog.get_logger()

CHUNK_BYTES = 256 << 10
_READ = "snapshot.read"
_DONE = "snapshot.done"
_REQUEST = struct.Struct("<QI")
_READ_TIMEOUT_MS = 10_000
_IDLE_S = 60.0
# After the last byte the follower still needs the entries that follow the copy.
_AFTERGLOW_S = 15.0


class SnapshotStore(Protocol):
    """The materialised state; implemented by the replica."""

    @property
    def applied_index(self) -> int: ...
    @property
    def applied_term(self) -> int: ...
    async def make_copy(self) -> tuple[str, SnapshotManifest]: ...
    async def install(self, path: str, manifest: SnapshotManifest) -> None: ...
    def release(self, snapshot_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Pin:
    """A copy that somebody fetches, or that is being made: the log after ``index`` stays."""

    index: int
    since_s: float
    size: int  # 0: it is being made
    readers: tuple[str, ...]  # none: they have it, and may need what follows


@dataclass(frozen=True, slots=True)
class Fetch:
    """A copy on its way to this node."""

    source: str
    index: int
    size: int
    received: int
    since_s: float
    installing: bool


@dataclass(slots=True, eq=False)
class _Copy:
    path: str
    manifest: SnapshotManifest
    expires_at: float
    since: float
    readers: set[str] = field(default_factory=set)


class Log(Protocol):
    @property
    def prev_index(self) -> int:
        """Of the entry before the first one that it holds."""
        ...


class SnapshotSource:
    """The leader's side."""

    def __init__(
        self,
        *,
        store: SnapshotStore,
        channel: PeerChannel,
        ready: Callable[[str, SnapshotManifest], None],
        log: Log,
    ) -> None:
        self._store = store
        self._ready = ready
        self._log = log
        self._copies: dict[str, _Copy] = {}
        self._waiting: set[str] = set()
        self._making: asyncio.Task[None] | None = None
        self._making_from = 0
        self._making_since = 0.0
        channel.register(_READ, self._serve_read)
        channel.register(_DONE, self._serve_done)

    def pinned_index(self) -> int | None:
        """The log after this index is needed by a follower that is fetching a copy."""
        return min((pin.index for pin in self.pins()), default=None)

    def pins(self) -> list[Pin]:
        pins = [
            Pin(copy.manifest.index, copy.since, copy.manifest.size, tuple(sorted(copy.readers)))
            for copy in self._copies.values()
        ]
        if self._making is not None:
            waiting = tuple(sorted(self._waiting))
            pins.append(Pin(self._making_from, self._making_since, 0, waiting))
        return pins

    def needed_by(self, peer: str) -> None:
        """The newest copy will do while the log goes on from it: one that the log does not reach
        any more is of no use to a follower, however often it is offered."""
        newest = self._newest(self._log.prev_index)
        if newest is not None:
            self._offer(peer, newest)
            return
        self._waiting.add(peer)
        if self._making is None:
            self._making = self._begin_making()

    async def copy_for(self, peer: str, least_index: int) -> SnapshotManifest | None:
        """A copy for a peer that lost its state, at this index or later; None if this node is not
        that far itself."""
        if self._store.applied_index < least_index:
            return None
        if self._newest(least_index) is None:
            if self._making is None:
                self._making = self._begin_making()
            await asyncio.shield(self._making)
        copy = self._newest(least_index)
        if copy is None:
            return None
        self._promise(peer, copy)
        return copy.manifest

    def _begin_making(self) -> asyncio.Task[None]:
        # The whole log stays meanwhile. What the copy will hold is what has been written by then,
        # which may be less than what has been applied.
        self._making_from = self._log.prev_index
        self._making_since = asyncio.get_running_loop().time()
        return asyncio.create_task(self._make(), name="snapshot-copy")

    def _newest(self, least_index: int) -> _Copy | None:
        copy = max(self._copies.values(), key=lambda copy: copy.manifest.index, default=None)
        return copy if copy is not None and copy.manifest.index >= least_index else None

    def expire(self) -> None:
        """Called now and then: give up copies that nobody reads any more."""
        now = asyncio.get_running_loop().time()
        for copy in [copy for copy in self._copies.values() if copy.expires_at < now]:
            del self._copies[copy.manifest.snapshot_id]
            self._store.release(copy.manifest.snapshot_id)
            log.info("snapshot_released", snapshot_id=copy.manifest.snapshot_id)

    async def close(self) -> None:
        await end(self._making)
        for snapshot_id in self._copies:
            self._store.release(snapshot_id)
        self._copies.clear()

    async def _make(self) -> None:
        began = asyncio.get_running_loop().time()
        try:
            path, manifest = await self._store.make_copy()
        except Exception as error:
            # The peer asks again: its need does not go away.
            log.error("snapshot_failed", exc_info=error)
            self._waiting.clear()
            return
        finally:
            self._making = None
        now = asyncio.get_running_loop().time()
        copy = self._copies[manifest.snapshot_id] = _Copy(path, manifest, now + _IDLE_S, now)
        log.info(
            "snapshot_made",
            snapshot_id=manifest.snapshot_id,
            index=manifest.index,
            size=manifest.size,
            took_ms=round((now - began) * 1000),
        )
        for peer in sorted(self._waiting):
            self._offer(peer, copy)
        self._waiting.clear()

    def _offer(self, peer: str, copy: _Copy) -> None:
        self._promise(peer, copy)
        self._ready(peer, copy.manifest)

    def _promise(self, peer: str, copy: _Copy) -> None:
        copy.readers.add(peer)
        copy.expires_at = asyncio.get_running_loop().time() + _IDLE_S
        log.info("snapshot_offered", peer=peer, snapshot_id=copy.manifest.snapshot_id)

    async def _serve_read(self, peer: str, payload: bytes) -> bytes:
        if len(payload) < _REQUEST.size:
            raise PeerError("BAD_REQUEST", f"{len(payload)} bytes")
        offset, length = _REQUEST.unpack_from(payload)
        snapshot_id = payload[_REQUEST.size :].decode("utf-8", "replace")
        copy = self._copies.get(snapshot_id)
        if copy is None:
            # Released or of an earlier leader: the old offer is void, so make another.
            self.needed_by(peer)
            raise PeerError("UNKNOWN_SNAPSHOT", snapshot_id)
        copy.expires_at = asyncio.get_running_loop().time() + _IDLE_S
        return await asyncio.to_thread(_pread, copy.path, offset, min(length, CHUNK_BYTES))

    async def _serve_done(self, peer: str, payload: bytes) -> bytes:
        copy = self._copies.get(payload.decode("utf-8", "replace"))
        if copy is not None:
            copy.readers.discard(peer)
            if not copy.readers:
                copy.expires_at = asyncio.get_running_loop().time() + _AFTERGLOW_S
        return b""


class SnapshotFetcher:
    """The follower's side. Every offer that finds no fetch of that copy under way starts one."""

    def __init__(
        self,
        *,
        directory: str,
        store: SnapshotStore,
        channel: PeerChannel,
        installing: Callable[[SnapshotManifest], None],
        installed: Callable[[SnapshotManifest], None],
        failed: Callable[[BaseException], object],
    ) -> None:
        self._directory = directory
        self._store = store
        self._channel = channel
        # Who belongs to the cluster is written down before the store stands for the log.
        self._before_install = installing
        self._installed = installed
        self._failed = failed
        self._task: asyncio.Task[None] | None = None
        self._fetching = ""
        self._installing = False
        self._received = 0
        self._under_way: tuple[str, SnapshotManifest, float] | None = None

    @property
    def fetch(self) -> Fetch | None:
        """What is under way."""
        if self._under_way is None:
            return None
        source, manifest, since = self._under_way
        return Fetch(
            source=source,
            index=manifest.index,
            size=manifest.size,
            received=self._received,
            since_s=since,
            installing=self._installing,
        )

    def offered(self, leader: str, manifest: SnapshotManifest) -> None:
        if self._installing or (self._task is not None and self._fetching == manifest.snapshot_id):
            return
        before, self._fetching = self._task, manifest.snapshot_id
        self._task = asyncio.create_task(
            self._fetch(leader, manifest, before), name=f"snapshot-{manifest.snapshot_id}"
        )

    async def fetched(self) -> None:
        """Until the fetch that is under way has ended, one way or the other."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        await end(self._task)

    async def _fetch(
        self, leader: str, manifest: SnapshotManifest, before: asyncio.Task[None] | None
    ) -> None:
        await end(before)
        self._under_way = (leader, manifest, asyncio.get_running_loop().time())
        self._received = 0
        try:
            path = await self._download(leader, manifest)
            await self._install(leader, manifest, path)
        except OSError as error:
            # Rule 8: bytes whose fsync failed look whole when they are read again, and are not.
            self._failed(error)
        except (PeerUnavailable, PeerTimeout, PeerError, SnapshotDamaged) as error:
            log.warning(
                "snapshot_fetch_interrupted",
                leader=leader,
                snapshot_id=manifest.snapshot_id,
                error=str(error),
            )
        finally:
            if self._task is asyncio.current_task():
                self._task = None
                self._under_way = None

    async def _install(self, leader: str, manifest: SnapshotManifest, path: str) -> None:
        if manifest.index <= self._store.applied_index:
            # Another leader's log was quicker; an older copy never rolls a newer state back.
            log.info("snapshot_outrun", index=manifest.index, applied=self._store.applied_index)
            return
        self._installing = True
        try:
            self._before_install(manifest)
            await self._store.install(path, manifest)
            self._installed(manifest)
        except Exception as error:  # noqa: BLE001
            if manifest.index <= self._store.applied_index:
                log.info("snapshot_outrun", index=manifest.index, error=str(error))
            else:
                # The store may be neither the old nor the new one.
                self._failed(error)
            return
        finally:
            self._installing = False
        log.info("snapshot_installed", snapshot_id=manifest.snapshot_id, index=manifest.index)
        self._channel.notify(leader, _DONE, manifest.snapshot_id.encode())
        await in_thread(shutil.rmtree, self._directory, True)

    async def _download(self, leader: str, manifest: SnapshotManifest) -> str:
        part = await in_thread(_prepare, self._directory, manifest)
        offset = await asyncio.to_thread(os.path.getsize, part)
        log.info(
            "snapshot_fetch_started",
            leader=leader,
            snapshot_id=manifest.snapshot_id,
            size=manifest.size,
            resumed_at=offset,
        )
        self._received = offset
        with open(part, "r+b", buffering=0) as file:  # noqa: ASYNC230  # opens a local file
            file.seek(offset)
            while offset < manifest.size:
                wanted = min(CHUNK_BYTES, manifest.size - offset)
                request = _REQUEST.pack(offset, wanted) + manifest.snapshot_id.encode()
                data = await self._channel.call(leader, _READ, request, timeout_ms=_READ_TIMEOUT_MS)
                if len(data) != wanted:
                    raise SnapshotDamaged(f"asked for {wanted} bytes, got {len(data)}")
                await in_thread(file.write, data)
                self._received = offset = offset + len(data)
        return await in_thread(_verify, part, manifest)


class SnapshotDamaged(Exception):
    """What was fetched is not what was offered; nothing of it is kept."""


def _pread(path: str, offset: int, length: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return os.pread(file.fileno(), length, offset)


def _prepare(directory: str, manifest: SnapshotManifest) -> str:
    """The part file of this copy, kept from an earlier attempt or new; all others go."""
    name = f"{manifest.index}-{manifest.term}"
    place = os.path.join(directory, name)
    os.makedirs(place, exist_ok=True)
    for other in os.listdir(directory):
        if other != name:
            shutil.rmtree(os.path.join(directory, other), ignore_errors=True)
    # Who belongs to the cluster may change from one offer of the same copy to the next.
    content = {
        key: value for key, value in asdict(manifest).items() if not key.startswith("configuration")
    }
    described, part = os.path.join(place, "manifest.json"), os.path.join(place, "part")
    try:
        with open(described, "rb") as file:
            same = json.loads(file.read()) == content
    except (OSError, ValueError):
        same = False
    if not same:
        with open(part, "wb"), open(described, "w") as file:
            json.dump(content, file)
    elif not os.path.exists(part) or os.path.getsize(part) > manifest.size:
        open(part, "wb").close()
    return part


def _verify(part: str, manifest: SnapshotManifest) -> str:
    with open(part, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    if digest != manifest.sha256:
        os.unlink(part)
        raise SnapshotDamaged(f"SHA-256 is {digest}, offered was {manifest.sha256}")
    sync_directory(os.path.dirname(part))
    return part
