"""Lists: filters, search, counting, paging."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import engine_harness as make
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from populate import BIRTH_MS, apply, decide, populate, terminate
from replica_rig import Rig

from raftflow.cluster.store import BadCursor, RunFilter, RunSummary, filters, lists, walk
from raftflow.cluster.store import store as store_module
from raftflow.cluster.store.batch import plain_text
from raftflow.engine.commands import CreateNamespace, UpsertSearchAttributes
from raftflow.engine.ids import WorkflowKey
from raftflow.engine.state import RunStatus


async def ids(rig: Rig, **wanted: object) -> list[str]:
    page = await rig.store.list_runs(RunFilter(namespace="default", **wanted))  # type: ignore[arg-type]
    assert page.total == len(page.runs), wanted
    assert page.total_exact
    return [run.key.workflow_id for run in page.runs]


async def counts(rig: Rig, **wanted: object) -> Mapping[RunStatus, int]:
    found = await rig.store.counts(RunFilter(namespace="default", **wanted))  # type: ignore[arg-type]
    assert found.exact
    assert found.total == sum(found.by_status.values())
    return found.by_status


async def test_every_filter_finds_its_runs_newest_first(rig: Rig) -> None:
    await populate(rig, ["a1", "a2"])
    await populate(rig, ["b1"], workflow_type="Refund", task_queue="slow")
    await populate(rig, ["b2"], workflow_type="Refund")
    born = rig.replica.time_ms
    await apply(rig, terminate("a1"), terminate("b1"))
    terminated = RunStatus.TERMINATED
    assert await ids(rig) == ["b2", "b1", "a2", "a1"]
    assert await ids(rig, workflow_type="Refund") == ["b2", "b1"]
    assert await ids(rig, statuses=(terminated,)) == ["b1", "a1"]
    assert await ids(rig, statuses=(terminated,), workflow_type="Order") == ["a1"]
    assert await ids(rig, statuses=(terminated, RunStatus.WAITING)) == ["b2", "b1", "a2", "a1"]
    assert await ids(rig, statuses=(RunStatus.FAILED,)) == []
    assert await ids(rig, task_queue="slow") == ["b1"]
    assert await ids(rig, task_queue="slow", statuses=(terminated,)) == ["b1"]
    assert await ids(rig, task_queue="slow", workflow_type="Order") == []
    assert await ids(rig, task_queue="default", workflow_type="Refund") == ["b2"]
    assert await ids(rig, started_after_ms=born - 2) == ["b2", "b1"]
    assert await ids(rig, started_before_ms=born - 1) == ["a2", "a1"]
    assert await ids(rig, started_after_ms=born, started_before_ms=born + 9) == []


async def test_running_and_waiting_are_told_apart(rig: Rig) -> None:
    await populate(rig, ["a1", "a2", "a3"])
    for workflow_id in ("a1", "a3"):
        run = await rig.replica.run_view("default", workflow_id)
        assert run is not None
        await apply(rig, make.grant_decision(run, nonce="n"))
    assert await ids(rig, statuses=(RunStatus.RUNNING,)) == ["a3", "a1"]
    assert await ids(rig, statuses=(RunStatus.RUNNING,), workflow_type="Order") == ["a3", "a1"]
    assert await ids(rig, statuses=(RunStatus.WAITING,)) == ["a2"]
    assert await ids(rig, statuses=(RunStatus.WAITING,), query="a2") == ["a2"]
    both = (RunStatus.RUNNING, RunStatus.WAITING)
    assert await ids(rig, statuses=both) == ["a3", "a2", "a1"]
    await apply(rig, terminate("a1"))
    assert await ids(rig, statuses=both) == ["a3", "a2"]
    ended = (RunStatus.TERMINATED, RunStatus.FAILED)
    assert await ids(rig, statuses=(*ended, RunStatus.RUNNING)) == ["a3", "a1"]
    assert await ids(rig, statuses=(*ended, RunStatus.WAITING)) == ["a2", "a1"]
    assert await counts(rig) == {
        RunStatus.RUNNING: 1,
        RunStatus.WAITING: 1,
        RunStatus.TERMINATED: 1,
    }


async def test_namespaces_do_not_see_each_other(rig: Rig) -> None:
    await apply(rig, CreateNamespace(namespace="other", retention_ms=0, request_id=""))
    await populate(rig, ["here"])
    await populate(rig, ["there"], namespace="other")
    assert await ids(rig) == ["here"]
    assert await ids(rig, query="there") == []
    counted = await rig.store.counts(RunFilter(namespace="other"))
    assert counted.by_status == {RunStatus.WAITING: 1}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("ORDER-1", ["Order-12", "order-1"]),
        ("rder", ["Order-12", "order-1"]),
        ("12", ["Order-12"]),
        ("R", ["Order-12", "order-1", "über-größe"]),
        ("ÜBER", ["über-größe"]),
        ("größe", ["über-größe"]),
        ('"', ['qu"ote']),
        ('u"o', ['qu"ote']),
        ("refund", ["über-größe"]),
        ("100%", ["100%_*"]),
        ("_*", ["100%_*"]),
        ("0%_*", ["100%_*"]),
        ("r OR a", []),
        ("none", []),
    ],
)
async def test_substrings_of_id_and_type(rig: Rig, query: str, found: list[str]) -> None:
    await populate(rig, ["über-größe"], workflow_type="Refund")
    await populate(rig, ["order-1", "Order-12", 'qu"ote', "100%_*"], workflow_type="Task")
    assert await ids(rig, query=query) == found


async def test_a_search_beside_another_filter(rig: Rig) -> None:
    await populate(rig, ["order-1", "order-2", "other-3"])
    await apply(rig, terminate("order-1"), terminate("other-3"))
    assert await ids(rig, query="order-", statuses=(RunStatus.TERMINATED,)) == ["order-1"]
    assert await ids(rig, query="order", statuses=(RunStatus.FAILED,)) == []
    assert await ids(rig, query="rder-", task_queue="default") == ["order-2", "order-1"]


async def test_pages_by_offset_and_by_cursor(rig: Rig) -> None:
    names = [f"w{n}" for n in range(7)]
    await populate(rig, names)
    newest_first = names[::-1]
    seen: list[str] = []
    cursor = ""
    for _ in range(4):
        wanted = RunFilter(namespace="default", limit=2, cursor=cursor)
        page = await rig.store.list_runs(wanted)
        assert (page.total, page.total_exact) == (7, True)
        assert page.applied_index == rig.replica.applied_index
        seen += [run.key.workflow_id for run in page.runs]
        cursor = page.next_cursor
    assert seen == newest_first
    assert cursor == ""
    page = await rig.store.list_runs(RunFilter(namespace="default", limit=3, offset=3))
    assert [run.key.workflow_id for run in page.runs] == newest_first[3:6]
    page = await rig.store.list_runs(RunFilter(namespace="default", limit=3, offset=9))
    assert (page.runs, page.next_cursor) == ((), "")
    page = await rig.store.list_runs(RunFilter(namespace="default", limit=0))
    assert (page.runs, page.total) == ((), 7)


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "9" * 30, "٣"])
async def test_a_foreign_cursor_is_refused(rig: Rig, cursor: str) -> None:
    with pytest.raises(BadCursor):
        await rig.store.list_runs(RunFilter(namespace="default", cursor=cursor))


async def test_a_page_whose_time_is_over_is_short_and_goes_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "WIDTH", 3)
    monkeypatch.setattr(lists, "_PAGE_BUDGET_S", -1.0)
    monkeypatch.setattr(lists, "_COUNT_BUDGET_S", -1.0)
    await populate(rig, [f"w{n}" for n in range(8)])
    seen: list[str] = []
    cursor, pages = "", 0
    while True:
        wanted = RunFilter(namespace="default", query="w", cursor=cursor)
        page = await rig.store.list_runs(wanted)
        assert len(page.runs) <= 3
        seen += [run.key.workflow_id for run in page.runs]
        cursor, pages = page.next_cursor, pages + 1
        if not cursor:
            break
        assert not page.total_exact
    assert seen == [f"w{n}" for n in range(7, -1, -1)]
    assert pages == 3


async def test_a_page_ends_when_memos_fill_it(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "PAGE_BYTES", 100)
    monkeypatch.setattr(lists, "_LABELS_AT_ONCE", 2)
    memo = '{"text":"' + "x" * 40 + '"}'
    names = [f"w{n}" for n in range(7)]
    await populate(rig, names, memo=memo)
    seen: list[str] = []
    cursor, pages = "", 0
    while pages == 0 or cursor:
        page = await rig.store.list_runs(RunFilter(namespace="default", cursor=cursor))
        seen += [run.key.workflow_id for run in page.runs]
        assert page.total == 7
        cursor, pages = page.next_cursor, pages + 1
    assert (seen, pages) == (names[::-1], 4)


async def test_the_runs_of_an_id_page_by_page(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_RUNS_OF_ONE_ID", 2)
    await populate(rig, [])
    for number in range(5):
        reuse = make.IdReusePolicy.ALLOW_DUPLICATE
        await apply(rig, make.start("again", run_id=f"r{number}", reuse=reuse))
        await apply(rig, terminate("again"))
    seen: list[str] = []
    cursor, pages = "", 0
    while pages == 0 or cursor:
        runs, cursor = await rig.store.runs_of(WorkflowKey("default", "again"), cursor)
        seen += [run.key.run_id for run in runs]
        pages += 1
    assert (seen, pages) == (["r4", "r3", "r2", "r1", "r0"], 3)


async def test_a_total_is_exact_up_to_its_bound(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "EXACT_TOTAL", 3)
    await populate(rig, ["w0", "w1", "w2"])
    wanted = RunFilter(namespace="default", task_queue="default", limit=2)
    page = await rig.store.list_runs(wanted)
    assert (page.total, page.total_exact) == (3, True)
    await populate(rig, ["w3"])
    page = await rig.store.list_runs(wanted)
    assert (page.total, page.total_exact, len(page.runs)) == (3, False, 2)
    page = await rig.store.list_runs(replace(wanted, limit=4))
    assert (page.total, page.total_exact) == (4, True), "what a page shows is counted"


async def test_counting_gives_up_in_time(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await populate(rig, [f"w{n}" for n in range(10)])
    monkeypatch.setattr(walk, "WIDTH", 4)
    monkeypatch.setattr(lists, "_COUNT_BUDGET_S", -1.0)
    wanted = RunFilter(namespace="default", task_queue="default", limit=2)
    page = await rig.store.list_runs(wanted)
    assert (page.total, page.total_exact, len(page.runs)) == (4, False, 2)
    found = await rig.store.counts(wanted)
    assert (found.total, found.exact) == (4, False)


async def test_counts_by_status_of_what_a_filter_finds(rig: Rig) -> None:
    await populate(rig, ["order-1", "order-2"], search_attributes=(GOLD,))
    await populate(rig, ["order-3"], workflow_type="Refund", task_queue="slow")
    await apply(rig, terminate("order-1"), terminate("order-3"))
    one_each = {RunStatus.WAITING: 1, RunStatus.TERMINATED: 1}
    assert await counts(rig) == {RunStatus.WAITING: 1, RunStatus.TERMINATED: 2}
    assert await counts(rig, workflow_type="Order") == one_each
    assert await counts(rig, query="order-3") == {RunStatus.TERMINATED: 1}
    assert await counts(rig, attributes=(("tier", "gold"),)) == one_each
    assert await counts(rig, task_queue="default") == one_each
    assert await counts(rig, started_before_ms=0) == {}
    assert await counts(rig, query="none") == {}


async def test_runs_of_an_id_newest_first(rig: Rig) -> None:
    await populate(rig, ["again"])
    await apply(rig, terminate("again"))
    again = make.start("again", run_id="second", reuse=make.IdReusePolicy.ALLOW_DUPLICATE)
    await apply(rig, again)
    found, more = await rig.store.runs_of(WorkflowKey("default", "again"))
    assert more == ""
    assert [(run.key.run_id, run.status) for run in found] == [
        ("second", RunStatus.WAITING),
        ("run-again", RunStatus.TERMINATED),
    ]
    assert await rig.store.run_ids_of(WorkflowKey("default", "again")) == ["run-again", "second"]
    assert await rig.store.runs_of(WorkflowKey("default", "missing")) == ([], "")


GOLD = ("tier", '"gold"')


async def label(rig: Rig, workflow_id: str, *attributes: tuple[str, str]) -> None:
    await decide(rig, workflow_id, UpsertSearchAttributes(attributes=attributes), make.activity(1))


async def test_attributes_filter_and_are_shown(rig: Rig) -> None:
    memo = '{"note":"fragile"}'
    await populate(rig, ["a", "b"], search_attributes=(GOLD, ("total", "12.5")), memo=memo)
    await populate(rig, ["c"], search_attributes=(("tier", '"12.5"'), ("total", '"12.5"')))
    await populate(rig, ["d"])
    assert await ids(rig, attributes=(("tier", "gold"),)) == ["b", "a"]
    assert await ids(rig, attributes=(("total", "12.5"),)) == ["c", "b", "a"]
    assert await ids(rig, attributes=(("tier", "gold"), ("total", "12.5"))) == ["b", "a"]
    assert await ids(rig, attributes=(("tier", "12.5"), ("total", "12.5"))) == ["c"]
    assert await ids(rig, attributes=(("tier", "silver"),)) == []
    assert await ids(rig, attributes=(("tier", "gold"),), query="B") == ["b"]
    assert await ids(rig, attributes=(("tier", "gold"),), workflow_type="Refund") == []
    page = await rig.store.list_runs(RunFilter(namespace="default"))
    shown = [(run.search_attributes, run.memo) for run in page.runs]
    assert shown == [
        ((), ""),
        ((("tier", '"12.5"'), ("total", '"12.5"')), ""),
        ((GOLD, ("total", "12.5")), memo),
        ((GOLD, ("total", "12.5")), memo),
    ]
    again, _ = await rig.store.runs_of(WorkflowKey("default", "a"))
    assert [(run.search_attributes, run.memo) for run in again] == [shown[2]]


async def test_attributes_follow_what_the_workflow_says(rig: Rig) -> None:
    await populate(rig, ["a", "b"], search_attributes=(GOLD,))
    await label(rig, "a", ("stage", '"größe"'), ("tier", "null"))
    assert await ids(rig, attributes=(("tier", "gold"),)) == ["b"]
    assert await ids(rig, attributes=(("stage", "größe"),)) == ["a"]
    await label(rig, "b", ("paid", "true"))
    assert await ids(rig, attributes=(("tier", "gold"), ("paid", "true"))) == ["b"]


async def test_attributes_of_another_namespace_are_not_seen(rig: Rig) -> None:
    await apply(rig, CreateNamespace(namespace="other", retention_ms=0, request_id=""))
    await populate(rig, ["there"], namespace="other", search_attributes=(GOLD,))
    assert await ids(rig, attributes=(("tier", "gold"),)) == []


async def test_attributes_beside_other_filters_count_exactly(rig: Rig) -> None:
    await populate(rig, [f"w{n}" for n in range(6)], search_attributes=(GOLD,))
    await populate(rig, ["x1"], search_attributes=(GOLD,), workflow_type="Refund")
    await apply(rig, terminate("w1"), terminate("w3"))
    tier = (("tier", "gold"),)
    assert await ids(rig, attributes=tier, statuses=(RunStatus.TERMINATED,)) == ["w3", "w1"]
    assert await ids(rig, attributes=tier, workflow_type="Refund") == ["x1"]
    assert await ids(rig, attributes=tier, task_queue="slow") == []
    page = await rig.store.list_runs(
        RunFilter(namespace="default", attributes=tier, limit=2, offset=1)
    )
    assert [run.key.workflow_id for run in page.runs] == ["w5", "w4"]
    assert (page.total, page.total_exact) == (7, True)
    rest = RunFilter(namespace="default", attributes=tier, cursor=page.next_cursor)
    page = await rig.store.list_runs(rest)
    assert [run.key.workflow_id for run in page.runs] == ["w3", "w2", "w1", "w0"]


async def test_a_deleted_run_is_in_no_list(rig: Rig) -> None:
    await populate(rig, ["order-1", "order-2"], search_attributes=(GOLD,))
    await apply(rig, terminate("order-1"))
    await apply(rig, make.delete("order-1", "run-order-1"))
    assert await ids(rig) == ["order-2"]
    assert await ids(rig, query="order") == ["order-2"]
    assert await ids(rig, attributes=(("tier", "gold"),)) == ["order-2"]
    assert await ids(rig, statuses=(RunStatus.TERMINATED,)) == []
    assert await counts(rig) == {RunStatus.WAITING: 1}
    assert await rig.store.runs_of(WorkflowKey("default", "order-1")) == ([], "")


# ---- against a model ----------------------------------------------------------------------------

WORDS = st.sampled_from(["ab", "abc", "bca", "xabcx", "ABC", "zzz"])
NAMED = st.sampled_from([("tier", "gold"), ("tier", "none"), ("size", "1")])
FILTERS = st.fixed_dictionaries(
    {
        "statuses": st.lists(st.sampled_from(RunStatus), max_size=3).map(tuple),
        "query": st.one_of(st.just(""), st.just("b"), WORDS),
        "workflow_type": st.sampled_from(["", "", "Abc", "Other"]),
        "task_queue": st.sampled_from(["", "", "default", "slow"]),
        "attributes": st.lists(NAMED, unique=True, max_size=2).map(tuple),
        "started_after_ms": st.one_of(st.none(), st.integers(BIRTH_MS, BIRTH_MS + 40)),
        "started_before_ms": st.one_of(st.none(), st.integers(BIRTH_MS, BIRTH_MS + 40)),
    }
)


def is_found(run: RunSummary, wanted: RunFilter) -> bool:
    labels = {name: plain_text(value)[0] for name, value in run.search_attributes}
    text = wanted.query.lower()
    after, before = wanted.started_after_ms, wanted.started_before_ms
    return (
        (not wanted.statuses or run.status in wanted.statuses)
        and (text in run.key.workflow_id.lower() or text in run.workflow_type.lower())
        and wanted.workflow_type in ("", run.workflow_type)
        and wanted.task_queue in ("", run.task_queue)
        and all(labels.get(name) == value for name, value in wanted.attributes)
        and (after is None or run.started_ms > after)
        and (before is None or run.started_ms < before)
    )


@pytest.fixture
async def many(rig: Rig) -> list[RunSummary]:
    """Runs of every kind, and as many of another namespace between them."""
    await apply(rig, CreateNamespace(namespace="other", retention_ms=0, request_id=""))
    words = ["ab", "abc", "xabcx", "bca", "ABC-"]
    for n in range(30):
        labels = ((("tier", '"gold"'), ("size", "1")), (("tier", '"none"'),), ())[n % 3]
        kind, queue = ("Abc", "Other")[n % 2], ("default", "slow")[n // 2 % 2]
        start = {"workflow_type": kind, "task_queue": queue, "search_attributes": labels}
        await populate(rig, [f"{words[n % 5]}{n}"], **start)
        await populate(rig, [f"abc{n}"], namespace="other", **start)
    for n in range(0, 30, 4):
        await apply(rig, terminate(f"{words[n % 5]}{n}"))
    for n in range(1, 30, 4):
        run = await rig.replica.run_view("default", f"{words[n % 5]}{n}")
        assert run is not None
        await apply(rig, make.grant_decision(run, nonce="n"))
    page = await rig.store.list_runs(RunFilter(namespace="default"))
    return list(page.runs)


async def all_pages(rig: Rig, wanted: RunFilter) -> list[RunSummary]:
    seen: list[RunSummary] = []
    while True:
        page = await rig.store.list_runs(wanted)
        seen += page.runs
        if not page.next_cursor:
            return seen
        wanted = replace(wanted, cursor=page.next_cursor)


@pytest.mark.slow
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
async def test_lists_and_counts_are_those_of_a_model(
    data: st.DataObject, rig: Rig, many: list[RunSummary]
) -> None:
    """Whatever leads: the bounds by which it is chosen are drawn, too."""
    wanted = RunFilter(namespace="default", **data.draw(FILTERS))
    limit = data.draw(st.integers(1, 40))
    expected = [run for run in many if is_found(run, wanted)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filters, "EXACT_TOTAL", data.draw(st.sampled_from([0, 5, 10_000])))
        patch.setattr(walk, "WIDTH", data.draw(st.sampled_from([1, 7, 8_192])))
        patch.setattr(lists, "_PAGE_BUDGET_S", data.draw(st.sampled_from([-1.0, 60.0])))
        assert await all_pages(rig, replace(wanted, limit=limit)) == expected
        patch.setattr(lists, "_COUNT_BUDGET_S", 60.0)
        page = await rig.store.list_runs(replace(wanted, limit=2))
        assert (page.total, page.total_exact) == (len(expected), True)
        counted = await rig.store.counts(wanted)
        anyhow = replace(wanted, statuses=())
        statuses = Counter(run.status for run in many if is_found(run, anyhow))
        assert (counted.by_status, counted.exact) == (statuses, True)


@pytest.mark.parametrize("filtered", [{}, {"statuses": (RunStatus.WAITING,)}, {"query": "bc"}])
async def test_pages_turned_while_runs_come_and_go(
    rig: Rig, many: list[RunSummary], filtered: dict[str, object]
) -> None:
    """Nobody is shown twice, and nobody is left out who was there all the time."""
    wanted = RunFilter(namespace="default", limit=3, **filtered)  # type: ignore[arg-type]
    before = [run.key for run in many if is_found(run, wanted)]
    leaving = [key for key in before[::4] if key.workflow_id.startswith("bca")]
    seen: list[RunSummary] = []
    cursor, number = "", 0
    while number == 0 or cursor:
        page = await rig.store.list_runs(replace(wanted, cursor=cursor))
        seen += page.runs
        cursor, number = page.next_cursor, number + 1
        await populate(rig, [f"new-bc-{number}"])
        if leaving:
            key = leaving.pop()
            await apply(rig, terminate(key.workflow_id), make.delete(*key[1:]))
    keys = [run.key for run in seen]
    assert len(keys) == len(set(keys))
    assert {key for key in before if not key.workflow_id.startswith("bca")} <= set(keys)
    assert set(keys) <= set(before)
