"""The cache: pins, loads, evictions."""

from __future__ import annotations

import engine_harness as make
from populate import terminate

from raftflow.cluster.store.views import Loaded, StoredRun
from raftflow.cluster.working_set import CacheBounds, HotSet, keys_of
from raftflow.engine.apply import apply, touched_keys
from raftflow.engine.commands import Batch, Command, RegisterTypes
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.limits import DEFAULT_LIMITS
from raftflow.engine.rejections import Done
from raftflow.engine.state import Catalog, RequestRecord

NONE = Loaded()


class Driver:
    """Applies commands to a hot set the way the replica does."""

    def __init__(self, **bounds: int) -> None:
        self.hot = HotSet(Catalog(), CacheBounds(**bounds))
        self.index = 0
        self.next_run_no = 1
        self.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))

    def apply(self, command: Command, loaded: Loaded = NONE) -> None:
        keys = keys_of([touched_keys(command)])
        self.hot.pin(keys)
        wanted = self.hot.begin_load()
        if wanted is not None:
            self.hot.finish_load(wanted, loaded)
        assert self.hot.ready(keys)
        self.index += 1
        batch = Batch(
            index=self.index,
            term=1,
            time_ms=1,
            commands=(("c", command),),
            limits=DEFAULT_LIMITS,
        )
        changes = apply(self.hot.state, batch).changes
        numbers = self.hot.number(changes, self.next_run_no)
        self.next_run_no += len(numbers.opened)
        self.hot.changed(changes, numbers, self.index)
        self.hot.unpin(keys)


def test_a_key_that_was_loaded_or_is_absent_is_asked_for_once() -> None:
    hot = HotSet(Catalog())
    keys = keys_of([touched_keys(make.start("w", request_id="q"))])
    assert len(keys) == 3
    hot.pin(keys)
    assert not hot.ready(keys)
    wanted = hot.begin_load()
    assert wanted is not None
    assert wanted.workflows == (WorkflowKey("default", "w"),)
    assert wanted.runs == (RunKey("default", "w", "r1"),)
    assert wanted.requests == (("default", "q"),)
    assert hot.begin_load() is None  # one at a time
    hot.pin(keys)  # another entry, meanwhile
    hot.finish_load(wanted, Loaded())
    assert hot.ready(keys)
    assert hot.begin_load() is None
    hot.unpin(keys)
    assert hot.ready(keys)
    hot.unpin(keys)
    hot.pin(keys)  # nobody cared for a while: absent no longer means absent
    assert not hot.ready(keys)


def test_what_became_hot_during_a_load_is_newer() -> None:
    driver = Driver()
    driver.apply(make.start("w"))
    hot, key = driver.hot, RunKey("default", "w", "r1")
    live = hot.state.runs[key]
    request = RequestRecord("default", "q", b"", Done(), 9)
    hot.pin((WorkflowKey("default", "x"),))
    wanted = hot.begin_load()
    assert wanted is not None
    stale = Loaded(
        runs={key: StoredRun(make.copy_header(live), 1)},
        requests={("default", "q"): request},
    )
    hot.finish_load(wanted, stale)
    assert hot.state.runs[key] is live
    assert hot.state.requests["default", "q"] is request


def test_only_the_written_and_unpinned_are_evicted_coldest_first() -> None:
    driver = Driver(runs=1)
    for workflow_id in ("a", "b", "c"):
        driver.apply(make.start(workflow_id))
    hot = driver.hot
    assert hot.evict(1) == 0
    assert len(hot) == 3
    hot.pin((WorkflowKey("default", "a"),))
    assert hot.evict(3) == 1  # b; a is pinned, c is not written
    assert [key.workflow_id for key in hot.state.runs] == ["a", "c"]
    assert WorkflowKey("default", "b") not in hot.state.current
    hot.unpin((WorkflowKey("default", "a"),))
    driver.apply(make.signal("a", "go"))  # the hottest now
    assert hot.evict(driver.index) == 1
    assert [key.workflow_id for key in hot.state.runs] == ["a"]


