"""Collects the facts: from this node, the leader, and the others as far as they answer. All the
I/O of `why` is here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from raftflow.cluster.api.handlers import cluster
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.asking import Untold
from raftflow.cluster.codec.events import decode_event
from raftflow.cluster.errors import HistoryDamaged, Unavailable
from raftflow.cluster.leader_facts import LeaseFacts, NamesWanted
from raftflow.cluster.store.records import unframe
from raftflow.cluster.why.ended import failing_step
from raftflow.cluster.why.facts import ClusterFacts, QueueFacts, RunFacts, TaskFacts
from raftflow.cluster.why.run import chosen_wait
from raftflow.cluster.why.task import asked_step
from raftflow.cluster.work_facts import ACTIVITY, WORKFLOW, Wanted
from raftflow.engine.events import StepFailed
from raftflow.engine.state import Run, RunStatus, Step, StepKind, StepStatus, TaskState

# Who asks why does not want to wait for a leader that is not there.
_CONFIRMED_WITHIN_S = 1.5
# A chain of children is followed so far, and an id looked for in so many namespaces.
_MOST_CHILDREN = 16
_MOST_NAMESPACES = 100

# Which step of a run to look into, when its workflow task is not what matters.
Choose = Callable[[Run], Step | None]


async def cluster_facts(node: NodeServices) -> ClusterFacts:
    # The reports of those that take their time are there when the page is made of them.
    _, told = await asyncio.gather(node.peer_reports.all(), node.told_by_all())
    state = await cluster.describe(node)
    return ClusterFacts(
        node=state["node"],
        leader=state["leader"],
        term=state["term"],
        nodes=state["nodes"],
        elections=state["elections"],
        told=told,
        now_ms=node.clock.wall_ms(),
        election_max_ms=node.config.election_max_ms,
        configuration_index=state["configuration_index"],
        feature_level=state["feature_level"],
    )


async def run_facts(
    node: NodeServices,
    namespace: str,
    workflow_id: str,
    run_id: str,
    *,
    visible: frozenset[str],
    choose: Choose | None = None,
) -> RunFacts:
    """``visible``: the namespaces that the asker may see, none being all."""
    leaderless = await _unconfirmed(node)
    asked = _Asked(node, visible, leaderless)
    return await asked.run(namespace, workflow_id, run_id, choose or _first_choice)


def choose_step(asked: str) -> Choose:
    return lambda run: asked_step(run, asked)


async def queue_facts(
    node: NodeServices, namespace: str, queue: str, *, visible: frozenset[str]
) -> QueueFacts:
    leaderless = await _unconfirmed(node)
    work, around, refused = await asyncio.gather(
        node.pollers.work(Wanted(frozenset({namespace}), queue)),
        node.pollers.work(Wanted(visible)),
        node.refused.find(namespace, ""),
    )
    waiting: dict[str, Mapping[str, int]] = {}
    untold = ""
    for kind in (ACTIVITY, WORKFLOW):
        wanted = NamesWanted(activities=kind == ACTIVITY, namespace=namespace, queue=queue)
        try:
            waiting[kind] = await node.leader_facts.names(wanted)
        except Untold as error:
            untold = str(error)
    return QueueFacts(
        namespace=namespace,
        queue=queue,
        now_ms=_now_ms(node),
        work=work,
        around=around,
        waiting=waiting,
        untold=untold,
        refused=refused,
        hosted=node.hosted_types,
        leaderless=leaderless,
    )


async def _unconfirmed(node: NodeServices) -> ClusterFacts | None:
    """None when a majority confirms that this node has all that was acknowledged."""
    try:
        async with asyncio.timeout(_CONFIRMED_WITHIN_S):
            await node.reads.linearizable()
    except (TimeoutError, Unavailable):
        return await cluster_facts(node)
    return None


def _now_ms(node: NodeServices) -> int:
    """Log time; while the log stands still, what the clocks of the voters say."""
    return max(node.replica.time_ms, node.clock.wall_ms() - round(node.clock.skew_ms()))


def _first_choice(run: Run) -> Step | None:
    if not run.open:
        return failing_step(run)
    sequence = chosen_wait(run)
    return run.steps[sequence - 1] if sequence else None


class _Asked:
    """One question, which may lead from a run to its children."""

    def __init__(
        self, node: NodeServices, visible: frozenset[str], leaderless: ClusterFacts | None
    ) -> None:
        self._node = node
        self._visible = visible
        self._leaderless = leaderless
        self._children = 0

    async def run(self, namespace: str, workflow_id: str, run_id: str, choose: Choose) -> RunFacts:
        node = self._node
        facts = RunFacts(
            namespace=namespace,
            workflow_id=workflow_id,
            run_id=run_id,
            now_ms=_now_ms(node),
            leaderless=self._leaderless,
        )
        try:
            found = await node.replica.run_view(namespace, workflow_id, run_id)
        except HistoryDamaged as error:
            return replace(facts, damage=error.message)
        # What the log moves on while others are asked must not change the picture.
        run = None if found is None else _copy(found)
        refused = await node.refused.find(namespace, workflow_id)
        if run is None:
            elsewhere = await self._elsewhere(namespace, workflow_id)
            return replace(facts, refused=refused, elsewhere=elsewhere)
        step = choose(run)
        facts = replace(facts, run=run, step=step, refused=refused)
        if _has_task(run, step):
            return replace(facts, task=await self._task(facts, run, step))
        if step is None:
            return facts
        if step.kind is StepKind.CHILD:
            facts = replace(facts, child=await self._child(run, step))
        if step.status is StepStatus.FAILED:
            facts = replace(facts, failed_at=await self._failed_at(run, step))
        return facts

    async def _task(self, facts: RunFacts, run: Run, step: Step | None) -> TaskFacts:
        node, namespace = self._node, run.key.namespace
        queue, task = (
            (run.task_queue, run.decision) if step is None else (step.task_queue, step.task)
        )
        lease: LeaseFacts | None = None
        untold = ""
        if task.state is TaskState.LEASED:
            try:
                lease = await node.leader_facts.lease(task.token)
            except Untold as error:
                untold = str(error)
        work, around = await asyncio.gather(
            node.pollers.work(Wanted(frozenset({namespace}), queue)),
            node.pollers.work(Wanted(self._visible)),
        )
        return TaskFacts(
            run=run,
            step=step,
            now_ms=facts.now_ms,
            work=work,
            around=around,
            lease=lease,
            lease_untold=untold,
            refused=facts.refused,
            hosted=node.hosted_types,
        )

    async def _child(self, parent: Run, step: Step) -> RunFacts | None:
        """The run that the step waits for, or that failed it: a chain goes on under other run
        ids, and the newest is meant while it is of that step."""
        self._children += 1
        if self._children > _MOST_CHILDREN or not step.run_id:
            return None
        namespace, key = parent.key.namespace, parent.key
        facts = await self.run(namespace, step.workflow_id, "", _first_choice)
        run = facts.run
        if run is not None and (run.parent_run_id, run.parent_sequence) != (
            key.run_id,
            step.sequence,
        ):
            return await self.run(namespace, step.workflow_id, step.run_id, _first_choice)
        return facts

    async def _failed_at(self, run: Run, step: Step) -> dict[str, str]:
        """Worker and node of the last attempt: the history has them, the step does not."""
        node = self._node
        await node.replica.written(node.replica.applied_index)
        try:
            records = await node.store.events(run.key, start=step.resolved_event_id, limit=1)
        except HistoryDamaged:
            return {}
        body = decode_event(unframe(records[0])).body if records else None
        if not isinstance(body, StepFailed):
            return {}
        said = {"worker": body.worker_id, "node": body.node}
        return {name: value for name, value in said.items() if value}

    async def _elsewhere(self, namespace: str, workflow_id: str) -> tuple[str, ...]:
        """Other namespaces that have this id."""
        catalog = self._node.replica.catalog.namespaces
        others = sorted(
            each
            for each in catalog
            if each != namespace and (not self._visible or each in self._visible)
        )
        found = []
        for each in others[:_MOST_NAMESPACES]:
            try:
                if await self._node.replica.run_view(each, workflow_id) is not None:
                    found.append(each)
            except HistoryDamaged:
                found.append(each)
        return tuple(found)


def _has_task(run: Run, step: Step | None) -> bool:
    if not run.open:
        return False
    if step is None:
        standing = run.status in (RunStatus.PAUSED, RunStatus.UNKNOWN)
        return not standing and run.decision.state is not TaskState.NONE
    return step.kind is StepKind.ACTIVITY and step.task.state is not TaskState.NONE


def _copy(run: Run) -> Run:
    """Steps that are done change no more, and are shared."""
    steps = [
        replace(step, task=replace(step.task)) if step.status is StepStatus.SCHEDULED else step
        for step in run.steps
    ]
    return replace(
        run,
        decision=replace(run.decision),
        steps=steps,
        signals=dict(run.signals),
        arrivals=dict(run.arrivals),
        outbox=dict(run.outbox),
    )
