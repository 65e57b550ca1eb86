"""Workers: they take their time, die with their tasks, answer late, twice, on another node, and
sometimes nonsense. In peace they do what they are told."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from raftflow.cluster.dispatch import ACTIVITY, DECISION
from raftflow.cluster.errors import LeaseLost
from raftflow.engine import commands as cmd
from raftflow.engine.describe import ActivityTask, DecisionTask, decision_task
from raftflow.engine.ids import parse_token
from raftflow.engine.rejections import Answer, Done
from tests.sim.checkers import Violation
from tests.sim.flow.calls import Failed
from tests.sim.flow.programs import Nondeterminism, Replay

if TYPE_CHECKING:
    from tests.sim.flow.node import FlowNode
    from tests.sim.flow.world import FlowWorld

DECIDERS = 6
DOERS = 9
POLL_MS = 900
QUEUE = "default"


class Workers:
    def __init__(self, world: FlowWorld) -> None:
        self._world = world
        self._rng = world.rng
        self._old: list[cmd.CompleteDecision | cmd.CompleteActivity] = []
        for number in range(DECIDERS):
            world.spawn(self._work(f"decider{number}", DECISION, _its(world.namespaces, number)))
        for number in range(DOERS):
            world.spawn(self._work(f"doer{number}", ACTIVITY, _its(world.namespaces, number)))

    async def _work(self, worker: str, kind: Any, namespace: str) -> None:
        world, rng = self._world, self._rng
        while True:
            node = world.any_node()
            if node is None:
                await asyncio.sleep(0.05)
                continue
            poll = partial(self._poll, kind=kind, namespace=namespace, worker=worker)
            try:
                task = await world.calls.ask(node, poll, timeout_s=1.5)
            except Failed:
                await asyncio.sleep(rng.uniform(0.01, 0.1))
                continue
            if isinstance(task, DecisionTask):
                await self._decide(task, worker)
            elif isinstance(task, ActivityTask):
                await self._do(task, worker)

    def _poll(self, node: FlowNode, *, kind: Any, namespace: str, worker: str) -> Any:
        dispatch = node.dispatch
        poll = dispatch.poll_decision if kind == DECISION else dispatch.poll_activity
        return poll(namespace, QUEUE, (), worker, timeout_ms=POLL_MS)

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
            eager=self._eager(worker, 2),
        )
        if not self._calm and rng.random() < 0.06:
            command = self._nonsense(command)
        await self._answer(command, worker)

    def _nonsense(self, command: cmd.CompleteDecision) -> cmd.CompleteDecision:
        rng, old = self._rng, [each for each in self._old if hasattr(each, "task_token")]
        fields: dict[str, Any] = {"commands": (), "eager": None}
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

    def _eager(self, worker: str, limit: int) -> cmd.EagerPoll | None:
        rng = self._rng
        if rng.random() > 0.25:
            return None
        nonce = self._world.new_id("e")
        return cmd.EagerPoll(
            node=rng.choice(self._world.names),
            poll_id=f"eager.{nonce}",
            nonce=nonce,
            worker_id=worker,
            names=(),
            task_queue=QUEUE,
            duration_ms=self._world.lease_ms,
            limit=limit,
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
            eager=self._eager(worker, 1),
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
            beat = partial(_beat, task=task, worker=worker, details=details)
            try:
                await world.calls.ask(node, beat, timeout_s=1.0)
            except Failed as failure:
                if isinstance(failure.cause, LeaseLost) and rng.random() < 0.5:
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
        answer = await world.calls.insist(command)
        if rng.random() < 0.05:
            world.spawn(world.calls.insist(command))  # again, much later than needed
        if isinstance(answer, Done) and answer.handed:
            await self._take_along(command, answer, worker)

    async def _take_along(
        self,
        command: cmd.CompleteDecision | cmd.CompleteActivity,
        answer: Answer,
        worker: str,
    ) -> None:
        """An eager answer: the decision is worked on, activities are left to their leases half of
        the time."""
        world, rng = self._world, self._rng
        assert isinstance(answer, Done)
        node = world.any_node()
        if node is None or rng.random() < 0.3:
            return
        for token in answer.handed:
            if isinstance(command, cmd.CompleteDecision):
                done = cmd.CompleteActivity(
                    namespace=command.namespace,
                    workflow_id=command.workflow_id,
                    step_name="",
                    sequence=0,
                    lease_token=token,
                    failed=False,
                    output=world.new_id("o").encode(),
                )
                await world.calls.insist(done)
                continue
            try:
                show = partial(_handed, command=command, token=token)
                task = await world.calls.ask(node, show, timeout_s=1.5)
            except Failed:
                return
            if task is not None:
                await self._decide(task, worker)


def _its(namespaces: list[str], number: int) -> str:
    """One in three works for the last namespace."""
    return namespaces[-1 if number % 3 == 2 else 0]


def _beat(node: FlowNode, *, task: ActivityTask, worker: str, details: bytes | None) -> Any:
    return node.dispatch.heartbeat(task.namespace, task.workflow_id, task.token, worker, details)


async def _handed(
    node: FlowNode, *, command: cmd.CompleteDecision | cmd.CompleteActivity, token: str
) -> DecisionTask | None:
    """What the node shows of a task that an answer brought along."""
    await node.reads.linearizable()
    parts = parse_token(token)
    assert parts is not None
    run = await node.replica.run_view(command.namespace, command.workflow_id, parts.run_id)
    if run is None or run.decision.token != token:
        return None
    return decision_task(run, node.world.limits)
