"""Builds and steers disk_shim.c: what a real process does to its disk, recorded or made to fail."""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
_HEAD = struct.Struct("<cIIQQ")


def library() -> Path:
    """The shared object, compiled once for each version of its source."""
    mark = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"raftflow-disk-shim-{os.getuid()}-{mark}.so"
    if not path.exists():
        draft = path.with_suffix(f".{os.getpid()}")
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", draft, SOURCE, "-ldl", "-lpthread"]
        subprocess.run(command, check=True)
        draft.rename(path)
    return path


def environment(
    root: Path, *, trace: Path | None = None, faults: Path | None = None
) -> dict[str, str]:
    """For a process whose files below ``root`` are to be watched. ``root`` must exist."""
    made = {"LD_PRELOAD": str(library()), "DISK_SHIM_ROOT": str(root)}
    if trace is not None:
        made["DISK_SHIM_TRACE"] = str(trace)
    if faults is not None:
        made["DISK_SHIM_FAULTS"] = str(faults)
    return made


@dataclass(frozen=True, slots=True)
class Fault:
    """Fail one call: the one after ``skip`` others whose path matches, and, if ``after`` is given,
    after a file of that pattern was synced."""

    kind: str  # sync | write
    pattern: str
    code: int = errno.EIO
    skip: int = 0
    after: str = "-"


@dataclass(frozen=True, slots=True)
class Hit:
    """What failed. ``synced_bytes``: how long the file was at its last sync that succeeded."""

    kind: str
    path: str
    code: int
    synced_bytes: int
    monotonic_s: float


class FaultFile:
    """The file that a process under the shim looks at with each change that it makes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hit = path.with_name(path.name + ".hit")

    def arm(self, fault: Fault) -> None:
        self._hit.unlink(missing_ok=True)
        text = f"{fault.code} {fault.skip} {fault.kind} {fault.pattern} {fault.after}"
        draft = self.path.with_suffix(".draft")
        # Two equal faults in a row are two faults.
        draft.write_text(f"{text} {time.monotonic_ns()}")
        draft.rename(self.path)

    def disarm(self) -> None:
        self.path.unlink(missing_ok=True)

    def hit(self) -> Hit | None:
        try:
            kind, path, code, size, at_ns = self._hit.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return Hit(kind, path, int(code), int(size), int(at_ns) / 1e9)


@dataclass(frozen=True, slots=True)
class Change:
    """One change as it was made. ``kind``: create, write, truncate, sync, syncdir, rename, unlink,
    mkdir, or mark (a promise of the program: ``path`` is its text)."""

    kind: str
    path: str
    other: str
    offset: int
    data: bytes


_KINDS = {
    b"C": "create",
    b"W": "write",
    b"T": "truncate",
    b"S": "sync",
    b"D": "syncdir",
    b"R": "rename",
    b"U": "unlink",
    b"K": "mkdir",
    b"M": "mark",
}


def changes(trace: Path) -> Iterator[Change]:
    raw = trace.read_bytes()
    at = 0
    while at < len(raw):
        kind, path_size, other_size, offset, size = _HEAD.unpack_from(raw, at)
        at += _HEAD.size
        path, at = raw[at : at + path_size].decode(), at + path_size
        other, at = raw[at : at + other_size].decode(), at + other_size
        yield Change(_KINDS[kind], path, other, offset, raw[at : at + size])
        at += size
