"""W3C trace context: what is taken, and how the spans of runs and steps hang together."""

from __future__ import annotations

from dataclasses import replace

import engine_harness as make
import pytest
from engine_harness import EngineHarness

from raftflow.engine import trace
from raftflow.engine.commands import ContinueAsNew, StartChildWorkflow
from raftflow.engine.describe import activity_task, decision_task
from raftflow.engine.limits import DEFAULT_LIMITS

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "garbage",
        f"ff-{TRACE}-00f067aa0ba902b7-01",  # the version that is forbidden
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-00f067aa0ba902b7-01",
        f"00-{TRACE}-00f067aa0ba902b7-1",
        f"{CALLER}-more",  # version 00 ends here
        f"{CALLER},{CALLER}",
        f"{CALLER}\n",
        f"0g-{TRACE}-00f067aa0ba902b7-01",
    ],
)
def test_what_is_malformed_is_ignored(header: str) -> None:
    assert trace.caller(header) == ""
    assert trace.under(trace.caller(header), "r1") == ""


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        (CALLER, CALLER),
        (f"cc-{TRACE}-00f067aa0ba902b7-01-what-the-future-will-be-like", CALLER),
        (f"cc-{TRACE}-00f067aa0ba902b7-01", CALLER),
        (f"00-{TRACE}-00f067aa0ba902b7-fd", CALLER),  # only flags that are known go on
    ],
)
def test_later_versions_are_read_as_far_as_they_are_known(header: str, taken: str) -> None:
    assert trace.caller(header) == taken


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        ("", ""),
        ("congo=t61rcWkgMzE,rojo=00f067aa0ba902b7", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"),
        (" a=1 ,, b=2\t", "a=1,b=2"),
        ("tenant@vendor=x y", "tenant@vendor=x y"),
        ("Upper=1", ""),
        ("a", ""),
        ("a=1=2", ""),
        ("a=\x07", ""),
        (",".join(f"k{n}=1" for n in range(33)), ""),
        (f"a={'x' * 250},b={'y' * 250},c=1", f"a={'x' * 250},b={'y' * 250},c=1"),
        (f"a={'x' * 256},b={'y' * 252},c=1", f"a={'x' * 256},b={'y' * 252}"[:258]),
    ],
)
def test_the_list_of_the_vendors_is_kept_by_whole_members(header: str, taken: str) -> None:
    assert trace.caller_state(header) == taken


def test_the_spans_of_a_run_hang_together() -> None:
    run = trace.under(CALLER, "r1")
    assert run.split("-")[1] == TRACE
    assert run == trace.under(CALLER, "r1") != trace.under(CALLER, "r2")
    assert trace.parent_span(run, "r1") == "00f067aa0ba902b7"
    step = trace.of_step(run, "r1", 3)
    assert len({run, step, trace.of_step(run, "r1", 4), CALLER}) == 4
    child = trace.under(step, "r9")
    assert trace.parent_span(child, "r9") == step.split("-")[2]


def test_a_chain_stays_with_its_caller() -> None:
    run = trace.under(CALLER, "r1")
    second = trace.after(run, "r1", "r2")
    assert second == trace.under(CALLER, "r2")
    assert trace.parent_span(trace.after(second, "r2", "r3"), "r3") == "00f067aa0ba902b7"


def test_a_run_without_a_caller() -> None:
    run = trace.root(TRACE, "r1")
    assert trace.parent_span(run, "r1") == ""
    assert trace.sampled(run)
    assert trace.caller(run) == run
    for nothing in (trace.under("", "r1"), trace.of_step("", "r1", 1), trace.after("", "a", "b")):
        assert nothing == ""
    assert not trace.sampled("")
    assert not trace.sampled(CALLER.removesuffix("01") + "02")


def test_what_workers_children_and_chains_are_told() -> None:
    harness = EngineHarness()
    harness.register("Order")
    run = trace.under(CALLER, "r1")
    harness.do(replace(make.start("w"), traceparent=run, tracestate="a=1"))
    child = StartChildWorkflow(
        step_name="sub",
        sequence=2,
        workflow_type="Order",
        workflow_id="c",
        input=b"",
        task_queue="",
    )
    token = harness.grant_decision("w")
    assert decision_task(harness.run("w"), DEFAULT_LIMITS).traceparent == run
    harness.do(make.complete_decision("w", token, make.activity(1, "pay"), child))
    lease = harness.grant_activity("w", 1)
    parent = harness.run("w")
    task = activity_task(parent, parent.steps[0])
    assert (task.traceparent, task.tracestate) == (trace.of_step(run, "r1", 1), "a=1")
    harness.do(make.deliver(parent.key, *next(iter(parent.outbox.items())), new_run_id="c1"))
    begun = harness.run("c")
    assert begun.traceparent == trace.under(trace.of_step(run, "r1", 2), "c1")
    harness.do(make.complete_activity("w", lease, b""))
    token = harness.grant_decision("w")
    goes_on = make.complete_decision("w", token, ContinueAsNew(input=b""))
    harness.do(replace(goes_on, new_run_id="r2"))
    assert harness.run("w").key.run_id == "r2"
    assert harness.run("w").traceparent == trace.under(CALLER, "r2")
    assert harness.run("w").tracestate == begun.tracestate == "a=1"
