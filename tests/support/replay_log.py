"""Apply a log with whichever release this process runs, and print the digest after each entry.

usage: replay_log.py LOG_FILE FOLDER     (of the log: u32 length, payload, for each entry)
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from raftflow.cluster.replica import Replica, ReplicaSettings
from raftflow.cluster.store import Store, StoreSettings, WriterTimes
from raftflow.raftlog.journal import LogEntry


class Consensus:
    def compact(self, index: int) -> None:
        pass

    def fatal(self, error: BaseException) -> Any:
        raise error


def payloads(log: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(log):
        size = int.from_bytes(log[at : at + 4], "little")
        found.append(log[at + 4 : at + 4 + size])
        at += 4 + size
    return found


async def main(entries: list[bytes], folder: Path) -> None:
    settings = StoreSettings(times=WriterTimes(linger_ms=0))
    store = await Store.open(folder / "state.db", settings=settings, on_fatal=Consensus().fatal)
    replica = Replica(store=store, settings=ReplicaSettings(snapshots=folder / "snapshots"))
    replica.attach(Consensus())
    for index, payload in enumerate(entries, start=1):
        replica.on_apply([LogEntry(index, 1, payload)])
        await replica.wait_applied(index, timeout_ms=10_000)
        print(replica.digest.hex())
    await replica.stop()
    await store.close()


Path(sys.argv[2]).mkdir()
asyncio.run(main(payloads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])))
