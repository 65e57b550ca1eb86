"""Runs that belong together: by name, and along a chain of continue-as-new."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from raftflow.cluster.store import lists
from raftflow.cluster.store.aggregates import Aggregates
from raftflow.cluster.store.views import Chain, ChainLink, RunSummary
from raftflow.engine.ids import RunKey
from raftflow.engine.state import Run

# A chain may have any number of links. So many are looked up on each side of a run.
LINKS = 50

_OLDER = """SELECT run_no, run_id FROM runs INDEXED BY runs_by_workflow
    WHERE namespace = ? AND workflow_id = ? AND run_no < ? ORDER BY run_no DESC LIMIT ?"""
_NEWER = """SELECT run_no, run_id FROM runs INDEXED BY runs_by_workflow
    WHERE namespace = ? AND workflow_id = ? AND run_no > ? ORDER BY run_no LIMIT ?"""


def summaries(path: str, db: sqlite3.Connection, keys: Iterable[RunKey]) -> list[RunSummary | None]:
    """One for each run, None for what is not kept; fewer when a page has no room for more."""
    aggregates = Aggregates(path, db)
    numbers = [aggregates.run_no(key) for key in keys]
    runs = iter(lists.summaries(db, [number for number in numbers if number is not None]))
    found: list[RunSummary | None] = []
    for number in numbers:
        run = None if number is None else next(runs, None)
        if run is None and number is not None:
            break
        found.append(run)
    return found


def chain(path: str, db: sqlite3.Connection, key: RunKey) -> Chain:
    """The runs that continued as each other, with this one among them. Raises CorruptRecord."""
    aggregates = Aggregates(path, db)
    number = aggregates.run_no(key)
    if number is None:
        return Chain()
    run, _ = aggregates.head(number)
    older = list(_linked(aggregates, db, run, number, newer=False))
    newer = list(_linked(aggregates, db, run, number, newer=True))
    return Chain(
        links=tuple(map(_link, [*older[:LINKS][::-1], run, *newer[:LINKS]])),
        older=len(older) > LINKS,
        newer=len(newer) > LINKS,
    )


def _linked(
    aggregates: Aggregates, db: sqlite3.Connection, run: Run, number: int, *, newer: bool
) -> Iterator[Run]:
    """What lies next to it, one after the other, one more than is shown. A chain ends where its
    next run has been deleted."""
    values = (run.key.namespace, run.key.workflow_id, number, LINKS + 1)
    for run_no, run_id in db.execute(_NEWER if newer else _OLDER, values).fetchall():
        if run_id != (run.continued_to_run_id if newer else run.continued_from_run_id):
            return
        run, _ = aggregates.head(run_no)
        yield run


def _link(run: Run) -> ChainLink:
    return ChainLink(run.key.run_id, run.status, run.started_ms)
