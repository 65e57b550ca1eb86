"""What leads to the runs that a filter asks for."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator

import pytest
from populate import apply, populate, terminate
from replica_rig import Rig

from raftflow.cluster.store import RunFilter, filters
from raftflow.cluster.store.filters import select
from raftflow.engine.state import RunStatus

GOLD, BIG = ("tier", "gold"), ("size", "1")


@pytest.fixture
async def db(rig: Rig) -> sqlite3.Connection:
    labels = (("size", "1"), ("tier", '"gold"'))
    await populate(rig, ["a", "b", "c"], search_attributes=labels)
    await populate(rig, ["d", "e"], workflow_type="Refund", search_attributes=labels[:1])
    await populate(rig, ["f"], task_queue="slow")
    await apply(rig, terminate("a"), terminate("d"))
    await rig.store.checkpoint()
    return sqlite3.connect(rig.store.path)


def leads(db: sqlite3.Connection, **wanted: object) -> list[str]:
    selection = select(db, RunFilter(namespace="default", **wanted))  # type: ignore[arg-type]
    return [lead.source.split()[-1] for lead in selection.leads]


def test_the_index_with_the_fewest_candidates_leads(db: sqlite3.Connection) -> None:
    ended = (RunStatus.TERMINATED,)
    assert leads(db) == ["runs_by_namespace"]
    assert leads(db, workflow_type="Refund") == ["runs_by_type"]
    assert leads(db, statuses=ended) == ["runs_by_phase"]
    assert leads(db, statuses=ended, workflow_type="Order") == ["runs_by_type_phase"]
    assert leads(db, task_queue="slow") == ["runs_by_queue"]
    assert leads(db, task_queue="default", statuses=ended) == ["runs_by_phase"]
    assert leads(db, attributes=(GOLD,)) == ["attributes_by_value"]
    assert leads(db, attributes=(GOLD,), statuses=ended) == ["runs_by_phase"]
    assert leads(db, attributes=(GOLD,), task_queue="slow") == ["runs_by_queue"]
    rarest = select(db, RunFilter(namespace="default", attributes=(BIG, GOLD))).leads[0]
    assert rarest.values[1:] == GOLD


def test_each_status_has_its_index_and_running_one_of_its_own(db: sqlite3.Connection) -> None:
    running, waiting = RunStatus.RUNNING, RunStatus.WAITING
    two = (RunStatus.FAILED, RunStatus.TERMINATED)
    assert leads(db, statuses=two) == ["runs_by_phase"] * 2
    assert leads(db, statuses=(running,)) == ["runs_running"]
    assert leads(db, statuses=(running, waiting)) == ["runs_by_phase"]
    assert leads(db, statuses=(running, *two)) == ["runs_running", *["runs_by_phase"] * 2]


def test_what_the_index_says_is_not_checked_again(db: sqlite3.Connection) -> None:
    def checked(**wanted: object) -> list[str]:
        found = select(db, RunFilter(namespace="default", **wanted))  # type: ignore[arg-type]
        return [term for term, _ in found.checks]

    assert checked() == []
    assert checked(statuses=(RunStatus.FAILED, RunStatus.TERMINATED)) == []
    assert checked(statuses=(RunStatus.RUNNING, RunStatus.WAITING)) == []
    assert checked(statuses=(RunStatus.WAITING,)) == ["runs.status IN (?)"]
    assert checked(statuses=(RunStatus.FAILED,), workflow_type="Order") == []
    assert checked(attributes=(GOLD,)) == []
    assert checked(task_queue="slow", workflow_type="Order") == ["runs.workflow_type = ?"]


def test_the_text_index_leads_where_nothing_else_leaves_few(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert leads(db, query="order") == ["runs_by_namespace"]
    assert leads(db, query="größe") == ["runs_text"], "only it knows letters beyond ASCII"
    monkeypatch.setattr(filters, "EXACT_TOTAL", 2)
    assert leads(db, query="order") == ["runs_text"]
    assert leads(db, query="or") == ["runs_by_namespace"], "it has no trigram"
    assert leads(db, query="order", statuses=(RunStatus.TERMINATED,)) == ["runs_by_phase"]
    assert leads(db, query="order", task_queue="none") == ["runs_by_queue"]


def every_kind() -> Iterator[RunFilter]:
    """Every combination of filters that a list may have, with every kind of cursor."""
    choices = {
        "statuses": [
            (),
            (RunStatus.COMPLETED,),
            (RunStatus.WAITING,),
            (RunStatus.RUNNING, RunStatus.WAITING),
            (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.CANCELLED),
        ],
        "query": ["", "or", "order", "größe"],
        "workflow_type": ["", "Order"],
        "task_queue": ["", "slow"],
        "attributes": [(), (GOLD,), (GOLD, BIG)],
    }
    for values in itertools.product(*choices.values()):
        yield RunFilter(namespace="default", **dict(zip(choices, values, strict=True)))  # type: ignore[arg-type]


@pytest.mark.parametrize("exact_total", [0, 10_000])
def test_no_list_and_no_count_scans_a_table_or_sorts(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, exact_total: int
) -> None:
    monkeypatch.setattr(filters, "EXACT_TOTAL", exact_total)
    for wanted in every_kind():
        selection = select(db, wanted)
        steps = plan(db, *selection.numbers(1, 100, 10))
        assert not [step for step in steps if "TEMP B-TREE" in step], (wanted, steps)
        for question in (
            selection.numbers(1, 100, 10),
            selection.count(1, 100, 10),
            selection.by_status(1, 100),
        ):
            scans = [step for step in plan(db, *question) if is_scan(step)]
            assert not scans, (wanted, scans)


def test_running_runs_alone_are_sorted(db: sqlite3.Connection) -> None:
    """Their index is by type, and no longer than there are leases."""
    wanted = RunFilter(namespace="default", statuses=(RunStatus.RUNNING, RunStatus.FAILED))
    steps = plan(db, *select(db, wanted).numbers(1, 100, 10))
    assert not [step for step in steps if is_scan(step)]
    assert [step for step in steps if "runs_running" in step]


def plan(db: sqlite3.Connection, sql: str, values: list[object]) -> list[str]:
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", values)]


def is_scan(step: str) -> bool:
    """Of a table of the store: what a subquery found and what the text index found is no table."""
    return step.startswith(("SCAN runs", "SCAN attributes", "SCAN led", "SCAN other")) and (
        "runs_text" not in step
    )
