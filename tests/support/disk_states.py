"""What a power loss may leave of a directory, given the changes that were made in it.

The model is the strict one of POSIX. Of each file, what was written since its last sync is there or
not, block by block, now and then torn; of each directory, every name given, moved or removed since
its last sync, independently of the others. Syncing a file does not make its name durable.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from disk_shim import Change

BLOCK_BYTES = 512
TOP = "."


@dataclass(slots=True, eq=False)
class _File:
    is_dir: bool = False
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    dirty: list[tuple[int, bytes | None]] = field(default_factory=list)  # None: cut here

    def sync(self) -> None:
        self.durable = bytes(self.content)
        self.dirty.clear()


@dataclass(frozen=True, slots=True, eq=False)
class _Name:
    """In its directory, `gone` means nothing any more and `name` means `file`."""

    directory: str
    gone: str | None
    name: str | None
    file: _File | None

    def apply(self, names: dict[str, _File]) -> None:
        if self.gone is not None:
            names.pop(self.gone, None)
        if self.name is not None and self.file is not None:
            names[self.name] = self.file


Files = dict[str, bytes | None]  # None: a directory


class DiskModel:
    """Follows the changes; says at any time what may be left."""

    def __init__(self, start: Files | None = None) -> None:
        self._names: dict[str, _File] = {}
        for path, data in (start or {}).items():
            content = data or b""
            self._names[path] = _File(data is None, bytearray(content), content)
        self._durable = dict(self._names)
        self._pending: list[_Name] = []

    def make(self, change: Change) -> None:
        kind, path = change.kind, change.path
        if kind in ("create", "mkdir"):
            self._name(_Name(_parent(path), None, path, _File(is_dir=kind == "mkdir")))
        elif kind == "unlink":
            self._name(_Name(_parent(path), path, None, None))
        elif kind == "rename":
            # Both names lie in directories of their own; a move between two is two changes.
            file = self._names[path]
            self._name(_Name(_parent(change.other), None, change.other, file))
            self._name(_Name(_parent(path), path, None, None))
        elif kind == "syncdir":
            self._sync_names(path)
        elif (file := self._names.get(path)) is not None:  # not one that was unlinked while open
            self._change(file, change)

    def _change(self, file: _File, change: Change) -> None:
        if change.kind == "write":
            _put(file.content, change.offset, change.data)
            file.dirty += _blocks(change.offset, change.data)
        elif change.kind == "truncate":
            _cut(file.content, change.offset)
            file.dirty.append((change.offset, None))
        elif change.kind == "sync":
            file.sync()

    def _name(self, change: _Name) -> None:
        change.apply(self._names)
        self._pending.append(change)

    def _sync_names(self, directory: str) -> None:
        for change in self._pending:
            if change.directory == directory:
                change.apply(self._durable)
        self._pending = [each for each in self._pending if each.directory != directory]

    def states(self, rng: Random, count: int) -> Iterator[Files]:
        """Nothing that was not synced, all of it, and samples between the two."""
        yield self._state(0.0, rng)
        yield self._state(1.0, rng)
        for _ in range(count - 2):
            yield self._state(rng.choice((0.1, 0.5, 0.9)), rng)

    def _state(self, odds: float, rng: Random) -> Files:
        names = dict(self._durable)
        for change in self._pending:
            if rng.random() < odds:
                change.apply(names)
        left: Files = {}
        for path in sorted(names):
            parent = _parent(path)
            if parent != TOP and left.get(parent, b"") is not None:
                continue  # its directory is not there
            left[path] = None if names[path].is_dir else self._content(names[path], odds, rng)
        return left

    def _content(self, file: _File, odds: float, rng: Random) -> bytes:
        if not file.dirty:
            return file.durable
        data = bytearray(file.durable)
        for offset, block in file.dirty:
            if rng.random() >= odds:
                continue
            if block is None:
                _cut(data, offset)
            else:
                torn = odds < 1 and rng.random() < 0.05
                _put(data, offset, block[: rng.randrange(len(block))] if torn else block)
        return bytes(data)


def lay_out(files: Files, folder: Path) -> None:
    """Make it so on a real file system."""
    folder.mkdir(parents=True)
    for path, data in files.items():
        if data is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(data)


def cuts(changes: Sequence[Change], rng: Random, count: int) -> list[int]:
    """Where the power may go: around all but plain writes as far as possible, and anywhere."""
    marked = [at for at, change in enumerate(changes) if change.kind not in ("write", "truncate")]
    sharp = sorted({at + step for at in marked for step in (0, 1)})
    chosen = set(rng.sample(sharp, min(len(sharp), count * 3 // 4)))
    while len(chosen) < min(count, len(changes)):
        chosen.add(rng.randrange(len(changes) + 1))
    return sorted(chosen)


def _parent(path: str) -> str:
    return os.path.dirname(path) or TOP


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _cut(content: bytearray, size: int) -> None:
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    del content[size:]


def _blocks(offset: int, data: bytes) -> list[tuple[int, bytes | None]]:
    blocks: list[tuple[int, bytes | None]] = []
    done = 0
    while done < len(data):
        size = min(BLOCK_BYTES - (offset + done) % BLOCK_BYTES, len(data) - done)
        blocks.append((offset + done, data[done : done + size]))
        done += size
    return blocks
