"""Why nobody takes a task that is queued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raftflow.cluster.refused_calls import RefusedCall
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.model import Fact, Link, Moment, Severity
from raftflow.cluster.why.refused import link_of_refused
from raftflow.cluster.why.words import at, count, names, quoted, span
from raftflow.cluster.work_facts import ACTIVITY, ANY_TYPE, Holding, Poller, QueueFacts, Work

# A worker that finishes one task and asks for the next is away for no longer.
_BETWEEN_POLLS_MS = 10_000
# A task that is offered goes out within a few heartbeats of the leader.
_AT_ONCE_MS = 3_000
# Polls come again at least so often: one that was refused before says nothing about now.
_POLLS_AGAIN_MS = 60_000
_POLLS = frozenset({"PollTask", "PollWorkflowTask", "WorkerStream", "RegisterWorkflowTypes"})
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Tasks of one name that wait in one queue. ``work`` is of this queue, ``around`` of all that
    the asker may see. ``hosted``: types that the nodes themselves poll for, which nobody means who
    asks for workers of another name."""

    kind: str
    namespace: str
    queue: str
    name: str
    waited_ms: int
    now_ms: int
    work: Work
    around: Work
    refused: tuple[RefusedCall, ...] = ()
    hosted: frozenset[str] = frozenset()

    @property
    def what(self) -> str:
        return f"{'activity' if self.kind == ACTIVITY else 'workflow type'} {quoted(self.name)}"

    @property
    def here(self) -> list[Poller]:
        """Who polls this very queue, or did lately."""
        return [each for each in self.workers(self.work) if self._is_here(each)]

    @property
    def able(self) -> list[Poller]:
        return [each for each in self.here if _takes(each, self.name)]

    @property
    def holdings(self) -> list[Holding]:
        leading = self.work.leading
        return [] if leading is None else [h for h in leading.holdings if self._is_here(h)]

    @property
    def queue_facts(self) -> QueueFacts | None:
        leading = self.work.leading
        found = () if leading is None else leading.queues
        return next((each for each in found if self._is_here(each)), None)

    def workers(self, work: Work) -> list[Poller]:
        if self.name in self.hosted:
            return list(work.pollers)
        return [each for each in work.pollers if not self.hosted.issuperset(each.types)]

    def _is_here(self, each: Poller | Holding | QueueFacts) -> bool:
        place = (self.kind, self.namespace, self.queue)
        return (each.kind, each.namespace, each.queue) == place


def links_of_wait(wait: Wait) -> tuple[Link, ...]:
    """The first link says who polls, or that nobody does; what follows is why."""
    able = wait.able
    waiting = [each for each in able if each.polls]
    unable = {each.worker for each in wait.here} - {each.worker for each in able}
    busy = [each for each in wait.holdings if each.worker not in unable]
    if waiting:
        return (_polled(wait, waiting),)
    if busy:
        return (_busy(wait, busy),)
    if any(_is_present(each, wait.now_ms) for each in able):
        return (_polled(wait, able),)
    at_work = {each.worker for each in wait.holdings}
    other_names = [
        each
        for each in wait.here
        if each not in able and (_is_present(each, wait.now_ms) or each.worker in at_work)
    ]
    if other_names and not able:
        return (_lacks_name(wait, other_names),)
    return (_nobody(wait, able), *_elsewhere(wait))


def _polled(wait: Wait, able: Sequence[Poller]) -> Link:
    """It is about to be handed out; if it has waited for long, something else is wrong."""
    leading = wait.work.leading
    slow = wait.waited_ms > _AT_ONCE_MS
    then = ""
    if slow:
        then = "look who leads and whether its log moves: `raftflow why leader`, `raftflow why log`"
    if leading is not None and not leading.settled:
        then = "wait a moment: the leader is new, and still reads what its predecessor left"
    what = f"for {wait.what} ({_workers(able)})"
    says = f"Workers poll queue {quoted(wait.queue)} {what}: it is handed out at once."
    if not any(each.polls for each in able):
        ago = span(max(0, wait.now_ms - max(each.seen_ms for each in able)))
        says = (
            f"Workers polled queue {quoted(wait.queue)} {what} until {ago} ago: it is handed out"
            " with their next poll."
        )
    return Link(
        cause=Cause.POLLED,
        severity=Severity.PROBLEM if slow and leading is not None else Severity.WAITING,
        says=says,
        evidence={**_place(wait), "pollers": _shown(able), **_gaps(wait)},
        next=then,
    )


def _busy(wait: Wait, busy: Sequence[Holding]) -> Link:
    held = sum(each.leases for each in busy)
    ahead = wait.queue_facts
    queued = 0 if ahead is None else ahead.queued
    who = [f"{quoted(each.worker)} has {count(each.leases, 'task')}" for each in busy]
    return Link(
        cause=Cause.WORKERS_BUSY,
        severity=Severity.WAITING,
        says=f"All workers of queue {quoted(wait.queue)} are at work: {names(who)},"
        f" and {count(queued, 'task waits', 'tasks wait')}.",
        evidence={
            **_place(wait),
            "queued": queued,
            "leases": held,
            "workers": tuple(
                {"worker": each.worker, "node": each.node, "leases": each.leases}
                for each in busy[:_SHOWN]
            ),
            **_gaps(wait),
        },
        next=f"start more workers for queue {quoted(wait.queue)}, give each more room"
        " (concurrency), or wait",
    )


