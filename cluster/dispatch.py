"""Polls park on the node they reached; the leader grants tasks to them through the log.

A parked poll is announced to the leader. The grant names node and poll, and every node applies it:
the one named hands the task over from its own replica: all that one entry brings, at once. When
the poll has gone meanwhile, the task goes back at once, so that none sits out a lease because a
reply was lost.

An eager poll is not announced: it travels in the completion of its caller's task, and what it is
granted comes in the entry of that completion.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from raftflow.cluster.consensus.channel import PeerChannel, PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.types import Role
from raftflow.cluster.errors import LeaseLost, Overloaded, Unavailable
from raftflow.cluster.forwarding import Forwarder, LeaderWatch
from raftflow.cluster.nonces import nonce_for
from raftflow.cluster.progress import Progress
from raftflow.cluster.replica import Replica
from raftflow.cluster.workers import Workers
from raftflow.engine.apply import Applied
from raftflow.engine.commands import Batch, EagerPoll, RecordHeartbeat, ReturnTask
from raftflow.engine.describe import ActivityTask, DecisionTask, activity_task, decision_task
from raftflow.engine.effects import DeliverTask
from raftflow.engine.limits import Limits
from raftflow.proto.raftflow.internal.v1 import node_pb2

log = structlog.get_logger("raftflow.dispatch")

DEMAND_METHOD = "demand"
HEARTBEAT_METHOD = "heartbeat"

# A node further behind asks for no work: a copy of the state could take it past a grant, whose task
# would then sit out its lease.
MOST_BEHIND = 1_000
_BEHIND_PAUSE_S = 0.1
# A completion is answered without its eager tasks when this node learns of them later than that.
_EAGER_WAIT_S = 1.0
# How long a node that stops waits for the tasks that it gives back.
_DRAIN_S = 2.0

Delivered = dict[str, list[DeliverTask]]  # by poll

DECISION = node_pb2.Poll.KIND_DECISION
ACTIVITY = node_pb2.Poll.KIND_ACTIVITY


class DemandSink(Protocol):
    """The leader's matching, when it is in this process."""

    def on_demand(self, node: str, demand: node_pb2.Demand) -> None: ...

    async def on_heartbeat(self, request: node_pb2.HeartbeatRequest) -> node_pb2.HeartbeatReply: ...


Task = DecisionTask | ActivityTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """Who asks for which work. Empty ``names`` means any. The same ``request_id`` again, on any
    node, says that the first poll had no answer."""

    namespace: str
    task_queue: str
    names: tuple[str, ...]
    worker_id: str
    request_id: str = ""
    most: int = 1


@dataclass(slots=True)
class _Parked:
    poll: node_pb2.Poll
    future: asyncio.Future[list[Task]]


