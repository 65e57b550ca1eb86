"""The data directory of a node that lost the others."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from raftflow.cluster.consensus.configurations import CONFIGURATION, REGULAR, Held
from raftflow.cluster.consensus.identity import claim_directory
from raftflow.cluster.consensus.membership import Configuration, Member, encode
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.store import AppliedState, Store, WriteBatch
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry

DISK = OsDisk()
LEVEL = 4


def three(own_disk: str, n2: str) -> Configuration:
    return Configuration(
        (Member("n1", "a:1", True, own_disk), Member("n2", n2, True, "x"), Member("n3", "c:1")),
        LEVEL,
    )


def born(
    directory: Path, *, entries: int = 9, applied: int = 6, prev: int = 0, n2: str = "b:1"
) -> Configuration:
    """The directory of n1 as a crash leaves it: entry 4 says who belongs, the last were not
    committed."""
    claim = claim_directory(str(directory), cluster_id="shop", node_id="n1")
    claim.lock.release()
    configuration = three(claim.identity.incarnation, n2)
    raft = str(directory / "raft")
    HardState.open(raft, DISK).store(3, "n2")
    MembershipFile.open(raft, DISK).store(Held(0, replace(configuration, feature_level=0)))
    with closing(Journal.open(raft, disk=DISK)) as journal:
        if prev:
            journal.reset(prev, 1)
        for index in range(prev + 1, entries + 1):
            payload = CONFIGURATION + encode(configuration) if index == 4 else REGULAR + b"x"
            journal.append([LogEntry(index, 2, payload)])
        journal.flush()
    (directory / "peers.json").write_text('{"format": 1, "peers": {}}')
    asyncio.run(applied_at(directory / "state.db", applied))
    return configuration


async def applied_at(path: Path, index: int) -> None:
    store = await Store.open(path)
    store.submit(WriteBatch(AppliedState(index, 2, 1_000, bytes(16), 1)))
    await store.wait_written(index)
    await store.close()
