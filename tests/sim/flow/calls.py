"""Calls into nodes from outside: to any node, over either API and connections that may break."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from raftflow.cluster.dispatch import Poll
from raftflow.engine.commands import Command
from raftflow.engine.describe import ActivityTask
from raftflow.engine.events import Event
from raftflow.engine.ids import RunKey
from raftflow.engine.rejections import Answer
from tests.sim.flow import speech
from tests.sim.flow.edge import Caller
from tests.sim.flow.speech import JsonCall, Refused, RpcCall, Task

if TYPE_CHECKING:
    from tests.sim.flow.node import FlowNode
    from tests.sim.flow.world import FlowWorld

# What says nothing about the call itself: it is made again.
AGAIN = frozenset({"UNAVAILABLE", "MAYBE_APPLIED", "OVERLOADED"})
POLL_S = 1.5


class Failed(Exception):
    """No answer, or a refusal (`refused`)."""

    def __init__(self, refused: Refused | None = None) -> None:
        super().__init__(str(refused or "no answer"))
        self.refused = refused

    @property
    def reason(self) -> str:
        return self.refused.reason if self.refused else ""


class Calls:
    def __init__(self, world: FlowWorld) -> None:
        self._world = world
        self._rng = random.Random(f"calls of {world.seed}")
        self.insisting = 0

    async def ask(self, node: FlowNode, call: JsonCall | RpcCall, *, timeout_s: float) -> Any:
        """One call: its body or message. Raises Failed. Whoever gives up hangs up."""
        world, rng = self._world, self._rng
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        serving: list[tuple[asyncio.Task[Any], Caller]] = []

        def reset() -> None:
            if not answer.done():
                answer.set_exception(Failed())

        def done(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                world.clock.after(0.0005, reset)
                return
            error = task.exception()
            if error is not None and not isinstance(error, Refused):
                raise error
            world.clock.after(rng.uniform(0.0002, 0.002), lambda: finish(task, error))

        def finish(task: asyncio.Task[Any], error: BaseException | None) -> None:
            if answer.done():
                return
            if isinstance(error, Refused):
                answer.set_exception(Failed(error))
            else:
                answer.set_result(task.result())

        def begin() -> asyncio.Task[Any]:
            caller = Caller(namespace=call.namespace, patience_s=timeout_s - 0.1)
            task = node.loop.create_task(node.edge.call(call, caller))
            serving.append((task, caller))
            return task

        def arrive() -> None:
            if node.alive:
                node.serve(begin, done)
            else:
                reset()

        world.clock.after(rng.uniform(0.0002, 0.002), arrive)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            if serving:
                world.clock.after(rng.uniform(0.0002, 0.002), lambda: _hang_up(node, *serving[0]))
            raise Failed from None

    def _either(self) -> bool:
        return self._rng.random() < 0.5

    async def insist(self, command: Command) -> Answer:
        """Send the command until it is answered, always with the same ids."""
        world, rng = self._world, self._rng
        calls = speech.as_json(command), speech.as_rpc(command)
        self.insisting += 1
        while True:
            node = world.some_leader() if rng.random() < 0.6 else world.any_node()
            if node is not None:
                try:
                    body = await self.ask(node, calls[self._either()], timeout_s=2.0)
                except Failed as failed:
                    if failed.refused is not None and failed.reason not in AGAIN:
                        answer: Answer = speech.rejection_of(failed.refused)
                        break
                    world.stats["maybe"] += 1
                else:
                    answer = speech.answer_of(command, body)
                    break
            await asyncio.sleep(rng.uniform(0.01, 0.2))
        self.insisting -= 1
        world.flow_checks.told(command, answer)
        return answer

    async def poll(self, node: FlowNode, kind: Any, poll: Poll) -> list[Task]:
        write = speech.poll_as_json if self._either() else speech.poll_as_rpc
        body = await self.ask(node, write(kind, poll), timeout_s=POLL_S)
        return speech.tasks_in(kind, body, poll.namespace)

    async def complete(self, node: FlowNode, command: Any, eager: Poll) -> list[Task]:
        """Complete a task, and take what comes with the answer."""
        write = speech.as_json if self._either() else speech.as_rpc
        body = await self.ask(node, write(command, eager), timeout_s=2.0)
        return speech.tasks_in(speech.next_kind(command), body, command.namespace)

    async def beat(
        self, node: FlowNode, task: ActivityTask, worker: str, details: bytes | None
    ) -> None:
        write = speech.beat_as_json if self._either() else speech.beat_as_rpc
        await self.ask(node, write(task, worker, details), timeout_s=1.0)

    # ---- reads -----------------------------------------------------------------------------------

    async def describe(self, node: FlowNode, key: RunKey) -> int:
        """How many events the run has."""
        write = speech.describe_as_json if self._either() else speech.describe_as_rpc
        return speech.described(await self.ask(node, write(key), timeout_s=2.0))

    async def history(self, node: FlowNode, key: RunKey, first: int) -> tuple[int, list[Event]]:
        """How many events it has, and those from ``first`` on."""
        call = speech.history_as_rpc(key, first)
        return speech.history_in(await self.ask(node, call, timeout_s=2.0))

    async def list_runs(self, node: FlowNode, namespace: str) -> list[tuple[RunKey, int]]:
        write = speech.list_as_json if self._either() else speech.list_as_rpc
        return speech.listed(await self.ask(node, write(namespace), timeout_s=2.0), namespace)


def _hang_up(node: FlowNode, task: asyncio.Task[Any], caller: Caller) -> None:
    """The server sees that its caller has gone."""
    caller.gone = True
    if node.alive and not task.done():
        node.loop.enter(task.cancel)
