"""A worker on a WorkerStream, without a mind of its own: the test says what it demands, completes
and acknowledges, and looks at what came."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from raftflow.proto.workflow.v1 import service_pb2 as pb

PATIENCE_S = 10.0


class StreamWorker:
    """``acknowledges`` False leaves every batch unacknowledged."""

    def __init__(self, stub: Any, *, acknowledges: bool = True, **call: Any) -> None:
        self.call = stub.WorkerStream(**call)
        self.acknowledges = acknowledges
        self.batches: list[pb.TaskBatch] = []
        self.ended: list[pb.LeaseEnded] = []
        self._outcomes: dict[int, asyncio.Future[pb.CallOutcome]] = {}
        self._numbers = itertools.count(1)
        self._writing = asyncio.Lock()  # a call takes one message at a time
        self.reading = asyncio.create_task(self._read())

    @property
    def tasks(self) -> list[Any]:
        """All that came, of both kinds."""
        return [task for b in self.batches for task in (*b.activity_tasks, *b.workflow_tasks)]

    async def ask(self, **message: Any) -> pb.CallOutcome:
        """Send a message and wait for its outcome."""
        number = next(self._numbers)
        future = self._outcomes[number] = asyncio.get_running_loop().create_future()
        await self._write(pb.WorkerMessage(id=number, **message))
        async with asyncio.timeout(PATIENCE_S):
            return await future

    async def demand(
        self, in_flight: int, *names: str, kind: int = pb.TASK_KIND_ACTIVITY, **fields: Any
    ) -> pb.CallOutcome:
        fields.setdefault("demand_id", "d1")
        demand = pb.WorkerDemand(kind=kind, names=names, in_flight=in_flight, **fields)
        return await self.ask(demand=demand)

    async def complete(self, task: pb.Task, **fields: Any) -> pb.CallOutcome:
        done = pb.CompleteTaskRequest(
            workflow_id=task.workflow_id, lease_token=task.lease_token, output=b"done", **fields
        )
        return await self.ask(complete_task=done)

    async def decide(
        self, task: pb.WorkflowTask, *commands: pb.Command, **fields: Any
    ) -> pb.CallOutcome:
        done = pb.CompleteWorkflowTaskRequest(
            workflow_id=task.workflow_id, task_token=task.task_token, commands=commands, **fields
        )
        return await self.ask(complete_workflow_task=done)

    async def acknowledge(self, batch: pb.TaskBatch) -> None:
        received = pb.BatchReceived(demand_id=batch.demand_id, number=batch.number)
        await self._write(pb.WorkerMessage(received=received))

    async def end(self) -> None:
        """Send nothing more, once what is being sent has gone."""
        self.acknowledges = False  # what crosses with the end cannot be
        async with self._writing:
            await self.call.done_writing()

    async def _write(self, message: pb.WorkerMessage) -> None:
        async with self._writing:
            await self.call.write(message)

    async def _read(self) -> None:
        async for message in self.call:
            match message.WhichOneof("message"):
                case "outcome":
                    self._outcomes.pop(message.id).set_result(message.outcome)
                case "tasks":
                    if self.acknowledges:
                        await self.acknowledge(message.tasks)
                    self.batches.append(message.tasks)
                case "lease_ended":
                    self.ended.append(message.lease_ended)
