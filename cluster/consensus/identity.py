"""`node.json`: whose data directory this is. And the lock that keeps a second process out.

The incarnation is drawn once, when the directory is born. A node that comes back with another one
has lost its disk, and with it its votes and acknowledgements.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass

FORMAT_VERSION = 1


class IdentityError(Exception):
    """The data directory is not one that this node may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    format: int
    cluster_id: str
    node_id: str
    incarnation: str


class DirectoryLock:
    """An flock on `data/lock`; the kernel drops it with the process, however that ends."""

    def __init__(self, data_dir: str) -> None:
        os.makedirs(data_dir, exist_ok=True)
        path = os.path.join(data_dir, "lock")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise IdentityError(
                f"data directory {data_dir} is in use by process {holder}. "
                "Stop it, or give this node a directory of its own."
            ) from error
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Claim:
    """A data directory that is this process's alone, and whose it is."""

    lock: DirectoryLock
    identity: Identity


def claim_directory(data_dir: str, *, cluster_id: str, node_id: str) -> Claim:
    """Lock the directory, then read or create node.json: before anything in it is touched."""
    try:
        lock = DirectoryLock(data_dir)
        try:
            return Claim(lock, open_identity(data_dir, cluster_id=cluster_id, node_id=node_id))
        except BaseException:
            lock.release()
            raise
    except OSError as error:
        raise IdentityError(
            f"data directory {data_dir} cannot be used: {error.filename or data_dir}: "
            f"{error.strerror}. Give this node a directory that its user may write to."
        ) from error


def open_identity(data_dir: str, *, cluster_id: str, node_id: str) -> Identity:
    """Read and verify node.json; write it when the directory is new. Call it under the lock."""
    path = os.path.join(data_dir, "node.json")
    try:
        with open(path, "rb") as file:
            found = _parse(path, file.read())
    except FileNotFoundError:
        return _create(data_dir, path, cluster_id=cluster_id, node_id=node_id)
    for name, wanted in (("cluster_id", cluster_id), ("node_id", node_id)):
        actual = getattr(found, name)
        if actual != wanted:
            raise IdentityError(
                f"{path} belongs to {name} {actual!r}, but this node is configured as {wanted!r}. "
                "Point this node at its own directory, or correct its configuration"
                + (" (unless set, it is derived from peers)." if name == "cluster_id" else ".")
            )
    return found


def _parse(path: str, content: bytes) -> Identity:
    try:
        fields = json.loads(content)
        if fields["format"] != FORMAT_VERSION:
            raise IdentityError(
                f"{path} has format {fields['format']!r}; this release reads {FORMAT_VERSION}. "
                "Use the release that wrote it, or a newer one."
            )
        texts = {name: fields[name] for name in ("cluster_id", "node_id", "incarnation")}
        if not all(isinstance(text, str) and text for text in texts.values()):
            raise ValueError("a field is not text")
        return Identity(format=FORMAT_VERSION, **texts)
    except (ValueError, KeyError, TypeError) as error:
        raise IdentityError(
            f"{path} is damaged ({error}). It holds this node's identity: restore it from a "
            "backup, or remove the whole data directory and let the node join as a new one."
        ) from error


def _create(data_dir: str, path: str, *, cluster_id: str, node_id: str) -> Identity:
    strangers = sorted(set(os.listdir(data_dir)) - {"lock", "node.json.tmp"})
    if strangers:
        raise IdentityError(
            f"{data_dir} has no node.json but is not empty (it holds {', '.join(strangers[:3])}). "
            "Choose an empty directory, or restore node.json."
        )
    identity = Identity(
        format=FORMAT_VERSION,
        cluster_id=cluster_id,
        node_id=node_id,
        incarnation=secrets.token_hex(16),
    )
    temporary = path + ".tmp"
    with open(temporary, "wb") as file:
        file.write(json.dumps(asdict(identity), indent=2).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    sync_directory(data_dir)
    sync_directory(os.path.dirname(os.path.abspath(data_dir)))
    return identity


def sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