def test_nothing_is_evicted_during_a_load() -> None:
    driver = Driver(runs=0)
    driver.apply(make.start("a"))
    hot = driver.hot
    hot.pin((WorkflowKey("default", "x"),))
    wanted = hot.begin_load()
    assert wanted is not None
    assert hot.evict(driver.index) == 0
    hot.finish_load(wanted, NONE)
    assert hot.evict(driver.index) == 1
    assert (len(hot), hot.size) == (0, 0)


def test_bytes_are_a_bound_too() -> None:
    driver = Driver(run_bytes=100_000)
    for number in range(5):
        driver.apply(make.start(f"w{number}", input=bytes(40_000)))
    assert driver.hot.evict(driver.index) == 3
    assert 0 < driver.hot.size <= 100_000


def test_requests_are_bounded() -> None:
    driver = Driver(requests=2)
    for number in range(5):
        driver.apply(make.start(f"w{number}", request_id=f"q{number}"))
    driver.hot.evict(driver.index - 1)
    assert sorted(driver.hot.state.requests) == [("default", "q3"), ("default", "q4")]


def test_an_evicted_run_keeps_its_number_when_loaded_again() -> None:
    driver = Driver(runs=0)
    driver.apply(make.start("a"))
    driver.apply(make.start("b"))
    key = RunKey("default", "a", "r1")
    run = driver.hot.state.runs[key]
    driver.hot.evict(driver.index)
    loaded = Loaded(runs={key: StoredRun(run, 1)}, current={WorkflowKey("default", "a"): "r1"})
    driver.apply(make.signal("a", "go"), loaded)
    assert driver.hot._held[key].run_no == 1
    assert driver.next_run_no == 3


def ended(driver: Driver, workflow_id: str, run_id: str = "r1") -> None:
    driver.apply(make.start(workflow_id, run_id=run_id, reuse=make.IdReusePolicy.ALLOW_DUPLICATE))
    driver.apply(terminate(workflow_id))


def test_what_was_deleted_is_absent_until_the_store_has_deleted_it() -> None:
    driver = Driver()
    ended(driver, "w")
    hot, key, workflow = driver.hot, RunKey("default", "w", "r1"), WorkflowKey("default", "w")
    stored = StoredRun(make.copy_header(hot.state.runs[key]), 1)
    driver.apply(make.delete("w"))
    assert (len(hot), hot.size) == (0, 0)
    assert hot.is_gone(key)
    assert hot.is_gone(workflow)
    hot.pin((key, workflow))
    assert hot.ready((key, workflow))  # nothing is asked of the store
    hot.unpin((key, workflow))
    # A load that began before: what it found is out of date.
    hot.pin((WorkflowKey("default", "x"),))
    wanted = hot.begin_load()
    assert wanted is not None
    hot.evict(driver.index)
    hot.finish_load(wanted, Loaded(runs={key: stored}, current={workflow: "r1"}))
    assert key not in hot.state.runs
    assert workflow not in hot.state.current
    hot.evict(driver.index - 1)
    assert hot.is_gone(key)
    hot.evict(driver.index)
    assert not hot.is_gone(key)
    assert not hot.is_gone(workflow)
    hot.pin((key,))
    assert not hot.ready((key,))


def test_an_older_run_goes_and_the_id_stays() -> None:
    driver = Driver(runs=0)
    ended(driver, "w")
    ended(driver, "w", "r2")
    hot = driver.hot
    driver.apply(make.delete("w", "r1"))
    assert not hot.is_gone(WorkflowKey("default", "w"))
    assert hot.is_gone(RunKey("default", "w", "r1"))
    # The newest counts what is kept: it must not be read from a store that has one more.
    assert hot.evict(driver.index - 1) == 0
    assert hot.state.runs[RunKey("default", "w", "r2")].older_runs == 0


def test_an_id_starts_again_under_another_number() -> None:
    driver = Driver()
    ended(driver, "w")
    driver.apply(make.delete("w"))
    driver.apply(make.start("w"))
    key = RunKey("default", "w", "r1")
    assert not driver.hot.is_gone(key)
    assert driver.hot._held[key].run_no == 2
