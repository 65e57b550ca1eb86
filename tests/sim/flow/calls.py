"""Calls into nodes from outside: to any node, over connections that may break, until answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raftflow.cluster.errors import LeaseLost, Overloaded, Unavailable
from raftflow.engine.commands import Command
from raftflow.engine.rejections import Answer

if TYPE_CHECKING:
    from tests.sim.flow.node import FlowNode
    from tests.sim.flow.world import FlowWorld

Ask = Callable[["FlowNode"], Any]
REFUSALS = (Unavailable, Overloaded, LeaseLost)


class Failed(Exception):
    """No answer, or a refusal (`cause`)."""

    def __init__(self, cause: BaseException | None) -> None:
        super().__init__(repr(cause))
        self.cause = cause


class Calls:
    def __init__(self, world: FlowWorld) -> None:
        self._world = world
        self.insisting = 0

    async def ask(self, node: FlowNode, ask: Ask, *, timeout_s: float) -> Any:
        """One call. Raises Failed."""
        world, rng = self._world, self._world.rng
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def reset() -> None:
            if not answer.done():
                answer.set_exception(Failed(None))

        def done(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                world.clock.after(0.0005, reset)
                return
            error = task.exception()
            if error is not None and not isinstance(error, REFUSALS):
                raise error
            world.clock.after(rng.uniform(0.0002, 0.002), lambda: finish(task, error))

        def finish(task: asyncio.Task[Any], error: BaseException | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(Failed(error))
            else:
                answer.set_result(task.result())

        def arrive() -> None:
            if node.alive:
                node.serve(lambda: ask(node), done)
            else:
                reset()

        world.clock.after(rng.uniform(0.0002, 0.002), arrive)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            raise Failed(error) from None

    async def insist(self, command: Command) -> Answer:
        """Send the command until it is answered, always under the same id."""
        world, rng = self._world, self._world.rng
        command_id = world.new_id("c")
        self.insisting += 1
        while True:
            node = world.some_leader() if rng.random() < 0.6 else world.any_node()
            if node is not None:
                try:
                    answer: Answer = await self.ask(
                        node,
                        lambda n: n.forwarder.execute(command, command_id=command_id),
                        timeout_s=2.0,
                    )
                except Failed:
                    world.stats["maybe"] += 1
                else:
                    break
            await asyncio.sleep(rng.uniform(0.01, 0.2))
        self.insisting -= 1
        world.flow_checks.told(command, answer)
        return answer
