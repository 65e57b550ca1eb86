"""How the queues stand, as the leader's indexes know it: for the pages and for `why`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

from raftflow.cluster.leader.leases import Leases
from raftflow.cluster.leader.matching import Matching, QueueKey
from raftflow.cluster.work_facts import (
    ACTIVITY,
    WORKFLOW,
    Holding,
    Leading,
    QueueFacts,
    Wanted,
)


def standing(
    matching: Matching,
    leases: Leases,
    wanted: Wanted,
    *,
    term: int,
    settled: bool,
    now_ms: int,
    most: int,
) -> Leading:
    """Of ``most`` queues, those in which something waits first, and as many holders of leases. The
    work goes with the number of queues, whatever waits in them."""
    known = chain(matching.queues(), leases.queues())
    keys = _distinct((key for key in known if wanted.takes(key[1], key[2])), most + 1)
    shown = keys[:most]
    holdings = list(islice((each for key in shown for each in _holdings(leases, key)), most + 1))
    return Leading(
        term=term,
        settled=settled,
        queues=tuple(_facts(matching, leases, key, now_ms) for key in shown),
        holdings=tuple(holdings[:most]),
        truncated=len(keys) > len(shown) or len(holdings) > most,
    )


def _distinct(keys: Iterable[QueueKey], most: int) -> list[QueueKey]:
    found: dict[QueueKey, None] = {}
    for key in keys:
        found[key] = None
        if len(found) == most:
            break
    return list(found)


def _facts(matching: Matching, leases: Leases, key: QueueKey, now_ms: int) -> QueueFacts:
    activity, namespace, queue = key
    queued, since_ms = matching.standing(key)
    return QueueFacts(
        namespace=namespace,
        kind=ACTIVITY if activity else WORKFLOW,
        queue=queue,
        queued=queued,
        oldest_ms=None if since_ms is None else max(0, now_ms - since_ms),
        leases=sum(leases.holders(key).values()),
        expired=leases.expired(key),
    )


def _holdings(leases: Leases, key: QueueKey) -> list[Holding]:
    activity, namespace, queue = key
    return [
        Holding(
            namespace=namespace,
            kind=ACTIVITY if activity else WORKFLOW,
            queue=queue,
            worker=holder.worker,
            node=holder.node,
            leases=count,
        )
        for holder, count in leases.holders(key).items()
    ]
