"""Why the tasks of a queue are not taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.facts import QueueFacts
from raftflow.cluster.why.leaderless import links_without_leader
from raftflow.cluster.why.model import Fact, Link, Moment, Severity
from raftflow.cluster.why.polling import Wait, links_of_wait
from raftflow.cluster.why.words import count, names, quoted, span
from raftflow.cluster.work_facts import ACTIVITY, WORKFLOW, Poller
from raftflow.cluster.work_facts import QueueFacts as Backlog

_KINDS = {WORKFLOW: "workflow task", ACTIVITY: "activity task"}
_SHOWN = 20


def links_of_queue(facts: QueueFacts) -> tuple[Link, ...]:
    """What is queued that nobody takes comes before what waits its turn."""
    backlogs = [each for each in _backlogs(facts) if each.queued]
    pollers = _pollers(facts)
    if facts.leaderless is not None:
        seen = _unknown(facts, pollers)
        return (seen, *links_without_leader(facts.leaderless))
    if not backlogs:
        return (_nothing_queued(facts, pollers),)
    chains = [links_of_wait(wait) for each in backlogs for wait in _waits(facts, each)]
    worst = min(chains, key=_rank, default=())
    return (_backlog(facts, backlogs, pollers), *worst)


def _rank(links: tuple[Link, ...]) -> int:
    """What is polled for goes soon, if anything does."""
    if links[0].cause is Cause.POLLED:
        return 2
    return 0 if links[-1].severity is Severity.PROBLEM else 1


def _backlogs(facts: QueueFacts) -> Iterator[Backlog]:
    """As many tasks as the leader has just told by name: the other facts may be older."""
    leading = facts.work.leading
    for each in () if leading is None else leading.queues:
        if (each.namespace, each.queue) == (facts.namespace, facts.queue):
            waiting = facts.waiting.get(each.kind)
            yield each if waiting is None else replace(each, queued=sum(waiting.values()))


def _pollers(facts: QueueFacts) -> list[Poller]:
    return [
        each
        for each in facts.work.pollers
        if (each.namespace, each.queue) == (facts.namespace, facts.queue)
    ]


def _waits(facts: QueueFacts, backlog: Backlog) -> Iterator[Wait]:
    for name in facts.waiting.get(backlog.kind, {}):
        yield Wait(
            kind=backlog.kind,
            namespace=facts.namespace,
            queue=facts.queue,
            name=name,
            waited_ms=backlog.oldest_ms or 0,
            now_ms=facts.now_ms,
            work=facts.work,
            around=facts.around,
            refused=facts.refused,
            hosted=facts.hosted,
        )


def _backlog(facts: QueueFacts, backlogs: list[Backlog], pollers: list[Poller]) -> Link:
    parts = [
        f"{count(each.queued, _KINDS[each.kind])} (the first for {span(each.oldest_ms or 0)})"
        for each in backlogs
    ]
    return Link(
        cause=Cause.QUEUE_WAITS,
        severity=Severity.WAITING,
        says=f"In queue {quoted(facts.queue)} {'waits' if _one(backlogs) else 'wait'}"
        f" {names(parts)}; {_polled_by(pollers)}.",
        evidence={
            **_place(facts, pollers),
            "queued": sum(each.queued for each in backlogs),
            "oldest_ms": max(each.oldest_ms or 0 for each in backlogs),
            "leases": sum(each.leases for each in _backlogs(facts)),
            "names": {
                name: number
                for waiting in facts.waiting.values()
                for name, number in list(waiting.items())[:_SHOWN]
            },
        },
    )


def _one(backlogs: list[Backlog]) -> bool:
    return sum(each.queued for each in backlogs) == 1


def _nothing_queued(facts: QueueFacts, pollers: list[Poller]) -> Link:
    leases = sum(each.leases for each in _backlogs(facts))
    if pollers or leases:
        return Link(
            cause=Cause.QUEUE_EMPTY,
            severity=Severity.OK,
            says=f"Nothing waits in queue {quoted(facts.queue)}; {_polled_by(pollers)}, and"
            f" {count(leases, 'task is', 'tasks are')} out with workers.",
            evidence={**_place(facts, pollers), "queued": 0, "leases": leases},
        )
    polled = {each.queue for each in facts.around.pollers if each.namespace == facts.namespace}
    known = sorted(polled | _queues_with_tasks(facts))
    others = f" Known are {names(map(quoted, known))}." if known else ""
    return Link(
        cause=Cause.NO_SUCH_QUEUE,
        severity=Severity.OK,
        says=f"Nothing waits in queue {quoted(facts.queue)} of namespace {quoted(facts.namespace)},"
        f" and nobody polls it.{others}",
        evidence={**_place(facts, pollers), "queues": tuple(known[:_SHOWN])},
        next="see whether its name is right (`raftflow queue list`). A queue is there as soon as"
        " somebody polls it or a task names it",
    )


def _queues_with_tasks(facts: QueueFacts) -> set[str]:
    leading = facts.around.leading
    found = () if leading is None else leading.queues
    return {each.queue for each in found if each.namespace == facts.namespace}


def _unknown(facts: QueueFacts, pollers: list[Poller]) -> Link:
    return Link(
        cause=Cause.QUEUE_WAITS,
        severity=Severity.PROBLEM,
        says=f"Nobody hands out the tasks of queue {quoted(facts.queue)}; {_polled_by(pollers)}.",
        evidence=_place(facts, pollers),
    )


def _polled_by(pollers: list[Poller]) -> str:
    polling = [each for each in pollers if each.polls]
    if not polling:
        return "no worker polls it"
    workers = dict.fromkeys(each.worker for each in polling)
    return f"{names(map(quoted, workers))} {'polls' if len(workers) == 1 else 'poll'} it"


def _place(facts: QueueFacts, pollers: list[Poller]) -> dict[str, Fact]:
    fields: dict[str, Fact] = {
        "queue": facts.queue,
        "namespace": facts.namespace,
        "pollers": tuple(
            {
                "worker": each.worker,
                "node": each.node,
                "kind": each.kind,
                "types": each.types[:_SHOWN],
                "polls": each.polls,
                "last_seen": Moment(each.seen_ms),
            }
            for each in pollers[:_SHOWN]
        ),
    }
    if facts.untold:
        fields["not_heard"] = facts.untold
    if facts.work.missing:
        fields["nodes_not_heard"] = dict(facts.work.missing)
    return fields
