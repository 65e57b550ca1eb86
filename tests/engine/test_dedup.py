"""Scripts tell the ordinary cases (testdata/run/requests.txt); here are the seams."""

from __future__ import annotations

import dataclasses

import engine_harness as make
import pytest
from engine_harness import EngineHarness

from raftflow.engine.commands import (
    CancelRun,
    CreateNamespace,
    DeleteRun,
    ForgetRequests,
    IdConflictPolicy,
    IdReusePolicy,
    PauseRun,
    SetQuota,
    StartRun,
    TerminateRun,
    UnpauseRun,
    UpdateNamespace,
)
from raftflow.engine.dedup import REQUEST_TTL_MS, Identified, payload_digest
from raftflow.engine.digest import of_parts
from raftflow.engine.rejections import Done, Reason, Rejection, Started

IGNORED = {
    StartRun: {"namespace", "request_id", "run_id", "traceparent", "tracestate"},
    DeleteRun: {"namespace", "request_id", "older"},
}
OTHER = {
    int: 7,
    bool: True,
    str: "other",
    bytes: b"other",
    tuple: (("name", "1"),),
    IdReusePolicy: IdReusePolicy.ALLOW_DUPLICATE,
    IdConflictPolicy: IdConflictPolicy.USE_EXISTING,
}
END = {"namespace": "default", "workflow_id": "w", "run_id": "", "reason": "r", "request_id": "q"}


@pytest.mark.parametrize(
    "command",
    [
        dataclasses.replace(make.start("w", request_id="q"), signal_name="go"),
        make.signal("w", "go", request_id="q"),
        TerminateRun(**END),
        CancelRun(**END),
        PauseRun(**END),
        UnpauseRun(namespace="default", workflow_id="w", run_id="", request_id="q"),
        DeleteRun(namespace="default", workflow_id="w", run_id="r1", request_id="q"),
        CreateNamespace(namespace="n", retention_ms=0, request_id="q"),
        UpdateNamespace(namespace="n", retention_ms=0, request_id="q"),
        SetQuota(namespace="n", max_open_runs=0, starts_per_second=0, request_id="q"),
    ],
    ids=lambda command: type(command).__name__,
)
def test_every_field_counts_but_those_that_a_retry_draws_anew(command: Identified) -> None:
    before = payload_digest(command)
    for field in dataclasses.fields(command):
        changed = {field.name: OTHER[type(getattr(command, field.name))]}
        same = payload_digest(dataclasses.replace(command, **changed)) == before
        ignored = IGNORED.get(type(command), {"namespace", "request_id"})
        assert same == (field.name in ignored), field.name


def test_a_start_that_names_no_workflow() -> None:
    """Each try makes up another id; the answer says under which one the run was started."""
    harness = EngineHarness()
    harness.register("Order")
    one, two, three = (
        dataclasses.replace(
            make.start(f"Order-{n}", run_id=f"r{n}", request_id="q"), workflow_id_generated=True
        )
        for n in range(3)
    )
    assert harness.do(one) == Started("r0", True, "Order-0")
    assert harness.do(two) == Started("r0", True, "Order-0")
    other = dataclasses.replace(three, input=b"other")
    assert isinstance(harness.do(other), Rejection)


def test_verbs_do_not_mix() -> None:
    kinds = (TerminateRun, CancelRun, PauseRun)
    assert len({payload_digest(kind(**END)) for kind in kinds}) == len(kinds)


def test_parts_of_a_start_do_not_run_into_each_other() -> None:
    one = dataclasses.replace(make.start("w"), search_attributes=(("memo", "1"),))
    two = dataclasses.replace(make.start("w"), memo="1")
    three = dataclasses.replace(make.start("w"), search_attributes=(("a", "b"),), memo="1")
    four = dataclasses.replace(make.start("w"), search_attributes=(("a", "b"), ("memo", "1")))
    assert len({payload_digest(each) for each in (one, two, three, four)}) == 4


def test_what_release_0_1_remembered_stays_good() -> None:
    """Its digests, byte for byte: a start without what came later, and a hard cancel."""
    start = make.start("w", input=b"in")
    assert payload_digest(start) == of_parts("start 0 0 0", "w", "Order", "default", b"in")
    assert payload_digest(CancelRun(**END)) == of_parts("cancel", "w", "", "r")


def test_an_id_belongs_to_its_namespace() -> None:
    harness = EngineHarness()
    harness.do(CreateNamespace(namespace="other", retention_ms=0, request_id="q"))
    harness.register("Order")
    harness.register("Order", namespace="other")
    for namespace in ("default", "other"):
        answer = harness.do(make.start("w", namespace=namespace, request_id="s"))
        assert answer == Started("r1", True)


def test_twice_in_one_batch() -> None:
    harness = EngineHarness()
    harness.register("Order")
    first, again = make.start("w", request_id="q"), make.start("w", run_id="r2", request_id="q")
    applied = harness.apply(first, again)
    assert [reply.answer for reply in applied.replies] == [Started("r1", True)] * 2
    assert len(applied.changes.events) == 1


def test_forgetting_drops_only_what_expired() -> None:
    harness = EngineHarness()
    harness.register("Order")
    harness.do(make.start("w", request_id="q"))
    forget = ForgetRequests(before_ms=10**15, limit=10)
    assert harness.do(forget, advance_ms=REQUEST_TTL_MS - 1) == Done()
    assert list(harness.rows.requests) == [("default", "q")]
    assert harness.do(make.start("w", run_id="r2", request_id="q")) == Started("r1", True)
    harness.do(forget, advance_ms=1)
    assert not harness.rows.requests
    answer = harness.do(make.start("w", run_id="r2", request_id="q"))
    assert isinstance(answer, Rejection)
    assert answer.reason is Reason.WORKFLOW_ID_IN_USE
