"""A disk in memory that forgets what was not synced.

A killed process leaves everything it wrote. A power loss leaves what was synced, and of the rest
any part: each later write whole, cut short or not at all, and a beginning of the directory changes.
A sync that fails says so once; what it should have written stays readable, and is never written.
"""

from __future__ import annotations

import errno
import os
import random

SECTOR = 512


class PowerLost(BaseException):
    """The machine stopped inside a call to the disk."""


class _File:
    __slots__ = ("data", "synced", "unsynced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""
        self.unsynced: list[tuple[int, bytes]] = []

    def write(self, offset: int, raw: bytes) -> None:
        self.unsynced.append((offset, raw))
        _put(self.data, offset, raw)

    def sync(self) -> None:
        if self.unsynced:
            # Not all of `data`: what a failed sync gave up never gets to the disk.
            synced = bytearray(self.synced)
            for offset, raw in self.unsynced:
                _put(synced, offset, raw)
            self.synced = bytes(synced)
            self.unsynced.clear()

    def lose_power(self, rng: random.Random) -> None:
        data = bytearray(self.synced)
        for offset, raw in self.unsynced:
            fate = rng.random()
            if fate < 0.4:
                continue
            if fate < 0.7:
                torn = rng.randrange(len(raw) + SECTOR) // SECTOR * SECTOR
                _put(data, offset, raw[:torn])
            else:
                _put(data, offset, raw)
        self.data, self.synced = data, bytes(data)
        self.unsynced.clear()


class SimDisk:
    """Implements raftlog's `Disk`, for one node."""

    def __init__(self) -> None:
        self._names: dict[str, _File] = {}
        self._synced_names: dict[str, _File] = {}
        self._changes: list[tuple[str, str, _File | None]] = []  # to, from, file
        self._open: dict[int, _File] = {}
        self._locked = False
        self._next_fd = 3
        self.stop_at_sync = False
        self.fail_at_sync = False
        self.failed = False

    # -- crashes

    def kill_process(self) -> None:
        self._open.clear()
        self._locked = self.fail_at_sync = self.failed = False

    def lose_power(self, rng: random.Random) -> None:
        self.kill_process()
        self.stop_at_sync = False
        names = dict(self._synced_names)
        for to, from_, file in self._changes[: rng.randrange(len(self._changes) + 1)]:
            _change(names, to, from_, file)
        self._changes.clear()
        self._names, self._synced_names = names, dict(names)
        for name in sorted(names):
            names[name].lose_power(rng)

    def spoil(self, path: str, offset: int, *, zeroed: bool) -> None:
        """What was written is not what is read: one bit, or zeros from there on."""
        file = self._names[path]
        for data in (synced := bytearray(file.synced), file.data):
            if offset < len(data) and zeroed:
                end = min(len(data), offset + 64)
                data[offset:end] = bytes(end - offset)
            elif offset < len(data):
                data[offset] ^= 1
        file.synced = bytes(synced)

    def after_power_loss(self) -> SimDisk:
        """What would surely be there: for checkers."""
        image = SimDisk()
        for name, file in self._synced_names.items():
            image._names[name] = copy = _File()
            copy.data = bytearray(file.synced)
        return image

    # -- Disk

    def makedirs(self, path: str) -> None:
        pass

    def listdir(self, path: str) -> list[str]:
        return [os.path.basename(name) for name in self._names if os.path.dirname(name) == path]

    def open(self, path: str) -> int:
        if path not in self._names:
            raise FileNotFoundError(path)
        return self._opened(self._names[path])

    def create(self, path: str) -> int:
        file = self._names[path] = _File()
        self._changes.append((path, "", file))
        return self._opened(file)

    def close(self, fd: int) -> None:
        if self._open.pop(fd, None) is None:
            self._locked = False

    def size(self, fd: int) -> int:
        return len(self._open[fd].data)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(self._open[fd].data[offset : offset + size])

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        self._open[fd].write(offset, bytes(data))

    def fdatasync(self, fd: int) -> None:
        self._stop()
        if self.fail_at_sync:
            self.fail_at_sync, self.failed = False, True
            self._open[fd].unsynced.clear()
            raise OSError(errno.EIO, "input/output error")
        self._open[fd].sync()

    def rename(self, source: str, target: str) -> None:
        change = (target, source, None)
        self._changes.append(change)
        _change(self._names, *change)

    def unlink(self, path: str) -> None:
        change = ("", path, None)
        self._changes.append(change)
        _change(self._names, *change)

    def fsync_dir(self, path: str) -> None:
        self._stop()
        self._changes.clear()
        self._synced_names = dict(self._names)

    def lock(self, path: str) -> int:
        if self._locked:
            raise BlockingIOError(path)
        self._locked = True
        self._next_fd += 1
        return self._next_fd

    def _opened(self, file: _File) -> int:
        self._next_fd += 1
        self._open[self._next_fd] = file
        return self._next_fd

    def _stop(self) -> None:
        if self.stop_at_sync:
            raise PowerLost


def _put(data: bytearray, offset: int, raw: bytes) -> None:
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(raw)] = raw


def _change(names: dict[str, _File], to: str, from_: str, file: _File | None) -> None:
    """Create (no `from_`), rename, or unlink (no `to`)."""
    moved = names.pop(from_, None) if from_ else file
    if to and moved is not None:
        names[to] = moved
