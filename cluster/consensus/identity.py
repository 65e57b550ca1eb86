"""`node.json`: whose data directory this is. And the lock that keeps a second process out.

The incarnation is drawn once, when the directory is born. A node that comes back with another one
has lost its disk, and with it its votes and acknowledgements. `boots` counts its starts, and on
while it runs (`boots.py`): whoever comes with a count that its peers have seen is an old copy, with
votes and acknowledgements missing.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass, replace

from raftflow.cluster.durable import replace_durably, sync_directory
from raftflow.raftlog.disk import OsDisk

FORMAT_VERSION = 1
# Directories that `raftflow node rebuild` made: what was there before.
SET_ASIDE = "damaged-"


class IdentityError(Exception):
    """The data directory is not one that this node may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    format: int
    cluster_id: str
    node_id: str
    incarnation: str
    boots: int = 0


class DirectoryLock:
    """An flock on `data/lock`; the kernel drops it with the process, however that ends."""

    def __init__(self, data_dir: str) -> None:
        OsDisk().makedirs(data_dir)  # durably: with its name the votes in it would be lost
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


def claim_directory(
    data_dir: str, *, cluster_id: str, node_id: str, only_at_birth: bool = False
) -> Claim:
    """Lock the directory, then read or create node.json and count this start: before anything in it
    is touched. `only_at_birth`: the cluster id is for a new directory, an old one keeps its own."""
    try:
        lock = DirectoryLock(data_dir)
        try:
            identity = open_identity(
                data_dir, cluster_id=cluster_id, node_id=node_id, only_at_birth=only_at_birth
            )
            identity = replace(identity, boots=identity.boots + 1)
            write_identity(data_dir, identity)
            return Claim(lock, identity)
        except BaseException:
            lock.release()
            raise
    except OSError as error:
        raise IdentityError(
            f"data directory {data_dir} cannot be used: {error.filename or data_dir}: "
            f"{error.strerror}. Give this node a directory that its user may write to."
        ) from error


def open_identity(
    data_dir: str, *, cluster_id: str, node_id: str, only_at_birth: bool = False
) -> Identity:
    """Read and verify node.json; write it when the directory is new. Call it under the lock."""
    found = read_identity(data_dir)
    if found is None:
        return _create(data_dir, cluster_id=cluster_id, node_id=node_id)
    require(found, data_dir, cluster_id=cluster_id, node_id=node_id, only_at_birth=only_at_birth)
    return found


def require(
    found: Identity, data_dir: str, *, cluster_id: str, node_id: str, only_at_birth: bool
) -> None:
    """Raises IdentityError when the directory is another node's, or of another cluster."""
    expected = {"node_id": node_id} | ({} if only_at_birth else {"cluster_id": cluster_id})
    for name, wanted in expected.items():
        actual = getattr(found, name)
        if actual != wanted:
            raise IdentityError(
                f"{_path(data_dir)} belongs to {name} {actual!r}, but this node is configured as "
                f"{wanted!r}. Point this node at its own directory, or correct its configuration"
                + (
                    " (a directory keeps its id where none is set)."
                    if name == "cluster_id"
                    else "."
                )
            )


def read_identity(data_dir: str) -> Identity | None:
    """What node.json says; None where there is none."""
    try:
        with open(_path(data_dir), "rb") as file:
            return _parse(_path(data_dir), file.read())
    except FileNotFoundError:
        return None


def write_identity(data_dir: str, identity: Identity) -> None:
    replace_durably(_path(data_dir), json.dumps(asdict(identity), indent=2).encode() + b"\n")


def _path(data_dir: str) -> str:
    return os.path.join(data_dir, "node.json")


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
        boots = fields.get("boots", 0)  # releases before 0.3 wrote none
        if type(boots) is not int or boots < 0:
            raise ValueError("boots is not a number")
        return Identity(format=FORMAT_VERSION, **texts, boots=boots)
    except (ValueError, KeyError, TypeError) as error:
        raise IdentityError(
            f"{path} is damaged ({error}). It holds this node's identity. While all other nodes "
            "run, empty the directory with `raftflow node rebuild DIR` and start the node again: "
            "it joins as a new one."
        ) from error


def refuse_strangers(data_dir: str) -> None:
    """Raises IdentityError when a directory without a node.json holds something all the same."""
    strangers = sorted(
        name
        for name in os.listdir(data_dir)
        if name not in ("lock", "node.json.tmp") and not name.startswith(SET_ASIDE)
    )
    if strangers:
        raise IdentityError(
            f"{data_dir} has no node.json but is not empty (it holds {', '.join(strangers[:3])}). "
            "Choose an empty directory, or restore node.json; if it is lost, and while all other "
            "nodes run: `raftflow node rebuild DIR`."
        )


def _create(data_dir: str, *, cluster_id: str, node_id: str) -> Identity:
    refuse_strangers(data_dir)
    if not cluster_id:
        raise IdentityError(
            f"{data_dir} is new, and which cluster it joins is not said. Set --cluster-id: "
            "`raftflow node add` prints it, and so does `raftflow cluster status`."
        )
    identity = Identity(
        format=FORMAT_VERSION,
        cluster_id=cluster_id,
        node_id=node_id,
        incarnation=secrets.token_hex(16),
    )
    write_identity(data_dir, identity)
    # Whoever made the directory may not have synced its name.
    sync_directory(os.path.dirname(os.path.abspath(data_dir)))
    return identity
