"""Queues and workers of the whole cluster, as the nodes tell them (cluster/pollers.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raftflow.cluster.api.encoding import Rows
from raftflow.cluster.api.payloads import timestamp
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.work_facts import Holding, Poller, QueueFacts, Wanted, Work

_Queue = tuple[str, str, str]  # (namespace, kind, queue)
_Worker = tuple[str, str, str]  # (namespace, worker, node)


async def queues(node: NodeServices, namespaces: frozenset[str]) -> dict[str, Any]:
    """Queues in which tasks or polls wait, or of which tasks are leased. No ``namespaces`` are all
    of them."""
    work = await node.pollers.work(Wanted(namespaces))
    facts: dict[_Queue, QueueFacts] = {}
    if work.leading is not None:
        facts = {(each.namespace, each.kind, each.queue): each for each in work.leading.queues}
    polled: dict[_Queue, list[Poller]] = {}
    for poller in work.pollers:
        if poller.polls:
            key = (poller.namespace, poller.kind, poller.queue)
            polled.setdefault(key, []).append(poller)
    keys = sorted({*facts, *polled})
    rows = Rows(keys, lambda key: _queue(key, facts.get(key), polled.get(key, ()), work))
    return {**_told(work), "queues": rows}


async def workers(node: NodeServices, namespaces: frozenset[str]) -> dict[str, Any]:
    """Workers that poll, that did within the last minutes, or that have leases."""
    work = await node.pollers.work(Wanted(namespaces))
    at: dict[_Worker, list[Poller]] = {}
    held: dict[_Worker, list[Holding]] = {}
    for poller in work.pollers:
        at.setdefault((poller.namespace, poller.worker, poller.node), []).append(poller)
    for holding in () if work.leading is None else work.leading.holdings:
        held.setdefault((holding.namespace, holding.worker, holding.node), []).append(holding)
    keys = sorted({*at, *held})
    known = work.leading is not None
    rows = Rows(keys, lambda key: _worker(key, at.get(key, ()), held.get(key, ()), known))
    return {**_told(work), "workers": rows}


def _told(work: Work) -> dict[str, Any]:
    return {
        "complete": work.complete,
        "missing": sorted(work.missing),
        "reasons": dict(sorted(work.missing.items())),
        "truncated": work.truncated,
    }


def _queue(
    key: _Queue, facts: QueueFacts | None, pollers: Iterable[Poller], work: Work
) -> dict[str, Any]:
    """Where the leader knows no such queue nothing waits; without its word nobody can tell."""
    namespace, kind, name = key
    none = None if work.leading is None else 0
    return {
        "name": name,
        "namespace": namespace,
        "kind": kind,
        "queued": facts.queued if facts else none,
        "oldest_ms": facts.oldest_ms if facts else None,
        "leases": facts.leases if facts else none,
        "expired_total": facts.expired if facts else none,
        "pollers": [
            {
                "node": each.node,
                "worker": each.worker,
                "types": list(each.types),
                "polls": each.polls,
                "since": timestamp(each.since_ms),
            }
            for each in pollers
        ],
    }


def _worker(
    key: _Worker, pollers: Iterable[Poller], held: Iterable[Holding], known: bool
) -> dict[str, Any]:
    namespace, worker, node = key
    seen_ms = max((each.seen_ms for each in pollers), default=None)
    return {
        "id": worker,
        "node": node,
        "namespace": namespace,
        "queues": sorted({each.queue for each in pollers} | {each.queue for each in held}),
        "polls": sum(each.polls for each in pollers),
        "leases": sum(each.leases for each in held) if known else None,
        "last_seen": None if seen_ms is None else timestamp(seen_ms),
    }
