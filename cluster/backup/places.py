"""Where backups are kept: a directory, or an object store named by its URL.

Both keep files that are there whole or not at all. obstore, which speaks to the object stores, is
loaded only when there is one: `pip install 'raftflow[backup]'`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from raftflow.cluster.backup.manifest import MANIFEST, BackupError
from raftflow.cluster.durable import sync_directory

PIECE_BYTES = 8 << 20
# Parts under way at once. More would be read ahead of a slow store, and then nothing for so long
# that the node gave its reader up.
UPLOADS = 2


class Place(Protocol):
    """Raises BackupError, which names the place."""

    def write(self, name: str, pieces: Iterator[bytes]) -> None:
        """Whole or not at all: what ``pieces`` raises leaves nothing under that name."""

    def read(self, name: str) -> Iterator[bytes]: ...

    def path_of(self, name: str) -> Path | None:
        """The file, where it is one of this machine."""

    def backups(self) -> list[str]:
        """The names of those that are whole."""


def place(location: str) -> Place:
    """A directory, or where `scheme://` stands, an object store."""
    return Objects(location) if "://" in location else Directory(Path(location))


def inside(location: str, name: str) -> str:
    return f"{location.rstrip('/')}/{name}"


class Directory:
    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, name: str, pieces: Iterator[bytes]) -> None:
        target = self._path / name
        temporary = target.with_name(f".{name}.{os.getpid()}")
        with self._naming():
            self._path.mkdir(parents=True, exist_ok=True)
            try:
                with open(temporary, "wb", opener=_private) as file:
                    for piece in pieces:
                        file.write(piece)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(target)
                sync_directory(str(self._path))
                sync_directory(str(self._path.parent))
            finally:
                temporary.unlink(missing_ok=True)

    def read(self, name: str) -> Iterator[bytes]:
        with self._naming(), (self._path / name).open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    def path_of(self, name: str) -> Path | None:
        return self._path / name

    def backups(self) -> list[str]:
        with self._naming():
            found = [path.parent.name for path in self._path.glob(f"*/{MANIFEST}")]
        return sorted(found)

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BackupError(
                f"{error.filename or self._path}: {error.strerror or error}"
            ) from error


def _private(path: str, flags: int) -> int:
    """All payloads are in it."""
    return os.open(path, flags, 0o600)


class Objects:
    """Credentials and region come from where the store's own tools take them: AWS_..., GOOGLE_...,
    AZURE_... in the environment, or the identity of the machine."""

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore.exceptions import BaseError
            from obstore.store import from_url
        except ImportError:
            raise BackupError(
                f"{url} is an object store, which needs obstore: pip install 'raftflow[backup]'"
            ) from None
        self._url = url
        self._obstore: Any = obstore
        # What obstore does not name comes as these.
        self._errors = (BaseError, ValueError, OSError)
        with self._naming():
            local: dict[str, Any] = {"mkdir": True} if url.startswith("file://") else {}
            self._store: Any = from_url(url, **local)

    def write(self, name: str, pieces: Iterator[bytes]) -> None:
        with self._naming():
            self._obstore.put(
                self._store, name, pieces, chunk_size=PIECE_BYTES, max_concurrency=UPLOADS
            )

    def read(self, name: str) -> Iterator[bytes]:
        with self._naming():
            for piece in self._obstore.get(self._store, name).stream(PIECE_BYTES):
                yield bytes(piece)

    def path_of(self, _name: str) -> Path | None:
        return None

    def backups(self) -> list[str]:
        with self._naming():
            paths = [each["path"] for page in self._obstore.list(self._store) for each in page]
        found = [path.split("/") for path in paths]
        return sorted([parts[-2] for parts in found if len(parts) == 2 and parts[-1] == MANIFEST])

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            first = str(error).strip().splitlines() or [type(error).__name__]
            raise BackupError(f"{self._url}: {first[0].partition(': <?xml')[0]}") from error
