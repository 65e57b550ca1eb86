"""Matching queued tasks with parked polls: first come, first served, per name within a queue.

Only an index in the leader's memory: tasks come from effects and from the store at takeover, polls
from the nodes' announcements. Whatever is wrong here is put right at apply, which drops a grant of
a task that is not queued.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from raftflow.engine.ids import RunKey
from raftflow.proto.raftflow.internal.v1 import node_pb2

TaskKey = tuple[RunKey, int]  # sequence 0 is the run's decision
ANY = ""  # the index name of polls that take any task of their queue


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """``name`` is the activity's name or the workflow type."""

    run: RunKey
    sequence: int
    attempt: int
    name: str
    task_queue: str

    @property
    def key(self) -> TaskKey:
        return (self.run, self.sequence)

    @property
    def queue_key(self) -> QueueKey:
        return (self.sequence != 0, self.run.namespace, self.task_queue)


QueueKey = tuple[bool, str, str]  # (is activity, namespace, task queue)


@dataclass(frozen=True, slots=True)
class Match:
    task: QueuedTask
    node: str
    poll: node_pb2.Poll


@dataclass(slots=True)
class _WaitingPoll:
    node: str
    poll: node_pb2.Poll


@dataclass(slots=True)
class _Queue:
    tasks: dict[str, deque[tuple[int, QueuedTask]]] = field(default_factory=dict)
    polls: dict[str, dict[str, None]] = field(default_factory=dict)  # name -> poll ids, in order


class Matching:
    """Tasks and polls of all queues. Every method answers with the matches it made."""

    def __init__(self) -> None:
        self._queues: dict[QueueKey, _Queue] = {}
        self._tasks: dict[TaskKey, tuple[int, QueuedTask]] = {}
        self._polls: dict[str, _WaitingPoll] = {}
        self._arrivals = 0

    @property
    def polls_waiting(self) -> int:
        return len(self._polls)

    def polls(self) -> list[node_pb2.Poll]:
        """All that wait."""
        return [waiting.poll for waiting in self._polls.values()]

    def depth(self, *, activities: bool) -> int:
        """How many tasks wait for a poll."""
        return sum(1 for _, sequence in self._tasks if (sequence != 0) is activities)

    def offer(self, task: QueuedTask) -> Match | None:
        """A task is queued; the oldest poll that takes it gets it."""
        known = self._tasks.get(task.key)
        if known is not None and known[1].attempt >= task.attempt:
            return None
        queue = self._queue(task.queue_key)
        poll_id = self._oldest_poll(queue, task.name)
        if poll_id is not None:
            return self._matched(task, poll_id)
        self._arrivals += 1
        item = (self._arrivals, task)
        self._tasks[task.key] = item
        queue.tasks.setdefault(task.name, deque()).append(item)
        return None

    def claim(self, task: QueuedTask) -> Match | None:
        """The oldest poll that takes a task which is about to be queued."""
        poll_id = self._oldest_poll(self._queue(task.queue_key), task.name)
        return None if poll_id is None else self._matched(task, poll_id)

    def withdraw(self, key: TaskKey) -> None:
        # Its place in the deque is skipped when it is reached.
        self._tasks.pop(key, None)

    def park(self, node: str, poll: node_pb2.Poll) -> Match | None:
        """A poll waits; it gets the oldest task that it takes."""
        if poll.poll_id in self._polls:
            return None
        queue = self._queue(
            (poll.kind == node_pb2.Poll.KIND_ACTIVITY, poll.namespace, poll.task_queue)
        )
        self._polls[poll.poll_id] = _WaitingPoll(node, poll)
        task = self._oldest_task(queue, poll)
        if task is not None:
            del self._tasks[task.key]
            return self._matched(task, poll.poll_id)
        for name in poll.names or (ANY,):
            queue.polls.setdefault(name, {})[poll.poll_id] = None
        return None

    def unpark(self, poll_id: str) -> None:
        waiting = self._polls.pop(poll_id, None)
        if waiting is None:
            return
        poll = waiting.poll
        queue = self._queue(
            (poll.kind == node_pb2.Poll.KIND_ACTIVITY, poll.namespace, poll.task_queue)
        )
        for name in poll.names or (ANY,):
            ids = queue.polls.get(name)
            if ids is not None:
                ids.pop(poll_id, None)
                if not ids:
                    del queue.polls[name]

    def forget_node(self, node: str) -> None:
        """The node is gone, or announces its demand anew."""
        for poll_id in [i for i, waiting in self._polls.items() if waiting.node == node]:
            self.unpark(poll_id)

    def clear(self) -> None:
        self._queues.clear()
        self._tasks.clear()
        self._polls.clear()

    def _queue(self, key: QueueKey) -> _Queue:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
        return queue

    def _oldest_poll(self, queue: _Queue, name: str) -> str | None:
        named = queue.polls.get(name) if name != ANY else None
        wild = queue.polls.get(ANY)
        # Polls that name the task come first: the others may take anything later.
        for ids in (named, wild):
            if ids:
                return next(iter(ids))
        return None

    def _oldest_task(self, queue: _Queue, poll: node_pb2.Poll) -> QueuedTask | None:
        names = poll.names or list(queue.tasks)
        best: tuple[int, QueuedTask] | None = None
        for name in names:
            tasks = queue.tasks.get(name)
            while tasks and self._tasks.get(tasks[0][1].key) is not tasks[0]:
                tasks.popleft()
            if not tasks:
                queue.tasks.pop(name, None)
            elif best is None or tasks[0][0] < best[0]:
                best = tasks[0]
        return best[1] if best is not None else None

    def _matched(self, task: QueuedTask, poll_id: str) -> Match:
        waiting = self._polls[poll_id]
        self.unpark(poll_id)
        return Match(task, waiting.node, waiting.poll)
