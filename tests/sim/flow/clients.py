"""Clients: they start, signal, cancel, pause, end and delete whatever runs."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from raftflow.engine import commands as cmd
from raftflow.engine.ids import RunKey
from raftflow.engine.rejections import Started
from tests.sim.checkers import require
from tests.sim.flow.calls import AGAIN, Failed
from tests.sim.flow.programs import SIGNALS, TYPES, program

if TYPE_CHECKING:
    from tests.sim.flow.node import FlowNode
    from tests.sim.flow.world import FlowWorld

CLIENTS = 4
IDS = 24
READS = 0.25  # of what they do


class Clients:
    def __init__(self, world: FlowWorld) -> None:
        self._world = world
        self._rng = random.Random(f"clients of {world.seed}")
        self._runs: list[tuple[str, str, str]] = []  # namespace, workflow id, run id
        self._actions: list[tuple[int, Callable[[], cmd.Command | None]]] = [
            (10, self._start),
            (10, self._signal),
            (1, self._terminate),
            (1, self._cancel),
            (2, self._ask_to_cancel),
            (1, self._pause),
            (2, self._unpause),
            (2, self._delete),
        ]
        for _ in range(CLIENTS):
            world.spawn(self._live())

    async def _live(self) -> None:
        world, rng = self._world, self._rng
        for namespace in world.namespaces:
            await self._prepare(namespace)
        weights = [weight for weight, _ in self._actions]
        while not world.calm:
            await asyncio.sleep(rng.uniform(0.01, 0.25))
            if not world.works:
                continue
            if rng.random() < READS:
                await self._look()
                continue
            command = rng.choices(self._actions, weights)[0][1]()
            if command is None:
                continue
            if isinstance(command, cmd.SignalRun) and rng.random() < 0.2:
                for _ in range(rng.randrange(2, 6)):  # a burst
                    more = {"payload": world.new_id("s").encode(), "request_id": world.new_id("q")}
                    world.spawn(world.calls.insist(dataclasses.replace(command, **more)))
            answer = await world.calls.insist(command)
            if isinstance(command, cmd.StartRun) and isinstance(answer, Started):
                self._runs.append((command.namespace, command.workflow_id, answer.run_id))
            if rng.random() < 0.05:
                world.spawn(world.calls.insist(command))  # the same request, once more

    async def _prepare(self, namespace: str) -> None:
        world = self._world
        if namespace != "default":
            create = cmd.CreateNamespace(
                namespace=namespace, retention_ms=2_500, request_id=f"create {namespace}"
            )
            await world.calls.insist(create)
        types = cmd.RegisterTypes(namespace=namespace, workflow_types=TYPES)
        await world.calls.insist(types)

    def _request(self) -> str:
        return self._world.new_id("q")

    def _target(self) -> tuple[str, str, str] | None:
        """A run, mostly by its workflow id alone; half of the time a recent one."""
        rng = self._rng
        if not self._runs:
            return None
        runs = self._runs[-6:] if rng.random() < 0.6 else self._runs
        namespace, workflow_id, run_id = rng.choice(runs)
        return namespace, workflow_id, run_id if rng.random() < 0.3 else ""

    # ---- reads -----------------------------------------------------------------------------------

    async def _look(self) -> None:
        """One read of one run, on any node."""
        world, rng = self._world, self._rng
        node = world.any_node()
        if node is None or not self._runs:
            return
        key = RunKey(*rng.choice(self._runs[-6:] if rng.random() < 0.6 else self._runs))
        try:
            if rng.random() < 0.5:
                await self._describe(node, key)
            elif rng.random() < 0.8:
                await self._history(node, key)
            else:
                await self._list(node, key.namespace)
        except Failed as failed:
            require(
                not failed.reason or failed.reason in AGAIN,
                "reads are answered",
                run=key,
                error=failed,
            )

    async def _describe(self, node: FlowNode, key: RunKey) -> None:
        checks, calls = self._world.flow_checks, self._world.calls
        sight = checks.sight(key)
        try:
            length = await calls.describe(node, key)
        except Failed as failed:
            if failed.reason != "WORKFLOW_NOT_FOUND":
                raise
            length = None
        checks.on_read(key, sight, length)

    async def _history(self, node: FlowNode, key: RunKey) -> None:
        checks, calls = self._world.flow_checks, self._world.calls
        sight, first = checks.sight(key), self._rng.choice((1, 1, 4))
        try:
            length, events = await calls.history(node, key, first)
        except Failed as failed:
            if failed.reason != "WORKFLOW_NOT_FOUND":
                raise
            checks.on_read(key, sight, None)
        else:
            checks.on_read(key, sight, length)
            checks.on_history(key, first, events)

    async def _list(self, node: FlowNode, namespace: str) -> None:
        """A list is from the node's own store: it may be behind, but knows no other runs."""
        checks = self._world.flow_checks
        for key, length in await self._world.calls.list_runs(node, namespace):
            checks.on_read(key, -1, length)

    # ---- commands --------------------------------------------------------------------------------

    def _start(self) -> cmd.Command:
        world, rng = self._world, self._rng
        command = cmd.StartRun(
            namespace=rng.choice(world.namespaces),
            workflow_id=f"w{rng.randrange(IDS)}"
            if rng.random() < 0.9
            else f"kid{rng.randrange(9)}",
            run_id=world.new_id("r"),
            workflow_type="Order",
            task_queue="default",
            input=program(rng),
            execution_timeout_ms=rng.choice((0, 0, 0, 6_000)),
            id_reuse_policy=rng.choice(
                (cmd.IdReusePolicy.ALLOW_DUPLICATE, *tuple(cmd.IdReusePolicy))
            ),
            id_conflict_policy=rng.choice(tuple(cmd.IdConflictPolicy)),
            request_id=self._request(),
            memo=rng.choice(("", '{"a":1}')),
            search_attributes=rng.choice(((), (("stage", '"new"'),))),
        )
        if rng.random() < 0.25:
            more = {
                "signal_name": rng.choice(SIGNALS),
                "signal_payload": world.new_id("s").encode(),
            }
            return dataclasses.replace(command, **more)
        return command

    def _signal(self) -> cmd.Command | None:
        target = self._target()
        if target is None:
            return None
        return cmd.SignalRun(
            namespace=target[0],
            workflow_id=target[1],
            run_id=target[2],
            name=self._rng.choice(SIGNALS),
            payload=self._world.new_id("s").encode(),
            request_id=self._request(),
        )

    def _told(
        self, kind: type[cmd.TerminateRun | cmd.CancelRun | cmd.PauseRun]
    ) -> cmd.Command | None:
        target = self._target()
        if target is None:
            return None
        return kind(
            namespace=target[0],
            workflow_id=target[1],
            run_id=target[2],
            reason="enough",
            request_id=self._rng.choice(("", self._request())),
        )

    def _terminate(self) -> cmd.Command | None:
        return self._told(cmd.TerminateRun)

    def _cancel(self) -> cmd.Command | None:
        return self._told(cmd.CancelRun)

    def _ask_to_cancel(self) -> cmd.Command | None:
        command = self._told(cmd.CancelRun)
        assert command is None or isinstance(command, cmd.CancelRun)
        return command and dataclasses.replace(command, graceful=True)

    def _pause(self) -> cmd.Command | None:
        return self._told(cmd.PauseRun)

    def _unpause(self) -> cmd.Command | None:
        target = self._target()
        if target is None:
            return None
        return cmd.UnpauseRun(
            namespace=target[0], workflow_id=target[1], run_id=target[2], request_id=""
        )

    def _delete(self) -> cmd.Command | None:
        target = self._target()
        if target is None:
            return None
        return cmd.DeleteRun(
            namespace=target[0],
            workflow_id=target[1],
            run_id=target[2],
            request_id=self._rng.choice(("", self._request())),
        )