def _lacks_name(wait: Wait, others: Sequence[Poller]) -> Link:
    taken = sorted({name for each in others for name in each.types})
    return Link(
        cause=Cause.POLLER_LACKS_NAME,
        severity=Severity.PROBLEM,
        says=f"The workers that poll queue {quoted(wait.queue)} ({_workers(others)}) do not know"
        f" {wait.what}; they take {names(map(quoted, taken))}.",
        evidence={**_place(wait), "pollers": _shown(others), "known": tuple(taken), **_gaps(wait)},
        next=f"start a worker for queue {quoted(wait.queue)} whose code has {wait.what}: a newer"
        " release of it, or one with that name registered",
    )


def _nobody(wait: Wait, gone: Sequence[Poller]) -> Link:
    """``gone``: who did poll for it, and has not come back."""
    kind = "activities" if wait.kind == ACTIVITY else "workflow tasks"
    others = sorted(
        {p.queue for p in _present(wait) if (p.kind, p.namespace) == (wait.kind, wait.namespace)}
        - {wait.queue}
    )
    last = max(gone, key=lambda each: each.seen_ms, default=None)
    says = f"No worker polls queue {quoted(wait.queue)} for {wait.what}"
    if last is not None:
        says += f"; {quoted(last.worker)} was the last one, {at(last.seen_ms, wait.now_ms)}"
    elif others:
        says += f"; workers poll for {kind} on {names(map(quoted, others))}"
    else:
        says += f", and nobody polls for {kind} in namespace {quoted(wait.namespace)}"
    evidence: dict[str, Fact] = {**_place(wait), "queues_polled": tuple(others[:_SHOWN])}
    if last is not None:
        evidence |= {"last_worker": last.worker, "last_seen": Moment(last.seen_ms)}
    return Link(
        cause=Cause.NO_POLLER,
        severity=Severity.PROBLEM,
        says=says + ".",
        evidence={**evidence, **_gaps(wait)},
        next=f"start a worker with {wait.what} that polls queue {quoted(wait.queue)} in namespace"
        f" {quoted(wait.namespace)}",
    )


def _elsewhere(wait: Wait) -> tuple[Link, ...]:
    """Who would take it polls at another place, or is turned away where it polls."""
    able = [p for p in _present(wait) if p.kind == wait.kind and _takes(p, wait.name)]
    named = [each for each in able if each.types != (ANY_TYPE,)]
    near = [each for each in able if each.namespace == wait.namespace]
    if near:
        queues = sorted({each.queue for each in near})
        return (
            Link(
                cause=Cause.POLLER_OTHER_QUEUE,
                severity=Severity.PROBLEM,
                says=f"The workers that take {wait.what} poll {_queues(queues)},"
                f" not {quoted(wait.queue)}.",
                evidence={**_place(wait), "pollers": _shown(near), "their_queues": tuple(queues)},
                next=f"let them poll queue {quoted(wait.queue)} as well, or have the workflow ask"
                f" for {names(map(quoted, queues))}",
            ),
        )
    since_ms = wait.now_ms - _POLLS_AGAIN_MS
    turned_away = [
        each for each in wait.refused if each.operation in _POLLS and each.last_ms > since_ms
    ]
    if turned_away:
        return (link_of_refused(turned_away[0], wait.now_ms),)
    far = [each for each in named or able if each.namespace != wait.namespace]
    if not far:
        return ()
    where = sorted({each.namespace for each in far})
    return (
        Link(
            cause=Cause.POLLER_OTHER_NAMESPACE,
            severity=Severity.PROBLEM,
            says=f"Workers that take {wait.what} poll in"
            f" {'namespace' if len(where) == 1 else 'namespaces'} {names(map(quoted, where))} only,"
            f" and this task is in {quoted(wait.namespace)}.",
            evidence={**_place(wait), "pollers": _shown(far), "their_namespaces": tuple(where)},
            next=f"start a worker in namespace {quoted(wait.namespace)} (`namespace=` of the"
            " worker, X-Workflowd-Namespace, or a token of that namespace)",
        ),
    )


def _present(wait: Wait) -> list[Poller]:
    """Who polls anywhere, or has just done so."""
    return [each for each in wait.workers(wait.around) if _is_present(each, wait.now_ms)]


def _is_present(poller: Poller, now_ms: int) -> bool:
    return poller.polls > 0 or poller.seen_ms > now_ms - _BETWEEN_POLLS_MS


def _takes(poller: Poller, name: str) -> bool:
    return ANY_TYPE in poller.types or name in poller.types


def _workers(pollers: Sequence[Poller]) -> str:
    return names(quoted(each) for each in dict.fromkeys(poller.worker for poller in pollers))


def _queues(queues: Sequence[str]) -> str:
    return f"{'queue' if len(queues) == 1 else 'queues'} {names(map(quoted, queues))}"


def _place(wait: Wait) -> dict[str, Fact]:
    return {
        "queue": wait.queue,
        "namespace": wait.namespace,
        "kind": wait.kind,
        "name": wait.name,
        "waited_ms": wait.waited_ms,
    }


def _shown(pollers: Sequence[Poller]) -> Fact:
    return tuple(
        {
            "worker": each.worker,
            "node": each.node,
            "namespace": each.namespace,
            "queue": each.queue,
            "types": each.types[:_SHOWN],
            "polls": each.polls,
            "last_seen": Moment(each.seen_ms),
        }
        for each in pollers[:_SHOWN]
    )


def _gaps(wait: Wait) -> dict[str, Fact]:
    """Who was not heard: there may be polls on those nodes."""
    return {"not_heard": dict(wait.work.missing)} if wait.work.missing else {}
