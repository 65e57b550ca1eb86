"""Workers on streams: one demand each, at any node, until the stream breaks; then at another one.

What arrived stays theirs. What was on its way when a stream broke is offered again, since the next
stream says which batch came last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from raftflow.cluster.dispatch import ACTIVITY
from raftflow.engine import commands as cmd
from raftflow.proto.workflow.v1 import service_pb2 as pb
from tests.sim.flow import speech
from tests.sim.flow.edge import Caller

if TYPE_CHECKING:
    from tests.sim.flow.node import FlowNode
    from tests.sim.flow.speech import Task
    from tests.sim.flow.world import FlowWorld

LATENCY_S = 0.001
ANSWER_S = 2.0
LIVES_S = (0.3, 4.0)

WorkOn = Callable[[list["Task"], str], Awaitable[None]]


class StreamWorker:
    def __init__(
        self, world: FlowWorld, name: str, kind: Any, *, namespace: str, work_on: WorkOn
    ) -> None:
        self._world = world
        self.name = name
        self._kind = kind
        self._namespace = namespace
        self._work_on = work_on
        self._received = 0  # the last batch that arrived
        self._stream: Stream | None = None

    async def live(self) -> None:
        world = self._world
        demand_id = world.new_id("demand")
        while True:
            node = world.any_node()
            if node is not None:
                self._stream = stream = Stream(world, node, self._namespace)
                stream.send(demand=self._demand(demand_id))
                await self._listen(stream, world.rng.uniform(*LIVES_S))
                self._stream = None
                stream.hang_up()
            await asyncio.sleep(world.rng.uniform(0.01, 0.1))

    async def _listen(self, stream: Stream, for_s: float) -> None:
        try:
            async with asyncio.timeout(for_s):
                async for message in stream.heard():
                    if message.HasField("tasks"):
                        self._take(stream, message.tasks)
        except TimeoutError:
            pass  # as long as streams live

    def _take(self, stream: Stream, batch: pb.TaskBatch) -> None:
        stream.send(received=pb.BatchReceived(demand_id=batch.demand_id, number=batch.number))
        self._received = batch.number
        views = batch.activity_tasks if self._kind == ACTIVITY else batch.workflow_tasks
        for view in views:
            (task,) = speech.tasks_in(self._kind, view, self._namespace)
            self._world.stats["tasks on streams"] += 1
            self._world.spawn(self._work_on([task], self.name))

    async def complete(self, command: cmd.CompleteDecision | cmd.CompleteActivity) -> None:
        """On the stream that is open now, if one is. Whether it was taken is not known then."""
        if self._stream is None:
            return
        if isinstance(command, cmd.CompleteActivity):
            await self._stream.call(complete_task=speech.completion(command, None))
        else:
            await self._stream.call(complete_workflow_task=speech.decision(command, None))

    def _demand(self, demand_id: str) -> pb.WorkerDemand:
        activities = self._kind == ACTIVITY
        return pb.WorkerDemand(
            demand_id=demand_id,
            kind=pb.TASK_KIND_ACTIVITY if activities else pb.TASK_KIND_WORKFLOW,
            worker_id=self.name,
            in_flight=3,
            received=self._received,
            namespace=self._namespace,
        )


class Stream:
    """One connection, seen from its worker; messages arrive in order while both ends live."""

    def __init__(self, world: FlowWorld, node: FlowNode, namespace: str) -> None:
        self._world = world
        self._node = node
        self._number = 0
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._here: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._there: asyncio.Queue[bytes] = asyncio.Queue()
        self._serving: list[asyncio.Task[None]] = []
        self._caller: Caller
        world.clock.after(LATENCY_S, lambda: self._arrive(namespace))

    def send(self, **message: Any) -> int:
        self._number += 1
        raw = pb.WorkerMessage(id=self._number, **message).SerializeToString()
        loop = self._node.loop
        self._world.clock.after(LATENCY_S, lambda: loop.enter(lambda: self._there.put_nowait(raw)))
        return self._number

    async def call(self, **message: Any) -> None:
        """Wait for the outcome, whatever it is, and not for ever."""
        number = self.send(**message)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await asyncio.wait({answer}, timeout=ANSWER_S)

    async def heard(self) -> AsyncIterator[pb.NodeMessage]:
        """Until the stream breaks."""
        while (raw := await self._here.get()) is not None:
            message = pb.NodeMessage.FromString(raw)
            answer = self._answers.pop(message.id, None)
            if message.HasField("outcome") and answer is not None and not answer.done():
                answer.set_result(None)
            yield message

    def hang_up(self) -> None:
        node = self._node

        def arrive() -> None:
            for task in self._serving:
                self._caller.gone = True
                if node.alive and not task.done():
                    node.loop.enter(task.cancel)

        self._world.clock.after(LATENCY_S, arrive)

    # ---- the other end ---------------------------------------------------------------------------

    def _arrive(self, namespace: str) -> None:
        node = self._node

        def begin() -> asyncio.Task[None]:
            self._caller = Caller(namespace=namespace, patience_s=None)
            self._caller.write = self._write
            task = node.loop.create_task(node.edge.stream(self._incoming(), self._caller))
            self._serving.append(task)
            return task

        if node.alive:
            node.serve(begin, self._ended)
        else:
            self._hear(None)

    async def _incoming(self) -> AsyncIterator[bytes]:
        while True:
            yield await self._there.get()

    async def _write(self, message: pb.NodeMessage) -> None:
        self._hear(message.SerializeToString())

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            error = task.exception()
            if error is not None and not isinstance(error, speech.Refused):
                raise error
        self._hear(None)

    def _hear(self, raw: bytes | None) -> None:
        here, loop = self._here, self._world.loop
        self._world.clock.after(LATENCY_S, lambda: loop.enter(lambda: here.put_nowait(raw)))
