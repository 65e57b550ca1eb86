"""A disk in memory that can lose power.

It keeps apart what a program sees (the page cache) and what a power loss leaves: every block
written since the last fdatasync of its file, and every change of a name since the last fsync of
its directory, is there or not, independently of the others. An fdatasync that fails behaves as
Linux does: the data stays readable, is not on disk, and the next fdatasync says that all is well.

    disk = CrashDisk()
    disk.stop_at(17)            # the 17th change raises PowerLoss, as does everything after it
    for after in disk.crash_states(rng): ...     # what may be found afterwards
    after = disk.killed()       # the process died, the machine did not
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

BLOCK_BYTES = 512


class PowerLoss(Exception):
    """The machine is off."""


@dataclass(slots=True)
class _File:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    dirty: list[tuple[int, bytes]] = field(default_factory=list)  # since the last sync


@dataclass(frozen=True, slots=True)
class _NameChange:
    """Remove `gone` and let `name` mean `file`; either may be absent."""

    directory: str
    gone: str | None
    name: str | None
    file: _File | None

    def apply(self, names: dict[str, _File]) -> None:
        if self.gone is not None:
            names.pop(self.gone, None)
        if self.name is not None and self.file is not None:
            names[self.name] = self.file


class CrashDisk:
    """Implements raftflow.raftlog.disk.Disk. Not for more than one thread at a time."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self._names = {
            path: _File(bytearray(data), bytes(data)) for path, data in (files or {}).items()
        }
        self._durable_names = dict(self._names)
        self._changes: list[_NameChange] = []
        self._fds: dict[int, _File] = {}
        self._locks: dict[int, str] = {}
        self._next_fd = 1000
        self._stop_at: int | None = None
        self._faults: dict[int, int] = {}
        self.operations: list[str] = []  # every change so far, by the name of its method
        self.before_sync: Callable[[], None] | None = None  # called once, as another thread would

    # -- faults

    def stop_at(self, operation: int) -> None:
        """Cut the power at the operation of this number (the first change is 0)."""
        self._stop_at = operation

    def fail_at(self, operation: int, error: int) -> None:
        """Let the operation of this number fail with this errno."""
        self._faults[operation] = error

    def _change(self, method: str) -> Callable[[], None] | None:
        """Count an operation. Returns how it fails, if it is to fail."""
        number = len(self.operations)
        if self._stop_at is not None and number >= self._stop_at:
            raise PowerLoss
        self.operations.append(method)
        if (code := self._faults.get(number)) is None:
            return None

        def fail() -> None:
            raise OSError(code, os.strerror(code))

        return fail

    # -- the port

    def makedirs(self, path: str) -> None:
        """Directories always exist here."""

    def listdir(self, path: str) -> list[str]:
        return [os.path.basename(name) for name in self._names if os.path.dirname(name) == path]

    def open(self, path: str) -> int:
        return self._descriptor(self._file(path))

    def create(self, path: str) -> int:
        if fail := self._change("create"):
            fail()
        self._rename_nothing(path, file := _File())
        return self._descriptor(file)

    def close(self, fd: int) -> None:
        if self._locks.pop(fd, None) is None:
            del self._fds[fd]

    def size(self, fd: int) -> int:
        return len(self._fds[fd].content)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(self._fds[fd].content[offset : offset + size])

    def pwrite(self, fd: int, data: bytes, offset: int) -> None:
        fail = self._change("pwrite")
        if fail:
            data = data[: len(data) // 2]  # a disk that becomes full takes a part
        file = self._fds[fd]
        _put(file.content, offset, data)
        file.dirty.append((offset, data))
        if fail:
            fail()

    def fdatasync(self, fd: int) -> None:
        hook, self.before_sync = self.before_sync, None
        if hook is not None:
            hook()
        fail = self._change("fdatasync")
        file = self._fds[fd]
        if fail:
            file.dirty.clear()
            fail()
        # Not simply the content: what an earlier failed sync has lost stays lost.
        durable = bytearray(file.durable)
        for offset, data in file.dirty:
            _put(durable, offset, data)
        file.durable = bytes(durable)
        file.dirty.clear()

    def rename(self, source: str, target: str) -> None:
        if fail := self._change("rename"):
            fail()
        self._apply(_NameChange(os.path.dirname(target), source, target, self._file(source)))

    def unlink(self, path: str) -> None:
        if fail := self._change("unlink"):
            fail()
        self._file(path)
        self._apply(_NameChange(os.path.dirname(path), path, None, None))

    def fsync_dir(self, path: str) -> None:
        fail = self._change("fsync_dir")
        kept = []
        for change in self._changes:
            if change.directory != path:
                kept.append(change)
            elif not fail:
                change.apply(self._durable_names)
        self._changes = kept
        if fail:
            fail()

    def lock(self, path: str) -> int:
        if path in self._locks.values():
            raise BlockingIOError(errno.EWOULDBLOCK, "locked")
        self._next_fd += 1
        self._locks[self._next_fd] = path
        return self._next_fd

    # -- afterwards

    def killed(self) -> CrashDisk:
        """The same disk for the next process: caches are kept, descriptors and locks are not."""
        after = CrashDisk()
        after._names = dict(self._names)
        after._durable_names = dict(self._durable_names)
        after._changes = list(self._changes)
        return after

    def crash_states(self, rng: Random, *, most: int = 64) -> Iterator[CrashDisk]:
        """What a power loss may leave: all combinations if they are few, else a fair sample."""
        pieces = self._pieces()
        if 2 ** len(pieces) <= most:
            choices = itertools.product((False, True), repeat=len(pieces))
            for choice in choices:
                yield self._state(pieces, choice, rng)
            return
        yield self._state(pieces, [False] * len(pieces), rng)
        yield self._state(pieces, [True] * len(pieces), rng)
        for _ in range(most - 2):
            odds = rng.choice((0.1, 0.5, 0.9))
            yield self._state(pieces, [rng.random() < odds for _ in pieces], rng)

    def bare(self) -> CrashDisk:
        """What a power loss leaves for sure: only what was synced."""
        pieces = self._pieces()
        return self._state(pieces, [False] * len(pieces), Random(0))

    def files(self) -> dict[str, bytes]:
        """What a program sees."""
        return {path: bytes(file.content) for path, file in self._names.items()}

    # -- inside

    def _file(self, path: str) -> _File:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._names[path]

    def _descriptor(self, file: _File) -> int:
        self._next_fd += 1
        self._fds[self._next_fd] = file
        return self._next_fd

    def _rename_nothing(self, path: str, file: _File) -> None:
        self._apply(_NameChange(os.path.dirname(path), None, path, file))

    def _apply(self, change: _NameChange) -> None:
        change.apply(self._names)
        self._changes.append(change)

    def _pieces(self) -> list[_NameChange | tuple[_File, int, bytes]]:
        """Everything that a power loss decides one by one."""
        pieces: list[_NameChange | tuple[_File, int, bytes]] = list(self._changes)
        files = {id(file): file for file in self._durable_names.values()}
        files |= {id(change.file): change.file for change in self._changes if change.file}
        for file in files.values():
            for offset, data in file.dirty:
                pieces += [(file, at, block) for at, block in _blocks(offset, data)]
        return pieces

    def _state(
        self,
        pieces: list[_NameChange | tuple[_File, int, bytes]],
        choice: tuple[bool, ...] | list[bool],
        rng: Random,
    ) -> CrashDisk:
        names = dict(self._durable_names)
        content: dict[int, bytearray] = {}
        for piece, there in zip(pieces, choice, strict=True):
            if isinstance(piece, _NameChange):
                if there:
                    piece.apply(names)
                continue
            file, offset, block = piece
            data = content.setdefault(id(file), bytearray(file.durable))
            if there:
                # Now and then a block is torn: its beginning is new, its end is old.
                torn = rng.random() < 0.1
                _put(data, offset, block[: rng.randrange(len(block))] if torn else block)
        return CrashDisk(
            {path: bytes(content.get(id(file), file.durable)) for path, file in names.items()}
        )


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _blocks(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    done = 0
    while done < len(data):
        size = min(BLOCK_BYTES - (offset + done) % BLOCK_BYTES, len(data) - done)
        yield offset + done, data[done : done + size]
        done += size
