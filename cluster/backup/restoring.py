"""A data directory whose node begins where a backup ends, as a member of a new cluster.

The log begins after the backup's last entry. `node.json` is written last: until then no node starts
there. Every member makes its own, on its own machine, from the same backup and the same members; so
nothing has to be agreed on: the id of the new cluster follows from these two.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from raftflow.cluster.backup.manifest import STATE, BackupError, Manifest
from raftflow.cluster.config import Config
from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.identity import (
    FORMAT_VERSION,
    DirectoryLock,
    Identity,
    write_identity,
)
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.durable import sync_directory
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal

RAFT = "raft"


def cluster_id(config: Config, manifest: Manifest) -> str:
    """The one that was asked for, or another for each backup and each set of members: nodes of the
    cluster that the backup is of must not take part."""
    if not config.cluster_id_derived:
        return config.cluster_id
    members = ",".join([str(peer) for peer in config.voters])
    return "r" + hashlib.sha256(f"{manifest.sha256} {members}".encode()).hexdigest()[:16]


class Restoration:
    """The directory is this process's from `begin` to `close`."""

    def __init__(self, config: Config, manifest: Manifest) -> None:
        if config.join:
            raise BackupError("name the members with peers: a node with join has a cluster already")
        if manifest.index < 1:
            raise BackupError("the backup holds nothing: start a new cluster instead")
        manifest.require_readable()
        self._config = config
        self._manifest = manifest
        self.cluster_id = cluster_id(config, manifest)
        self._directory = config.data_dir
        self._lock: DirectoryLock | None = None

    @property
    def state(self) -> Path:
        return self._directory / STATE

    def begin(self) -> None:
        """Raises BackupError when there is anything in the directory, IdentityError when it is in
        use."""
        there = self._directory.is_dir() and sorted(os.listdir(self._directory))
        strangers = [name for name in there or () if name != "lock"]
        if strangers:
            raise BackupError(
                f"{self._directory} is not empty (it holds {', '.join(strangers[:3])}): restore"
                " into an empty directory. Nothing was changed"
            )
        self._lock = DirectoryLock(str(self._directory))

    def write_state(self, pieces: Iterator[bytes]) -> None:
        with self.state.open("xb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(str(self._directory))

    def finish(self) -> None:
        """Everything beside the state, which is judged by now."""
        manifest, disk = self._manifest, OsDisk()
        directory = str(self._directory / RAFT)
        disk.makedirs(directory)
        # Nobody has voted in the new cluster. Its first leader has a later term.
        HardState.open(directory, disk).store(manifest.term, None)
        members = tuple(Member(peer.id, str(peer.raft)) for peer in self._config.voters)
        # The leader records the disks and the feature level once it has met all members.
        held = Held(manifest.index, Configuration(members))
        MembershipFile.open(directory, disk).store(held)
        journal = Journal.open(directory, disk=disk)
        journal.reset(manifest.index, manifest.term)
        journal.close()
        write_identity(
            str(self._directory),
            Identity(
                format=FORMAT_VERSION,
                cluster_id=self.cluster_id,
                node_id=self._config.node_id,
                incarnation=secrets.token_hex(16),
            ),
        )
        sync_directory(str(self._directory.absolute().parent))

    def give_up(self) -> None:
        """Leave the directory as it was found."""
        self.state.unlink(missing_ok=True)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
