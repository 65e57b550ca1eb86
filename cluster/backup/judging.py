"""Is a backup whole, is every record of it sound, and does its state agree with itself?"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from raftflow.cluster.backup.manifest import BackupError, Manifest
from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.cluster.store import CorruptRecord, StoreError, audit, copies, scrub
from raftflow.cluster.store.readers import applied_state

# Told of each part that is read: what it is, and how many bytes.
Progress = Callable[[str, int], None]

READ, RECORDS, AGREES = "reading", "records", "invariants"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was looked at. An invariant that does not hold is a bug of the cluster that the backup
    is of, and no damage of the backup."""

    runs: int
    violations: tuple[str, ...]


def checked(pieces: Iterator[bytes], manifest: Manifest, progress: Progress) -> Iterator[bytes]:
    """The same pieces. Raises BackupError at their end when they are not what was announced."""
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
        progress(READ, len(piece))
        yield piece
    if size != manifest.size:
        raise BackupError(f"it is cut short: {size} of {manifest.size} bytes")
    if digest.hexdigest() != manifest.sha256:
        raise BackupError("its SHA-256 is not the one in its manifest: it is damaged")


def judge(state: Path, manifest: Manifest, progress: Progress) -> Verdict:
    """The content of a file whose bytes are `checked`. Raises BackupError."""
    try:
        with closing(copies.immutable(str(state))) as db:
            for size in scrub.steps(str(state), db):
                progress(RECORDS, size)
            _compare(db, manifest)
            return _audit(str(state), db, progress)
    except (sqlite3.Error, StoreError, CorruptRecord, UnknownValue, TypeError) as error:
        raise BackupError(f"its content is damaged: {error}") from error


def _compare(db: sqlite3.Connection, manifest: Manifest) -> None:
    applied = applied_state(db)
    found = (applied.index, applied.term, applied.time_ms, applied.digest.hex())
    told = (manifest.index, manifest.term, manifest.time_ms, manifest.digest)
    if found != told:
        raise BackupError(
            f"it ends at entry {found[0]} of term {found[1]} with digest {found[3]}, its manifest"
            f" says {told[0]} of term {told[1]} with {told[3]}: they do not belong together"
        )


def _audit(path: str, db: sqlite3.Connection, progress: Progress) -> Verdict:
    runs, found = 0, []
    place: audit.Place | None = audit.Place()
    while place is not None:
        part = audit.look(path, db, place)
        if place.stage == audit.RUNS:
            runs += part.checked
            progress(AGREES, 0)  # of bytes that were read already
        for each in part.findings:
            where = " ".join(filter(None, (each.namespace, each.workflow_id, each.run_id)))
            found.append(f"{each.invariant}: {where or 'counters'}: {each.problem}")
        place = part.following
    return Verdict(runs, tuple(found))
