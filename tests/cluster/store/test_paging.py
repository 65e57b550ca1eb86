"""A page that goes back is damage."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from populate import populate
from replica_rig import Rig

from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.cluster.store import duties
from raftflow.cluster.store.paging import forward


@pytest.mark.parametrize(
    ("keys", "after"), [([], 7), ([1, 2, 9], 0), ([("a", 1), ("a", 2), ("b", 0)], ("", 0))]
)
def test_what_goes_on_is_let_through(keys: list[Any], after: Any) -> None:
    forward(keys, after)


@pytest.mark.parametrize(
    ("keys", "after"),
    [
        ([7], 7),
        ([3], 7),
        ([1, 2, 2], 0),
        ([2, 1], 0),
        (["x"], 0),
        ([None], 0),
        ([(1, "x")], (1, 2)),
    ],
)
def test_what_stands_still_or_goes_back_is_damage(keys: list[Any], after: Any) -> None:
    with pytest.raises(UnknownValue, match="comes behind"):
        forward(keys, after)


async def test_an_index_in_another_order_is_damage(rig: Rig, tmp_path: Path) -> None:
    """Else what comes behind it in the file would never be found, or found for ever."""
    await populate(rig, ["a", "b", "c"])
    await rig.settle()
    path = str(tmp_path / "copy.db")
    db = sqlite3.connect(path, isolation_level=None)
    with sqlite3.connect(rig.store.path) as healthy:
        healthy.backup(db)
    assert len(duties.open_tasks(path, db, None, 9).tasks) == 3
    sql = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'runs_open_decisions'").fetchone()
    db.execute("DROP INDEX runs_open_decisions")
    db.execute(sql[0].replace("(decision_state)", "(decision_state, run_no DESC)"))
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'runs_open_decisions'", sql)
    db.close()
    db = sqlite3.connect(path)
    with pytest.raises(UnknownValue, match="comes behind"):
        duties.open_tasks(path, db, None, 9)
    db.close()
