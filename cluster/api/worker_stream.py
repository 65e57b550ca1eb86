"""WorkerStream: many tasks in flight over one connection, bounded by what the worker demands.

A demand is a poll that is asked again and again. Each of its polls has a request id of its own,
made of the demand's id and the number of the batch it is for, and a batch is asked for only when
the one before has been acknowledged. So a worker that opens another stream after a break, at any
node, asks with the very id of the batch that was lost, and the leader gives back what that was
granted.

What this node has not written when a stream breaks goes back at once. What it has written may be at
work: that lives by its lease, unless the worker says on its next stream that it never came.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from raftflow.cluster.api import grpc_answers as answers
from raftflow.cluster.api import grpc_messages as messages
from raftflow.cluster.api.handlers import tasks
from raftflow.cluster.api.handlers.common import check_namespace
from raftflow.cluster.api.limits import MAX_POLL_MS, MAX_TASKS_PER_POLL
from raftflow.cluster.api.noting import noting
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError, internal, of_exception
from raftflow.cluster.dispatch import Poll
from raftflow.engine.apply import Applied
from raftflow.engine.commands import Batch
from raftflow.engine.effects import DropLease
from raftflow.proto.workflow.v1 import service_pb2 as pb

log = structlog.get_logger("raftflow.api")

MAX_DEMANDS = 100
MAX_IN_FLIGHT = 10_000
# Calls whose outcome is not written yet. With more nothing is read: the worker waits.
MAX_CALLS = 1_000
# A lease can end in the moment in which its task is on the way to its stream.
_ENDED_REMEMBERED = 4_096

_DEMAND_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
# After these nobody waits for the worker's result any more.
_LOST = frozenset({"LEASE_LOST", "DECISION_STALE", "RUN_CLOSED", "WORKFLOW_NOT_FOUND"})

NamespaceOf = Callable[[Any], str]
Write = Callable[[pb.NodeMessage], Awaitable[None]]
# A call's answer, and the tasks that it hands out.
Answer = tuple[pb.CallOutcome, Sequence[Any]]


class WorkerStreams:
    """All streams of this node, and which of them has which task."""

    def __init__(self, node: NodeServices) -> None:
        self._holders: dict[str, _Stream] = {}
        self._ended: OrderedDict[str, bool] = OrderedDict()  # token -> cancelled
        self._calls: set[asyncio.Task[None]] = set()
        node.replica.subscribe(self._on_applied)

    async def serve(
        self,
        node: NodeServices,
        incoming: AsyncIterator[pb.WorkerMessage],
        write: Write,
        namespace_of: NamespaceOf,
    ) -> None:
        """One stream, until its worker ends it or it breaks. ``node`` is as the worker has it."""
        stream = _Stream(node, self, namespace_of)
        try:
            await stream.run(incoming, write)
        finally:
            stream.close()

    def hold(self, token: str, stream: _Stream) -> None:
        cancelled = self._ended.get(token)
        if cancelled is None:
            self._holders[token] = stream
        else:
            stream.on_ended(token, cancelled=cancelled)

    def let_go(self, token: str) -> None:
        self._holders.pop(token, None)

    def keep(self, call: asyncio.Task[None]) -> None:
        """A call goes on when its stream has gone: what a worker has done must count."""
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    def _on_applied(self, applied: Applied, _batch: Batch) -> None:
        for effect in applied.effects:
            if not isinstance(effect, DropLease):
                continue
            self._ended[effect.token] = effect.cancelled
            if len(self._ended) > _ENDED_REMEMBERED:
                self._ended.popitem(last=False)
            holder = self._holders.pop(effect.token, None)
            if holder is not None:
                holder.on_ended(effect.token, cancelled=effect.cancelled)


@dataclass(slots=True)
class _Demand:
    """What the worker wants, and how far this stream is with it."""

    kind: int
    poll: Poll
    in_flight: int
    number: int  # of the last batch that was sent
    received: int  # of the last batch that arrived
    held: set[str] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    feed: asyncio.Task[None] | None = None

    @property
    def room(self) -> int:
        return min(self.in_flight - len(self.held), MAX_TASKS_PER_POLL)

    async def ready(self) -> None:
        """There is room, and the last batch has arrived."""
        while self.received < self.number or self.room <= 0:
            self.changed.clear()
            await self.changed.wait()


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """``tasks`` go back when the message cannot be written."""

    message: pb.NodeMessage
    tasks: Sequence[Any] = ()
    ends_call: bool = False


class _Stream:
    def __init__(
        self, node: NodeServices, streams: WorkerStreams, namespace_of: NamespaceOf
    ) -> None:
        self._node = node
        self._streams = streams
        self._namespace_of = namespace_of
        self._demands: dict[str, _Demand] = {}
        self._held: dict[str, tuple[_Demand, str]] = {}  # token -> demand, workflow id
        self._completing: set[str] = set()
        self._outgoing: asyncio.Queue[_Outgoing] = asyncio.Queue()
        self._writing: _Outgoing | None = None
        self._last_write = False
        self._room_for_calls = asyncio.Semaphore(MAX_CALLS)
        self._unfinished: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed = False

    async def run(self, incoming: AsyncIterator[pb.WorkerMessage], write: Write) -> None:
        writer = asyncio.create_task(self._write(write))
        reader = asyncio.create_task(self._read(incoming))
        ends: set[asyncio.Future[None]] = {reader, writer, self._failed}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                if end.done():
                    await end  # raises what broke it
            await self._finish(writer)
        except asyncio.CancelledError:
            writer.cancel()  # the worker has gone
            raise
        finally:
            reader.cancel()
            # gRPC cannot end a call with a status while a message of it is being written.
            self._last_write = True
            if self._writing is None:
                writer.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _finish(self, writer: asyncio.Task[None]) -> None:
        """The worker takes no more: what it is owed is written yet."""
        self._end_feeds()
        owed = asyncio.create_task(self._all_written())
        try:
            await asyncio.wait({writer, owed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            owed.cancel()

    async def _all_written(self) -> None:
        if self._unfinished:
            await asyncio.wait(self._unfinished)
        await self._outgoing.join()

    def close(self) -> None:
        """Give back what was not written; calls under way go on."""
        self._closed = True
        self._end_feeds()
        for token in self._held:
            self._streams.let_go(token)
        if self._writing is not None:
            self._give_back(self._writing.tasks)
        while not self._outgoing.empty():
            self._give_back(self._outgoing.get_nowait().tasks)

    def on_ended(self, token: str, *, cancelled: bool) -> None:
        """The lease of a task that we sent is over, one way or the other."""
        if (workflow_id := self._over(token)) and token not in self._completing:
            ended = pb.LeaseEnded(workflow_id=workflow_id, token=token, cancelled=cancelled)
            self._send(pb.NodeMessage(lease_ended=ended))

    # ---- the two directions ---------------------------------------------------------------------

    async def _read(self, incoming: AsyncIterator[pb.WorkerMessage | ApiError]) -> None:
        async for message in incoming:
            if isinstance(message, ApiError):
                raise message
            kind = message.WhichOneof("message")
            if kind == "received":
                self._received(message.received)
                continue
            if kind is None:
                raise ApiError("MALFORMED", "a message of the stream says nothing that we know")
            await self._room_for_calls.acquire()
            work = self._call(message.id, kind, getattr(message, kind))
            if kind == "demand":
                await work  # the last one counts: they are taken in order
                continue
            call = asyncio.create_task(work)
            self._unfinished.add(call)
            call.add_done_callback(self._unfinished.discard)
            self._streams.keep(call)

    async def _write(self, write: Write) -> None:
        while True:
            self._writing = await self._outgoing.get()
            await write(self._writing.message)
            if self._writing.ends_call:
                self._room_for_calls.release()
            self._writing = None
            self._outgoing.task_done()
            if self._last_write:
                return

    def _send(
        self, message: pb.NodeMessage, tasks: Sequence[Any] = (), *, ends_call: bool = False
    ) -> None:
        if self._closed:
            self._give_back(tasks)
        else:
            self._outgoing.put_nowait(_Outgoing(message, tasks, ends_call))

    def _give_back(self, found: Sequence[Any]) -> None:
        for task in found:
            self._node.dispatch.return_task(task.namespace, task.workflow_id, task.token)

    # ---- calls ----------------------------------------------------------------------------------

    async def _call(self, number: int, kind: str, request: Any) -> None:
        operation, handle = _CALLS[kind]
        begun = time.perf_counter()
        found: Sequence[Any] = ()
        error: ApiError | None = None
        try:
            with noting(self._node, operation, self._namespace_of(request)) as noted:
                noted.of_message(request)
                outcome, found = await handle(self, request)
        except Exception as problem:  # the last line: no caller sees a traceback
            error = of_exception(problem)
            if error is None:
                log.exception("call_failed", operation=operation)
                error = internal()
            outcome = pb.CallOutcome(error=_error(error))
        code = "OK" if error is None else error.situation.code.name
        self._node.metrics.request(operation, code, time.perf_counter() - begun)
        self._send(pb.NodeMessage(id=number, outcome=outcome), found, ends_call=True)

    async def _complete_task(self, request: pb.CompleteTaskRequest) -> Answer:
        namespace = self._namespace_of(request)
        command = messages.complete_activity(request, namespace, self._node.config)
        eager = messages.eager(request, namespace)
        found = await self._settling(
            request.lease_token, tasks.complete_activity(self._node, command, eager)
        )
        response = pb.CompleteTaskResponse()
        if found:
            response.workflow_task.CopyFrom(answers.decision_task(found[0]))
        return pb.CallOutcome(complete_task=response), found

    async def _complete_workflow_task(self, request: pb.CompleteWorkflowTaskRequest) -> Answer:
        namespace = self._namespace_of(request)
        answered = tasks.complete_decision(
            self._node,
            messages.decision_token(request, namespace),
            lambda task: messages.decision_answer(request, task, self._node.config),
        )
        found = await self._settling(request.task_token, answered)
        response = pb.CompleteWorkflowTaskResponse(
            activity_tasks=[answers.activity_task(task) for task in found]
        )
        return pb.CallOutcome(complete_workflow_task=response), found

    async def _heartbeat(self, request: pb.HeartbeatRequest) -> Answer:
        messages.check_heartbeat(request, self._node.config)
        beat = tasks.heartbeat(
            self._node,
            namespace=self._namespace_of(request),
            workflow_id=request.workflow_id,
            lease_token=request.lease_token,
            worker_id=request.worker_id,
            details=request.details if request.HasField("details") else None,
        )
        await self._unless_lost(request.lease_token, beat)
        return pb.CallOutcome(), ()

    async def _settling(self, token: str, completion: Awaitable[Sequence[Any]]) -> Sequence[Any]:
        """A completion says itself that the task is over: no word of it beside that."""
        self._completing.add(token)
        try:
            found: Sequence[Any] = await self._unless_lost(token, completion)
            self._over(token)
            return found
        finally:
            self._completing.discard(token)

    async def _unless_lost(self, token: str, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except Exception as problem:
            error = of_exception(problem)
            if error is not None and error.reason in _LOST:
                self._over(token)
            raise

    def _over(self, token: str) -> str:
        """The task does not count any more; its workflow id when it did until now."""
        self._streams.let_go(token)
        demand, workflow_id = self._held.pop(token, (None, ""))
        if demand is not None:
            demand.held.discard(token)
            demand.changed.set()
        return workflow_id

    # ---- demands --------------------------------------------------------------------------------

    async def _demand(self, request: pb.WorkerDemand) -> Answer:
        namespace = self._namespace_of(request)
        poll = _checked(request, namespace)
        if request.demand_id not in self._demands and len(self._demands) >= MAX_DEMANDS:
            raise ApiError("INVALID_FIELD", f"a stream has {MAX_DEMANDS} demands at most")
        await check_namespace(self._node, namespace)
        if self._closed:
            return pb.CallOutcome(), ()
        demand = self._demands.get(request.demand_id)
        if demand is None:
            demand = _Demand(request.kind, poll, 0, request.received, request.received)
            self._demands[request.demand_id] = demand
        elif demand.feed is not None:
            demand.feed.cancel()
        demand.kind, demand.poll, demand.in_flight = request.kind, poll, request.in_flight
        demand.received = max(demand.received, min(request.received, demand.number))
        demand.feed = asyncio.create_task(self._feed(request.demand_id, demand))
        demand.feed.add_done_callback(self._on_feed_done)
        return pb.CallOutcome(), ()

    def _received(self, batch: pb.BatchReceived) -> None:
        demand = self._demands.get(batch.demand_id)
        if demand is not None:
            demand.received = max(demand.received, min(batch.number, demand.number))
            demand.changed.set()

    async def _feed(self, demand_id: str, demand: _Demand) -> None:
        activities = demand.kind == pb.TASK_KIND_ACTIVITY
        dispatch = self._node.dispatch
        ask = dispatch.poll_activity if activities else dispatch.poll_decision
        while True:
            await demand.ready()
            number = demand.number + 1
            found = await ask(
                _numbered(demand.poll, demand_id, number, demand.room), timeout_ms=MAX_POLL_MS
            )
            if not found:
                continue
            demand.number = number
            batch = pb.TaskBatch(demand_id=demand_id, number=number)
            if activities:
                batch.activity_tasks.extend(answers.activity_task(task) for task in found)
            else:
                batch.workflow_tasks.extend(answers.decision_task(task) for task in found)
            self._send(pb.NodeMessage(tasks=batch), found)
            for task in found:
                demand.held.add(task.token)
                self._held[task.token] = (demand, task.workflow_id)
                self._streams.hold(task.token, self)

    def _on_feed_done(self, feed: asyncio.Task[None]) -> None:
        """A feed ends when it is told to, or by a bug: that ends the stream."""
        if not feed.cancelled() and not self._failed.done() and (error := feed.exception()):
            self._failed.set_exception(error)

    def _end_feeds(self) -> None:
        for demand in self._demands.values():
            if demand.feed is not None:
                demand.feed.cancel()


_CALLS: dict[str, tuple[str, Callable[[_Stream, Any], Awaitable[Answer]]]] = {
    "demand": ("WorkerDemand", _Stream._demand),
    "complete_task": ("CompleteTask", _Stream._complete_task),
    "complete_workflow_task": ("CompleteWorkflowTask", _Stream._complete_workflow_task),
    "heartbeat": ("Heartbeat", _Stream._heartbeat),
}


def _checked(request: pb.WorkerDemand, namespace: str) -> Poll:
    """The demand as a poll."""
    if not _DEMAND_ID.fullmatch(request.demand_id):
        raise ApiError(
            "INVALID_FIELD",
            "demand_id must be 1 to 40 letters, digits, hyphens and underscores",
        )
    if request.kind not in (pb.TASK_KIND_ACTIVITY, pb.TASK_KIND_WORKFLOW):
        raise ApiError("INVALID_FIELD", "kind must be TASK_KIND_ACTIVITY or TASK_KIND_WORKFLOW")
    if request.in_flight > MAX_IN_FLIGHT:
        raise ApiError("INVALID_FIELD", f"in_flight must be 0 to {MAX_IN_FLIGHT}")
    named = pb.PollTaskRequest(task_queue=request.task_queue, worker_id=request.worker_id)
    return messages.poll(request.names, "names", named, namespace)


def _numbered(poll: Poll, demand_id: str, number: int, room: int) -> Poll:
    return replace(poll, request_id=f"{demand_id}-{number}", most=room)


def _error(error: ApiError) -> pb.CallError:
    return pb.CallError(
        code=error.situation.code.value[0],
        message=error.message,
        reason=error.reason,
        metadata=messages.error_metadata(error),
    )
