"""Facts on the wire: what one release writes another reads."""

from __future__ import annotations

import json

import pytest

from raftflow.cluster.work_facts import (
    ACTIVITY,
    WORKFLOW,
    Holding,
    Leading,
    NodeFacts,
    Poller,
    QueueFacts,
    Wanted,
    Work,
)

POLLER = Poller(
    node="n1",
    namespace="default",
    kind=WORKFLOW,
    queue="q",
    worker="w\u202e<b>",
    types=("Order",),
    polls=1,
    since_ms=1,
    seen_ms=2,
)
LEADING = Leading(
    term=3,
    settled=True,
    queues=(
        QueueFacts(
            namespace="default",
            kind=ACTIVITY,
            queue="q",
            queued=2,
            oldest_ms=None,
            leases=1,
            expired=4,
        ),
    ),
    holdings=(
        Holding(namespace="default", kind=ACTIVITY, queue="q", worker="w", node="n2", leases=1),
    ),
)


@pytest.mark.parametrize("leading", [None, LEADING])
def test_facts_come_back_as_they_were(leading: Leading | None) -> None:
    facts = NodeFacts(pollers=(POLLER,), truncated=True, leading=leading)
    assert NodeFacts.decode(facts.encode()) == facts


def test_what_a_later_release_adds_is_left_out() -> None:
    said = json.loads(NodeFacts(pollers=(POLLER,), leading=LEADING).encode())
    for each in (said, *said["pollers"], said["leading"], *said["leading"]["queues"]):
        each["news"] = 1
    assert NodeFacts.decode(json.dumps(said).encode()).leading == LEADING


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"pollers":[{}],"truncated":1}'])
def test_what_cannot_be_read_is_an_error(payload: bytes) -> None:
    with pytest.raises((ValueError, LookupError, TypeError)):
        NodeFacts.decode(payload)


def test_what_is_wanted_comes_back_as_it_was() -> None:
    for wanted in (Wanted(), Wanted(frozenset({"a", "b"}), "q")):
        assert Wanted.decode(wanted.encode()) == wanted


@pytest.mark.parametrize(
    ("wanted", "takes"),
    [
        (Wanted(), True),
        (Wanted(frozenset({"a"})), True),
        (Wanted(frozenset({"b"})), False),
        (Wanted(queue="q"), True),
        (Wanted(frozenset({"a"}), "other"), False),
    ],
)
def test_what_is_wanted(wanted: Wanted, takes: bool) -> None:
    assert wanted.takes("a", "q") is takes


def test_an_answer_is_complete_when_all_have_told_all() -> None:
    assert Work(pollers=(), leading=LEADING).complete
    assert not Work(pollers=(), leading=None).complete
    assert not Work(pollers=(), leading=LEADING, missing={"n3": "not connected"}).complete
    assert not Work(pollers=(), leading=LEADING, truncated=True).complete
    young = Leading(term=4, settled=False, queues=(), holdings=())
    assert not Work(pollers=(), leading=young).complete
