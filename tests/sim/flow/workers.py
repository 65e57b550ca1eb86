"""Workers: they take their time, die with their tasks, answer late, twice, on another node, and
sometimes nonsense. In peace they do what they are told."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from raftflow.cluster.dispatch import ACTIVITY, DECISION, Poll
from raftflow.engine import commands as cmd
from raftflow.engine.describe import ActivityTask, DecisionTask
from tests.sim.checkers import Violation
from tests.sim.flow.calls import Failed
from tests.sim.flow.programs import Nondeterminism, Replay
from tests.sim.flow.speech import Task
from tests.sim.flow.streams import StreamWorker

if TYPE_CHECKING:
    from tests.sim.flow.world import FlowWorld

DECIDERS = 5
DOERS = 8
QUEUE = "default"


class Workers:
    def __init__(self, world: FlowWorld) -> None:
        self._world = world
        self._rng = random.Random(f"workers of {world.seed}")
        self._old: list[cmd.CompleteDecision | cmd.CompleteActivity] = []
        for number in range(DECIDERS):
            world.spawn(self._work(f"decider{number}", DECISION, _its(world.namespaces, number)))
        for number in range(DOERS):
            world.spawn(self._work(f"doer{number}", ACTIVITY, _its(world.namespaces, number)))
        self._streams = {
            name: StreamWorker(
                world, name, kind, namespace=world.namespaces[0], work_on=self._work_on
            )
            for name, kind in (("stream.decider", DECISION), ("stream.doer", ACTIVITY))
        }
        for streamer in self._streams.values():
            world.spawn(streamer.live())

    async def _work(self, worker: str, kind: Any, namespace: str) -> None:
        """A poll that had no answer is asked again by its name, on any node."""
        world, rng = self._world, self._rng
        request_id = world.new_id("p")
        while True:
            node = world.any_node()
            if node is None:
                await asyncio.sleep(0.05)
                continue
            asked = Poll(
                namespace=namespace,
                task_queue=QUEUE,
                names=(),
                worker_id=worker,
                request_id=rng.choice((request_id, request_id, "")),
                most=rng.choice((1, 1, 3)),
            )
            try:
                tasks = await world.calls.poll(node, kind, asked)
            except Failed:
                await asyncio.sleep(rng.uniform(0.01, 0.1))
                continue
            request_id = world.new_id("p")
            await self._work_on(tasks, worker)

    async def _work_on(self, tasks: list[Task], worker: str) -> None:
        """The first here, others beside it."""
        for task in tasks[1:]:
            self._world.spawn(self._work_on([task], worker))
        for task in tasks[:1]:
            if isinstance(task, DecisionTask):
                await self._decide(task, worker)
            else:
                await self._do(task, worker)

    @property
    def _calm(self) -> bool:
        return self._world.calm

    # ---- workflow tasks --------------------------------------------------------------------------

    async def _decide(self, task: DecisionTask, worker: str) -> None:
        world, rng = self._world, self._rng
        if not self._calm:
            if rng.random() < 0.03:
                return  # it died
            await asyncio.sleep(rng.choice(world.decision_times_s))
        try:
            commands = Replay(task).run()
        except Nondeterminism as error:
            raise Violation(f"a replay takes the same way: run={task.run_id} {error}") from error
        command = cmd.CompleteDecision(
            namespace=task.namespace,
            workflow_id=task.workflow_id,
            task_token=task.token,
            commands=commands,
            new_run_id=world.new_id("r"),
        )
        if not self._calm and rng.random() < 0.06:
            command = self._nonsense(command)
        await self._answer(command, worker)

    def _nonsense(self, command: cmd.CompleteDecision) -> cmd.CompleteDecision:
        rng, old = self._rng, [each for each in self._old if hasattr(each, "task_token")]
        fields: dict[str, Any] = {"commands": ()}
        match rng.randrange(5 if self._world.parks else 4):
            case 0:
                fields["commands"] = (cmd.StartTimer(step_name="x", sequence=900, delay_ms=1),)
            case 1:
                pass  # nothing: the run is blocked
            case 2:
                fields["unreadable"] = "no worker says that"
            case 3 if old:
                return rng.choice(old)  # type: ignore[return-value]
            case 4:
                fields |= {"replay_error": "other code", "nondeterminism": rng.random() < 0.8}
        return cmd.CompleteDecision(
            namespace=command.namespace,
            workflow_id=command.workflow_id,
            task_token=command.task_token,
            **fields,
        )

    # ---- activities ------------------------------------------------------------------------------

    async def _do(self, task: ActivityTask, worker: str) -> None:
        world, rng = self._world, self._rng
        if not self._calm and rng.random() < 0.04:
            return
        takes_s = rng.choice((0.001, 0.005, 0.02, 0.06, 0.2))
        if not self._calm and rng.random() < 0.15:
            takes_s = rng.uniform(0.3, 3.0)
        if not await self._take_time(task, worker, takes_s):
            return
        failed = rng.random() < (0.05 if self._calm else 0.2)
        command = cmd.CompleteActivity(
            namespace=task.namespace,
            workflow_id=task.workflow_id,
            step_name=rng.choice(("", task.step_name)),
            sequence=0,
            lease_token=task.token,
            failed=failed,
            output=b"" if failed else world.new_id("o").encode(),
            error="it broke" if failed else "",
            error_type=rng.choice(("", "", "Fatal")) if failed else "",
        )
        await self._answer(command, worker)

    async def _take_time(self, task: ActivityTask, worker: str, takes_s: float) -> bool:
        """Work, and beat meanwhile; False when told that nobody wants it any more. One in two does
        not listen."""
        world, rng = self._world, self._rng
        beats = rng.random() < 0.6
        pause_s = world.lease_ms / 3_000
        while takes_s > pause_s:
            await asyncio.sleep(pause_s)
            takes_s -= pause_s
            node = world.any_node()
            if not beats or node is None:
                continue
            details = rng.choice((None, b"%d" % int(takes_s * 100)))
            try:
                await world.calls.beat(node, task, worker, details)
            except Failed as failure:
                if failure.reason == "LEASE_LOST" and rng.random() < 0.5:
                    return False
        await asyncio.sleep(takes_s)
        return True

    # ---- answers ---------------------------------------------------------------------------------

    async def _answer(
        self, command: cmd.CompleteDecision | cmd.CompleteActivity, worker: str
    ) -> None:
        world, rng = self._world, self._rng
        self._old = [*self._old[-20:], command]
        if not self._calm and rng.random() < 0.08:
            world.spawn(world.calls.insist(command))  # the same at once, from elsewhere
        if worker in self._streams and rng.random() < 0.8:
            await self._streams[worker].complete(command)
        if rng.random() < 0.25:
            await self._answer_and_take(command, worker)
        else:
            await world.calls.insist(command)
        if rng.random() < 0.05:
            world.spawn(world.calls.insist(command))  # again, much later than needed

    async def _answer_and_take(
        self, command: cmd.CompleteDecision | cmd.CompleteActivity, worker: str
    ) -> None:
        """What the answer brings along is worked on. When there is none, the command is sent again
        without asking for more."""
        world, rng = self._world, self._rng
        node = world.any_node()
        if node is not None:
            poll = Poll(
                namespace=command.namespace,
                task_queue=QUEUE,
                names=(),
                worker_id=worker,
                request_id=rng.choice(("", world.new_id("p"))),
                most=rng.choice((1, 2)),
            )
            try:
                tasks = await world.calls.complete(node, command, poll)
            except Failed:
                pass
            else:
                await self._work_on(tasks, worker)
        await world.calls.insist(command)


def _its(namespaces: list[str], number: int) -> str:
    """One in three works for the last namespace."""
    return namespaces[-1 if number % 3 == 2 else 0]
