"""Each checker catches its bug: a recorded run that holds, and the same run with one lie in it."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.jepsen.checker.liveness import check_liveness
from tests.jepsen.history import FAIL, INVOKE, OK, Op, calls, of_workload
from tests.jepsen.workloads.base import NEMESIS
from tests.jepsen.workloads.catalog import ALL

RECORDED = Path(__file__).parent / "recorded" / "kills.jsonl.gz"
WORKLOADS = (
    *("starts", "register", "signals", "histories", "completions", "leases", "timers"),
    *("attempts", "decisions", "reads", "idempotency", "parity"),
)
MS = 1_000_000
_LINES = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]

Doctor = Callable[[list[Op]], None]


def recorded(workload: str) -> list[Op]:
    """What concerns one workload."""
    mine = [line for line in _LINES if line["process"].startswith((f"{workload}/", NEMESIS))]
    return [Op(**line) for line in copy.deepcopy(mine)]


def errors(workload: str, ops: Sequence[Op]) -> tuple[str, ...]:
    return ALL[workload]().check(ops).errors


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_recorded_run_holds(workload: str) -> None:
    verdict = ALL[workload]().check(recorded(workload))
    assert verdict.ok, verdict.errors


@pytest.mark.parametrize("workload", WORKLOADS)
def test_too_little_proves_nothing(workload: str) -> None:
    few = of_workload(recorded(workload), workload)[:6]
    assert any("vacuous" in error for error in errors(workload, few))


# ---- lies ---------------------------------------------------------------------------------------


def places(
    ops: list[Op], workload: str, f: str, kind: str, test: Callable[[Op], Any] = bool
) -> list[int]:
    return [
        place
        for place, op in enumerate(ops)
        if op.process.startswith(f"{workload}/") and (op.f, op.type) == (f, kind) and test(op)
    ]


def lost_start_of_a_list(ops: list[Op]) -> None:
    ops[places(ops, "starts", "list", OK)[0]].value.pop()


def lost_start_in_a_read(ops: list[Op]) -> None:
    at = places(ops, "starts", "read", OK)[-1]
    ops[at] = replace(ops[at], type=FAIL, value=None, error="WORKFLOW_NOT_FOUND")


def a_start_in_two_runs(ops: list[Op]) -> None:
    keys = [ops[at].key for at in places(ops, "starts", "start", OK)]
    twice = next(key for key in keys if keys.count(key) > 1)
    at = places(ops, "starts", "start", OK, lambda op: op.key == twice)[-1]
    ops[at].value["run_id"] = "another"


def stale_register(ops: list[Op]) -> None:
    at = places(ops, "register", "read", OK, lambda op: op.value)[-1]
    key = ops[at].key
    writes = places(ops, "register", "write", INVOKE, lambda op: op.key == key)
    ops[at] = replace(ops[at], value=ops[writes[0]].value)


def an_update_of_the_past(ops: list[Op]) -> None:
    at = places(ops, "register", "cas", INVOKE, lambda op: op.value["seen"])[-1]
    ended = next(i for i in range(at + 1, len(ops)) if ops[i].process == ops[at].process)
    assert ops[ended].type == OK
    ops[at].value["seen"] = "w-never"


def stale_counter(ops: list[Op]) -> None:
    at = places(ops, "reads", "read", OK, lambda op: op.value > 3)[-1]
    ops[at] = replace(ops[at], value=1)


def reordered_signals(ops: list[Op]) -> None:
    value = ops[places(ops, "signals", "read", OK, lambda op: len(op.value) > 5)[-1]].value
    value[1], value[3] = value[3], value[1]


def reordered_everywhere(ops: list[Op]) -> None:
    """All reads agree on an order, and it is not that of the acknowledgements."""
    key = ops[places(ops, "signals", "read", OK, lambda op: len(op.value) > 5)[-1]].key
    for at in places(ops, "signals", "read", OK, lambda op: op.key == key and len(op.value) > 4):
        ops[at].value[0], ops[at].value[4] = ops[at].value[4], ops[at].value[0]
    for at in places(ops, "signals", "read", OK, lambda op: op.key == key and len(op.value) < 5):
        ops[at] = replace(ops[at], value=[])


def a_signal_twice(ops: list[Op]) -> None:
    value = max((ops[at].value for at in places(ops, "signals", "read", OK)), key=len)
    value.append(value[0])


def a_lost_signal(ops: list[Op]) -> None:
    key = ops[places(ops, "signals", "append", OK)[0]].key
    for at in places(ops, "signals", "read", OK, lambda op: op.key == key and op.value):
        ops[at].value.pop(0)


def a_forked_history(ops: list[Op]) -> None:
    chain = ops[places(ops, "histories", "history", OK)[-1]].value["chain"]
    chain[5:] = [link[::-1] + "x" for link in chain[5:]]


def a_history_cut_short(ops: list[Op]) -> None:
    del ops[places(ops, "histories", "history", OK)[-1]].value["chain"][-2:]


def a_gap_in_a_history(ops: list[Op]) -> None:
    ops[places(ops, "histories", "history", OK)[-1]].value["dense"] = False


def a_double_completion(ops: list[Op]) -> None:
    """A rival that was refused says that it was not."""
    for at in places(ops, "completions", "complete", FAIL, lambda op: op.error == "LEASE_LOST"):
        key = ops[at].key
        if places(ops, "completions", "complete", OK, lambda op, key=key: op.key == key):
            ops[at] = replace(ops[at], type=OK, error="")
            return
    raise AssertionError("no rival was refused")


def a_lost_completion(ops: list[Op]) -> None:
    events = ops[places(ops, "completions", "events", OK)[0]].value
    next(e for e in events if e["type"] == "step_completed")["output"] = "something else"


def a_second_result(ops: list[Op]) -> None:
    events = ops[places(ops, "completions", "events", OK)[0]].value
    events.append(next(e for e in events if e["type"] == "step_completed"))


def overlapping_leases(ops: list[Op]) -> None:
    """The task of a worker that beats is handed to another one as well."""
    tokens = [ops[at].key for at in places(ops, "leases", "beat", OK)]
    token = next(token for token in tokens if tokens.count(token) > 3)
    beats = places(ops, "leases", "beat", OK, lambda op: op.key == token)
    taken = places(ops, "leases", "take", OK, lambda op: op.value["token"] == token)
    value = {**ops[taken[0]].value, "token": "another", "attempt": 2}
    when = ops[beats[1]].time_ns + 5 * MS
    ops += [
        Op("leases/other", "take", INVOKE, time_ns=when),
        Op("leases/other", "take", OK, value=value, time_ns=when + MS),
    ]


def a_superseded_token(ops: list[Op]) -> None:
    at = places(ops, "leases", "complete", FAIL, lambda op: op.error == "LEASE_LOST")[0]
    ops[at] = replace(ops[at], type=OK, error="")


def an_attempt_that_falls(ops: list[Op]) -> None:
    takes = places(ops, "leases", "take", OK, lambda op: op.value["attempt"] == 2)
    ops[takes[0]].value["attempt"] = 0


def a_lease_that_expired_alive(ops: list[Op]) -> None:
    at = places(ops, "leases", "beat", OK)[-1]
    ops[at] = replace(ops[at], type=FAIL, error="LEASE_LOST")


def early_by_log_time(ops: list[Op]) -> None:
    events = ops[places(ops, "timers", "events", OK)[0]].value
    fired = next(e for e in events if e["type"] == "timer_fired")
    armed = next(
        e for e in events if e["type"] == "timer_started" and e["sequence"] == fired["sequence"]
    )
    fired["time_ms"] = armed["time_ms"] + armed["delay_ms"] - 1


def early_by_the_wall(ops: list[Op]) -> None:
    """All clocks of the nodes run too fast."""
    for at in places(ops, "timers", "decide", INVOKE, lambda op: op.value.get("timers")):
        for each in ops[at].value["timers"]:
            each[1] *= 30


def a_lost_timer(ops: list[Op]) -> None:
    for at in places(ops, "timers", "events", OK):
        events = ops[at].value
        if events[-1]["type"] == "workflow_completed":
            events.pop()
        last = [e for e in events if e["type"] == "timer_fired"][-1]
        events.remove(last)
    later = max(op.time_ns for op in ops) + 30_000 * MS
    for at in places(ops, "timers", "events", INVOKE):
        ops[at] = replace(ops[at], time_ns=later)
        ops[at + 1] = replace(ops[at + 1], time_ns=later + MS)


def a_timer_twice(ops: list[Op]) -> None:
    events = ops[places(ops, "timers", "events", OK)[0]].value
    events.append(next(e for e in events if e["type"] == "timer_fired"))


def an_attempt_too_many(ops: list[Op]) -> None:
    at = places(ops, "attempts", "take", OK, lambda op: op.value["attempt"] == 4)[0]
    ops[at].value["attempt"] = 5


def no_pause(ops: list[Op]) -> None:
    """The next attempt is there as soon as the last one has failed."""
    second = places(ops, "attempts", "take", OK, lambda op: op.value["attempt"] == 3)[0]
    value = ops[second].value
    first = places(
        ops,
        "attempts",
        "complete",
        INVOKE,
        lambda op: (
            op.value["workflow_id"] == value["workflow_id"]
            and op.value["sequence"] == value["sequence"]
            and op.value["attempt"] == 2
        ),
    )[0]
    failed = next(i for i in range(first + 1, len(ops)) if ops[i].process == ops[first].process)
    begun = ops[first].time_ns
    ops[failed] = replace(ops[failed], time_ns=begun + MS)
    for at in (second - 1, second):
        ops[at] = replace(ops[at], time_ns=begun + 2 * MS + at - second)


def two_decisions_of_one_task(ops: list[Op]) -> None:
    for at in places(ops, "decisions", "decide", INVOKE):
        token = ops[at].value["token"]
        same = places(
            ops, "decisions", "decide", INVOKE, lambda op, token=token: op.value["token"] == token
        )
        if len(same) > 1:
            for begun in same:
                process = ops[begun].process
                end = next(i for i in range(begun + 1, len(ops)) if ops[i].process == process)
                ops[end] = replace(ops[end], type=OK, error="")
            return
    raise AssertionError("no task had rivals")


def an_overlooked_fact(ops: list[Op]) -> None:
    for at in places(ops, "decisions", "decide", INVOKE):
        ops[at].value["seen"] = max(1, ops[at].value["seen"] - 2)


def a_request_with_two_effects(ops: list[Op]) -> None:
    for at in places(ops, "idempotency", "events", OK):
        signals = [e for e in ops[at].value if e["type"] == "signal_received"]
        if signals:
            ops[at].value.append(signals[0])
            return


def another_payload_taken(ops: list[Op]) -> None:
    at = places(ops, "idempotency", "once", FAIL, lambda op: op.error == "REQUEST_ID_REUSED")[0]
    ops[at] = replace(ops[at], type=OK, error="")


def apis_differ(ops: list[Op]) -> None:
    at = places(ops, "parity", "same", OK, lambda op: "status" in op.value)[0]
    ops[at].value["status"] = "RUNNING"


def reasons_differ(ops: list[Op]) -> None:
    at = places(ops, "parity", "same", FAIL, lambda op: op.error == "RUN_CLOSED")[0]
    ops[at] = replace(ops[at], error="WORKFLOW_NOT_FOUND")


def a_bad_ending(ops: list[Op]) -> None:
    at = places(ops, "starts", "read", OK)[0]
    ops[at] = replace(ops[at], type="info", value=None, error="BROKEN 500 INTERNAL: oops")


LIES: tuple[tuple[str, Doctor, str], ...] = (
    ("starts", lost_start_of_a_list, "lost start"),
    ("starts", lost_start_in_a_read, "lost start"),
    ("starts", a_start_in_two_runs, "2 runs"),
    ("starts", a_bad_ending, "BROKEN"),
    ("register", stale_register, "not linearizable"),
    ("register", an_update_of_the_past, "not linearizable"),
    ("reads", stale_counter, "stale read"),
    ("signals", reordered_signals, "reordered"),
    ("signals", reordered_everywhere, "reordered"),
    ("signals", a_signal_twice, "recorded twice"),
    ("signals", a_lost_signal, "lost append"),
    ("histories", a_forked_history, "forked history"),
    ("histories", a_history_cut_short, "became shorter"),
    ("histories", a_gap_in_a_history, "gaps"),
    ("completions", a_double_completion, "double completion"),
    ("completions", a_lost_completion, "lost completion"),
    ("completions", a_second_result, "double completion"),
    ("leases", overlapping_leases, "overlapping leases"),
    ("leases", a_superseded_token, "superseded"),
    ("leases", an_attempt_that_falls, "came after"),
    ("leases", a_lease_that_expired_alive, "expired alive"),
    ("timers", early_by_log_time, "early timer"),
    ("timers", early_by_the_wall, "early timer"),
    ("timers", a_lost_timer, "lost timer"),
    ("timers", a_timer_twice, "ended twice"),
    ("attempts", an_attempt_too_many, "attempt 5 of 4"),
    ("attempts", no_pause, "no pause"),
    ("decisions", two_decisions_of_one_task, "two decisions"),
    ("decisions", an_overlooked_fact, "decided on old history"),
    ("idempotency", a_request_with_two_effects, "2 effects"),
    ("idempotency", another_payload_taken, "payloads taken"),
    ("parity", apis_differ, "answers"),
    ("parity", reasons_differ, "answers"),
)


@pytest.mark.parametrize(
    ("workload", "lie", "words"), LIES, ids=[f"{w}-{lie.__name__}" for w, lie, _ in LIES]
)
def test_a_lie_is_seen(workload: str, lie: Doctor, words: str) -> None:
    ops = recorded(workload)
    lie(ops)
    found = errors(workload, ops)
    assert any(words in error for error in found), found


# ---- after the heal -----------------------------------------------------------------------------


def after_the_heal(ops: Sequence[Op]) -> tuple[str, ...]:
    probes = calls(of_workload(ops, "liveness"))
    return check_liveness(probes, nodes=("n1", "n2", "n3")).errors


def test_the_recorded_cluster_was_well_again() -> None:
    assert after_the_heal(recorded("liveness")) == ()


def test_a_node_that_stays_away_is_seen() -> None:
    ops = recorded("liveness")
    for at in places(ops, "liveness", "probe", OK, lambda op: op.node == "n2"):
        ops[at] = replace(ops[at], type=FAIL, error="UNAVAILABLE")
    assert any("n2 does not serve" in error for error in after_the_heal(ops))


def test_nodes_that_never_agree_are_seen() -> None:
    ops = recorded("liveness")
    at = places(ops, "liveness", "indexes", OK)[0]
    ops[at] = replace(ops[at], type=FAIL)
    assert any("one index" in error for error in after_the_heal(ops))


def test_a_cluster_that_stays_slow_is_seen() -> None:
    ops = recorded("liveness")
    for at in places(ops, "liveness", "probe", OK, lambda op: op.key == "after"):
        ops[at] = replace(ops[at], time_ns=ops[at].time_ns + 2_000 * MS)
    assert any("slow" in error for error in after_the_heal(ops))
