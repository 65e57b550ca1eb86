"""Rot while nodes are down: a different committed record on each, and one damaged store.

Every record stays whole on all nodes but one, so the last intact copy of nothing is lost; who comes
back has to fetch its own from the others.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from raftflow.raftlog import dump
from raftflow.raftlog.disk import OsDisk
from tests.jepsen.cluster import REPAIR
from tests.jepsen.nemesis.fault import Fault, NotNow
from tests.support.corrupt import Record, damage_entry, records

OTHER_RECORDS = 3  # between those that are damaged, so that no two lie in one block
MIDDLE = 0.5  # of the store's file, beyond its header


class Corruption(Fault):
    needs = frozenset({REPAIR})
    lasts_s = (0.0, 1.0)
    store_of = 0  # how many nodes lose their store instead of a record

    def inject(self) -> str:
        self.victims = self.others()
        self.cluster.kill(*self.victims)
        if not all(map(self._whole, self.victims)):
            self.restart(*self.victims)
            raise NotNow("what was damaged before is not repaired yet")
        damaged_stores = self.victims[: self.store_of]
        whole = [node for node in self.victims if node not in damaged_stores]
        self._damage = [self._damage_store(node) for node in damaged_stores]
        taken: set[int] = set()
        for node in whole:
            index = self._choose(node, taken)
            if index:
                taken |= set(range(index - OTHER_RECORDS, index + OTHER_RECORDS))
                damage_entry(self._log(node), index)
                self._damage.append(f"{node} entry {index}")
        if not self._damage:
            self.restart(*self.victims)
            raise NotNow("the logs are too short")
        return f"killed all, damaged {', '.join(self._damage)}"

    def _whole(self, node: str) -> bool:
        """Damage on damage could destroy the last copy."""
        found = dump.verify(str(self._log(node)), OsDisk())
        if any(finding.severity is not dump.Severity.TORN for finding in found):
            return False
        store = self._store(node)
        if not store.exists():
            return False
        # What lies in the write-ahead log beside it is not what we damage.
        with contextlib.closing(sqlite3.connect(f"file:{store}?immutable=1", uri=True)) as read:
            try:
                return bool(read.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
            except sqlite3.DatabaseError:
                return False

    def _store(self, node: str) -> Path:
        return Path(self.cluster.data_dir(node)) / "state.db"

    def _log(self, node: str) -> Path:
        return Path(self.cluster.data_dir(node)) / "raft"

    def _choose(self, node: str, taken: set[int]) -> int:
        """An entry that all nodes have: a tail may be on this one alone."""
        logs = [{r.index for r in self._records(each)} for each in self.victims]
        common = set.intersection(*logs) - taken
        newest = min(max(log, default=0) for log in logs)
        common = {index for index in common if index < newest - OTHER_RECORDS}
        return self.chance.choice(sorted(common)) if common else 0

    def _records(self, node: str) -> list[Record]:
        return records(self._log(node))

    def _damage_store(self, node: str) -> str:
        path = self._store(node)
        data = bytearray(path.read_bytes())
        begin = int(len(data) * MIDDLE)
        data[begin : begin + 4096] = self.chance.randbytes(4096)
        path.write_bytes(data)
        return f"{node} state.db"

    def effect(self) -> str:
        # That they come back is heal's to see, and that nothing is lost the workloads'.
        return f"{len(self._damage)} damaged"

    def heal(self) -> None:
        self.restart(*self.victims)


class CorruptRecords(Corruption):
    name = "corrupt-records"


class CorruptStore(Corruption):
    name = "corrupt-store"
    store_of = 1


FAULTS = (CorruptRecords, CorruptStore)