class Dispatch:
    """Parks polls, announces them, and hands over what was granted to them."""

    def __init__(
        self,
        *,
        consensus: Consensus,
        replica: Replica,
        forwarder: Forwarder,
        watch: LeaderWatch,
        sink: DemandSink,
        node_id: str,
        limits: Limits,
        leader_wait_ms: int,
        lease_ms: int,
        decision_timeout_ms: int,
    ) -> None:
        self._consensus = consensus
        self._channel: PeerChannel = consensus.channel
        self._replica = replica
        self._forwarder = forwarder
        self._watch = watch
        self._sink = sink
        self._node_id = node_id
        self._limits = limits
        self._leader_wait = leader_wait_ms / 1_000
        self._lease_ms = lease_ms
        self._decision_ms = decision_timeout_ms
        # Names this process's polls: grants to those of a former life are replayed at start.
        self._life = secrets.token_hex(6)
        self._polls = 0
        self._parked: dict[str, _Parked] = {}
        self._eager: dict[str, _Parked] = {}
        self._added: dict[str, node_pb2.Poll] = {}
        self._withdrawn: list[str] = []
        self._announce_scheduled = False
        self._announced_to: str | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._progress = Progress(forwarder.execute)
        self.workers = Workers(node_id)

    def parked(self, kind: int) -> int:
        """How many polls of this kind wait here."""
        return sum(1 for parked in self._parked.values() if parked.poll.kind == kind)

    async def poll_decision(self, poll: Poll, *, timeout_ms: int) -> list[Task]:
        """Wait for workflow tasks: up to ``poll.most`` of its types, none when none came."""
        return await self._park(self._named(DECISION, poll), timeout_ms)

    async def poll_activity(self, poll: Poll, *, timeout_ms: int) -> list[Task]:
        """Wait for activity tasks."""
        return await self._park(self._named(ACTIVITY, poll), timeout_ms)

    async def eager_decision(
        self, poll: Poll, complete: Callable[[EagerPoll], Awaitable[tuple[str, ...]]]
    ) -> list[Task]:
        """Complete a task and take what that queues. ``complete`` executes the command with the
        eager poll it is given, and returns the tokens that were handed to it."""
        return await self._take(self._named(DECISION, poll), self._decision_ms, complete)

    async def eager_activity(
        self, poll: Poll, complete: Callable[[EagerPoll], Awaitable[tuple[str, ...]]]
    ) -> list[Task]:
        return await self._take(self._named(ACTIVITY, poll), self._lease_ms, complete)

    def return_task(self, namespace: str, workflow_id: str, token: str) -> None:
        """Give back a task that could not be handed over; it counts no attempt."""
        command = ReturnTask(namespace=namespace, workflow_id=workflow_id, token=token)
        self._beside(self._return(command), name="return-task")

    async def heartbeat(
        self,
        namespace: str,
        workflow_id: str,
        lease_token: str,
        worker_id: str,
        details: bytes | None,
    ) -> None:
        """Extend a lease. Raises LeaseLost, or Unavailable after the leader wait."""
        self.workers.beat(namespace, worker_id)
        request = node_pb2.HeartbeatRequest(
            namespace=namespace,
            workflow_id=workflow_id,
            lease_token=lease_token,
            worker_id=worker_id,
        )
        deadline = asyncio.get_running_loop().time() + self._leader_wait
        reply = await self._beat(request, deadline)
        if not reply.held:
            raise LeaseLost(reply.message, cancelled=reply.cancelled)
        if details is not None:
            await self._progress.report(
                RecordHeartbeat(
                    namespace=namespace,
                    workflow_id=workflow_id,
                    lease_token=lease_token,
                    details=details,
                )
            )

    async def settle(self, lease_token: str) -> None:
        """The attempt has failed: what it last said of its progress is for the next one."""
        await self._progress.settle(lease_token)

    async def drain(self) -> None:
        """The polls have ended; what was on its way to them goes back before the node does, and no
        task sits out its lease for it."""
        deadline = asyncio.get_running_loop().time() + _DRAIN_S
        while self._background and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(self._background, timeout=left)
        if self._background:
            log.warning("tasks_not_given_back", tasks=len(self._background))

    # ---- what reaches us from apply and from elections ----------------------------------------

    def on_applied(self, applied: Applied, _batch: Batch) -> None:
        delivered: Delivered = {}
        for effect in applied.effects:
            if isinstance(effect, DeliverTask) and effect.node == self._node_id:
                delivered.setdefault(effect.poll_id, []).append(effect)
        if not delivered:
            return
        heard = self._consensus.heard_commit_index
        if self._replica.applied_index < heard and self._consensus.role is not Role.LEADER:
            # Catching up. What follows may take the grant back, since nobody could know that it
            # would arrive; whoever has a task handed over twice runs it twice.
            self._beside(self._deliver_settled(heard, delivered), name="deliver-settled")
        else:
            self._deliver_all(delivered)

    def on_role(self, _role: Role, _term: int, _leader: str | None) -> None:
        """Who begins to lead knows no demand, also when it has led before: announce all of it."""
        self._announced_to = None
        self._schedule_announcement()

    def on_peer_up(self, peer: str) -> None:
        if peer == self._consensus.leader:
            self._announced_to = None
            self._schedule_announcement()

    # ---- parking ------------------------------------------------------------------------------

    def _named(self, kind: node_pb2.Poll.Kind, poll: Poll) -> node_pb2.Poll:
        self._polls += 1
        return node_pb2.Poll(
            poll_id=f"{self._life}.{self._polls}",
            kind=kind,
            namespace=poll.namespace,
            task_queue=poll.task_queue,
            names=poll.names,
            worker_id=poll.worker_id,
            request_id=poll.request_id,
            max=poll.most,
        )

    async def _park(self, poll: node_pb2.Poll, timeout_ms: int) -> list[Task]:
        future: asyncio.Future[list[Task]] = asyncio.get_running_loop().create_future()
        self._parked[poll.poll_id] = _Parked(poll, future)
        self._added[poll.poll_id] = poll
        self.workers.parked(poll)
        self._schedule_announcement()
        try:
            await asyncio.wait({future}, timeout=timeout_ms / 1_000)
        except asyncio.CancelledError:
            self._give_back(future)
            raise
        finally:
            self._unpark(poll.poll_id)
        return future.result() if future.done() else []

    async def _take(
        self,
        poll: node_pb2.Poll,
        duration_ms: int,
        complete: Callable[[EagerPoll], Awaitable[tuple[str, ...]]],
    ) -> list[Task]:
        eager = EagerPoll(
            node=self._node_id,
            poll_id=poll.poll_id,
            nonce=nonce_for(poll),
            worker_id=poll.worker_id,
            names=tuple(poll.names),
            task_queue=poll.task_queue,
            duration_ms=duration_ms,
            limit=0 if self._is_far_behind() else poll.max,
        )
        future: asyncio.Future[list[Task]] = asyncio.get_running_loop().create_future()
        self._eager[poll.poll_id] = _Parked(poll, future)
        try:
            if await complete(eager):
                await asyncio.wait({future}, timeout=_EAGER_WAIT_S)
        except BaseException:
            self._give_back(future)
            raise
        finally:
            # What comes later goes back.
            del self._eager[poll.poll_id]
        return future.result() if future.done() else []

    def _is_far_behind(self) -> bool:
        return self._consensus.heard_commit_index - self._replica.applied_index > MOST_BEHIND

    def _give_back(self, future: asyncio.Future[list[Task]]) -> None:
        """The caller has gone with its tasks in hand."""
        for task in future.result() if future.done() else ():
            self.return_task(task.namespace, task.workflow_id, task.token)

    def _unpark(self, poll_id: str) -> None:
        parked = self._parked.pop(poll_id, None)
        if parked is None:
            return
        self.workers.left(parked.poll)
        if self._added.pop(poll_id, None) is None and not parked.future.done():
            self._withdrawn.append(poll_id)
            self._schedule_announcement()

    def _beside(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _deliver_settled(self, index: int, delivered: Delivered) -> None:
        """Hand over what is still granted once all that was known to be committed is applied."""
        try:
            await self._replica.wait_applied(index, timeout_ms=self._lease_ms)
        except TimeoutError:
            return  # Their leases and deadlines have run out.
        self._deliver_all(delivered)

    def _deliver_all(self, delivered: Delivered) -> None:
        for poll_id, effects in delivered.items():
            self._deliver(poll_id, effects)

    def _deliver(self, poll_id: str, effects: list[DeliverTask]) -> None:
        if not poll_id.startswith(self._life):
            # Its worker may be at work: only the end of the lease may take the task away.
            return
        parked = self._parked.get(poll_id) or self._eager.get(poll_id)
        if parked is None or parked.future.done():
            for effect in effects:
                self.return_task(effect.run.namespace, effect.run.workflow_id, effect.token)
            return
        found = [task for effect in effects if (task := self._task(effect)) is not None]
        if found or poll_id in self._eager:
            parked.future.set_result(found)
            return
        # All overtaken within their own entry (a terminate, say): the poll waits for others.
        self._added[poll_id] = parked.poll
        self._schedule_announcement()

    def _task(self, effect: DeliverTask) -> Task | None:
        run = self._replica.hot_run(effect.run)
        if run is None:
            return None
        if effect.sequence == 0:
            held = run.decision.token == effect.token
            return decision_task(run, self._limits) if held else None
        step = run.steps[effect.sequence - 1]
        return activity_task(run, step) if step.task.token == effect.token else None

    async def _return(self, command: ReturnTask) -> None:
        try:
            # An outage may last longer than a caller has patience: until then nobody has the task.
            await self._forwarder.execute(command, deadline_ms=self._lease_ms)
        except (Unavailable, Overloaded) as error:
            # Its lease or deadline brings it back.
            log.warning("task_return_failed", workflow_id=command.workflow_id, error=str(error))

    # ---- announcing ---------------------------------------------------------------------------

    def _schedule_announcement(self) -> None:
        if not self._announce_scheduled:
            self._announce_scheduled = True
            asyncio.get_running_loop().call_soon(self._announce)

    def _announce(self) -> None:
        self._announce_scheduled = False
        leader = self._consensus.leader
        if leader is None:
            return
        if self._is_far_behind():
            self._announce_scheduled = True
            asyncio.get_running_loop().call_later(_BEHIND_PAUSE_S, self._announce)
            return
        reset = leader != self._announced_to
        demand = node_pb2.Demand(
            reset=reset,
            parked=(
                [p.poll for p in self._parked.values() if not p.future.done()]
                if reset
                else self._added.values()
            ),
            withdrawn=() if reset else self._withdrawn,
        )
        if leader == self._node_id:
            self._sink.on_demand(self._node_id, demand)
        elif not self._channel.notify(leader, DEMAND_METHOD, demand.SerializeToString()):
            # Announced anew when the connection is up (on_peer_up).
            self._announced_to = None
            return
        self._announced_to = leader
        self._added.clear()
        self._withdrawn.clear()

    # ---- heartbeats ---------------------------------------------------------------------------

    async def _beat(
        self, request: node_pb2.HeartbeatRequest, deadline: float
    ) -> node_pb2.HeartbeatReply:
        payload = request.SerializeToString()
        loop = asyncio.get_running_loop()
        while loop.time() < deadline:
            leader = self._consensus.leader
            try:
                if self._consensus.role is Role.LEADER:
                    return await self._sink.on_heartbeat(request)
                if leader is not None and leader != self._node_id:
                    answer = await self._watch.call(
                        self._channel, leader, HEARTBEAT_METHOD, payload, deadline
                    )
                    if answer is not None:
                        return node_pb2.HeartbeatReply.FromString(answer)
                    continue
            except (PeerUnavailable, PeerTimeout, PeerError):
                pass
            await asyncio.wait({self._watch.changed()}, timeout=0.05)
        raise Unavailable(
            "no leader took the heartbeat in time; the lease holds until its deadline",
            maybe_applied=False,
        )
