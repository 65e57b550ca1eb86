"""Matching queued tasks with parked polls: by priority, then first come, first served, per name
within a queue.

Only an index in the leader's memory: tasks come from effects and from the store at takeover, polls
from the nodes' announcements. Whatever is wrong here is put right at apply, which drops a grant of
a task that is not queued.

A poll may take several tasks. Those that come at once go round among the polls that wait, one each
in turn, so that a fan-out reaches all workers. A poll that got some stays open for more until
`seal` says that its first grant has left for the log: the node answers with what one entry brings.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from raftflow.engine.ids import RunKey
from raftflow.engine.limits import USUAL_PRIORITY
from raftflow.proto.raftflow.internal.v1 import node_pb2

TaskKey = tuple[RunKey, int]  # sequence 0 is the run's decision
ANY = ""  # the index name of polls that take any task of their queue
_PLACES_LEFT = 64


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """``name`` is the activity's name or the workflow type; ``priority`` 1 goes first. ``since_ms``
    is the log time from which it waits."""

    run: RunKey
    sequence: int
    attempt: int
    name: str
    task_queue: str
    priority: int = USUAL_PRIORITY
    since_ms: int = 0

    @property
    def key(self) -> TaskKey:
        return (self.run, self.sequence)

    @property
    def queue_key(self) -> QueueKey:
        return (self.sequence != 0, self.run.namespace, self.task_queue)


QueueKey = tuple[bool, str, str]  # (is activity, namespace, task queue)
_Place = tuple[int, int, QueuedTask]  # (priority, arrival, task); no two arrive together


@dataclass(frozen=True, slots=True)
class Match:
    task: QueuedTask
    node: str
    poll: node_pb2.Poll


@dataclass(slots=True)
class _WaitingPoll:
    node: str
    poll: node_pb2.Poll
    room: int


@dataclass(slots=True)
class _Line:
    """Tasks of one name. ``heap`` may hold places of some that wait no more; ``waiting`` of it do,
    and one at least: a line in which nobody waits is gone."""

    heap: list[_Place] = field(default_factory=list)
    waiting: int = 0


@dataclass(slots=True)
class _Queue:
    """Of one in which neither tasks nor polls wait nothing is kept."""

    tasks: dict[str, _Line] = field(default_factory=dict)  # by name
    order: dict[TaskKey, QueuedTask] = field(default_factory=dict)  # all of them, as they came
    polls: dict[str, dict[str, None]] = field(default_factory=dict)  # name -> poll ids, in order


class Matching:
    """Tasks and polls of all queues. What makes matches answers with them."""

    def __init__(self) -> None:
        self._queues: dict[QueueKey, _Queue] = {}
        # By whether it is an activity; each in the order in which they came.
        self._tasks: dict[bool, dict[TaskKey, _Place]] = {True: {}, False: {}}
        self._polls: dict[str, _WaitingPoll] = {}
        self._open: set[str] = set()  # polls that got tasks and may get more
        self._arrivals = 0

    @property
    def polls_waiting(self) -> int:
        return len(self._polls)

    def depth(self, *, activities: bool) -> int:
        """How many tasks wait for a poll."""
        return len(self._tasks[activities])

    def oldest_ms(self, *, activities: bool) -> int | None:
        """Since when the one waits that came first."""
        return next((task.since_ms for _, _, task in self._tasks[activities].values()), None)

    def queues(self) -> list[QueueKey]:
        """Those in which tasks or polls wait."""
        return list(self._queues)

    def standing(self, key: QueueKey) -> tuple[int, int | None]:
        """How many tasks wait in this queue, and since when the one that came first."""
        queue = self._queues.get(key)
        if queue is None or not queue.order:
            return (0, None)
        return (len(queue.order), next(iter(queue.order.values())).since_ms)

    def names(self, key: QueueKey) -> dict[str, int]:
        """How many tasks wait in this queue, by name."""
        queue = self._queues.get(key)
        return {} if queue is None else {n: line.waiting for n, line in queue.tasks.items()}

    def offer(self, tasks: Iterable[QueuedTask]) -> list[Match]:
        """Tasks are queued, all at once."""
        left = []
        for task in tasks:
            known = self._place(task.key)
            if known is None or known[2].attempt < task.attempt:
                self.withdraw(task.key)  # an attempt that is over
                left.append(task)
        matches = self.claim(left)
        taken = {match.task.key for match in matches}
        for task in left:
            if task.key not in taken:
                self._enqueue(task)
        return matches

    def claim(self, tasks: Iterable[QueuedTask]) -> list[Match]:
        """Polls for tasks that are about to be queued. What gets none is left out."""
        matches = []
        for task in sorted(tasks, key=_priority):
            queue = self._queues.get(task.queue_key)
            poll_id = None if queue is None else self._next_poll(queue, task.name)
            if poll_id is not None:
                matches.append(self._matched(task, poll_id))
        return matches

    def withdraw(self, key: TaskKey) -> None:
        place = self._place(key)
        if place is not None:
            self._dequeue(place[2])

    def park(self, node: str, poll: node_pb2.Poll) -> list[Match]:
        """A poll waits; it gets the first of the tasks that it takes."""
        if poll.poll_id in self._polls:
            return []
        self._polls[poll.poll_id] = _WaitingPoll(node, poll, max(1, poll.max))
        queue = self._queues.setdefault(_queue_of(poll), _Queue())
        for name in poll.names or (ANY,):
            queue.polls.setdefault(name, {})[poll.poll_id] = None
        matches = []
        while poll.poll_id in self._polls and (task := self._first_task(queue, poll)) is not None:
            self._dequeue(task)
            matches.append(self._matched(task, poll.poll_id))
        return matches

    def unpark(self, poll_id: str) -> None:
        waiting = self._polls.pop(poll_id, None)
        if waiting is None:
            return
        self._open.discard(poll_id)
        key = _queue_of(waiting.poll)
        queue = self._queues[key]
        for name in waiting.poll.names or (ANY,):
            ids = queue.polls.get(name)
            if ids is not None:
                ids.pop(poll_id, None)
                if not ids:
                    del queue.polls[name]
        self._drop_if_idle(key)

    def seal(self) -> None:
        """What was matched is on its way into the log: its polls take no more."""
        for poll_id in sorted(self._open):
            self.unpark(poll_id)

    def forget_node(self, node: str) -> None:
        """The node is gone, or announces its demand anew."""
        for poll_id in [i for i, waiting in self._polls.items() if waiting.node == node]:
            self.unpark(poll_id)

    def clear(self) -> None:
        self._queues.clear()
        for tasks in self._tasks.values():
            tasks.clear()
        self._polls.clear()
        self._open.clear()

    def _place(self, key: TaskKey) -> _Place | None:
        return self._tasks[key[1] != 0].get(key)

    def _enqueue(self, task: QueuedTask) -> None:
        self._arrivals += 1
        place = (task.priority, self._arrivals, task)
        self._tasks[task.sequence != 0][task.key] = place
        queue = self._queues.setdefault(task.queue_key, _Queue())
        queue.order[task.key] = task
        line = queue.tasks.setdefault(task.name, _Line())
        line.waiting += 1
        heapq.heappush(line.heap, place)

    def _dequeue(self, task: QueuedTask) -> None:
        """Its place in the heap goes when it is reached, or when most places are such: where nobody
        polls none is reached."""
        del self._tasks[task.sequence != 0][task.key]
        queue = self._queues[task.queue_key]
        del queue.order[task.key]
        line = queue.tasks[task.name]
        line.waiting -= 1
        if not line.waiting:
            del queue.tasks[task.name]
            self._drop_if_idle(task.queue_key)
        elif len(line.heap) > 2 * line.waiting + _PLACES_LEFT:
            line.heap = [place for place in line.heap if self._waits(place)]
            heapq.heapify(line.heap)

    def _waits(self, place: _Place) -> bool:
        return self._place(place[2].key) is place

    def _drop_if_idle(self, key: QueueKey) -> None:
        queue = self._queues[key]
        if not queue.tasks and not queue.polls:
            del self._queues[key]

    def _next_poll(self, queue: _Queue, name: str) -> str | None:
        # Polls that name the task come first: the others may take anything later.
        lines = [line for line in (queue.polls.get(name), queue.polls.get(ANY)) if line]
        heads = [next(iter(line)) for line in lines]
        for poll_id in heads:
            if poll_id not in self._open:
                return poll_id
        return heads[0] if heads else None

    def _first_task(self, queue: _Queue, poll: node_pb2.Poll) -> QueuedTask | None:
        best: _Place | None = None
        for name in poll.names or queue.tasks:
            line = queue.tasks.get(name)
            if line is None:
                continue
            while not self._waits(line.heap[0]):
                heapq.heappop(line.heap)
            if best is None or line.heap[0] < best:
                best = line.heap[0]
        return best[2] if best is not None else None

    def _matched(self, task: QueuedTask, poll_id: str) -> Match:
        waiting = self._polls[poll_id]
        waiting.room -= 1
        if waiting.room == 0:
            self.unpark(poll_id)
        else:
            self._open.add(poll_id)
            lines = self._queues[task.queue_key].polls
            for name in (task.name, ANY):
                if poll_id in lines.get(name, ()):
                    lines[name][poll_id] = lines[name].pop(poll_id)  # behind those that got none
        return Match(task, waiting.node, waiting.poll)


def _queue_of(poll: node_pb2.Poll) -> QueueKey:
    return (poll.kind == node_pb2.Poll.KIND_ACTIVITY, poll.namespace, poll.task_queue)


def _priority(task: QueuedTask) -> int:
    return task.priority
