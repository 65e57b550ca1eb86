"""What the leader alone does: offers tasks to polls, fires timers, watches leases.

Nothing here is remembered across elections. A new leader waits until the store has written the
first entry of its term, reads from it what is queued, leased and armed, and from then on follows
the effects of each batch. Whatever it proposes is checked again at apply, so that reading a little
too much is harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial

import structlog

from raftflow.cluster.background import Fatal, spawn
from raftflow.cluster.clock import LogClock
from raftflow.cluster.codec.commands import decode_command
from raftflow.cluster.consensus.channel import PeerError
from raftflow.cluster.consensus.types import Role
from raftflow.cluster.errors import Unavailable
from raftflow.cluster.leader.foresight import tasks_after
from raftflow.cluster.leader.grants import DutyTimes, Grants, Handing, grant_of
from raftflow.cluster.leader.leases import Holder, Leases
from raftflow.cluster.leader.matching import Match, Matching, QueuedTask, TaskKey
from raftflow.cluster.leader.outbox import Outbox
from raftflow.cluster.leader.retention import Retention
from raftflow.cluster.leader.returns import Network, Returns
from raftflow.cluster.leader.standing import standing
from raftflow.cluster.leader.timers import Timers
from raftflow.cluster.leader_facts import LeaseFacts
from raftflow.cluster.metrics import Metrics
from raftflow.cluster.proposer import Proposer
from raftflow.cluster.reads import Reads
from raftflow.cluster.replica import Replica
from raftflow.cluster.store import Store
from raftflow.cluster.store.views import OpenTask
from raftflow.cluster.work_facts import Leading, Wanted
from raftflow.engine.apply import Applied
from raftflow.engine.commands import (
    Attributed,
    Batch,
    Command,
    ExpireLease,
    FireTimer,
)
from raftflow.engine.describe import lease_fate
from raftflow.engine.effects import (
    ArmTimer,
    DeliverTask,
    DisarmTimer,
    DropLease,
    Effect,
    HoldLease,
    OfferActivity,
    OfferDecision,
    SendMessage,
    WithdrawTask,
)
from raftflow.engine.ids import RunKey, WorkflowKey, parse_token
from raftflow.engine.rejections import Answer
from raftflow.engine.state import Run, TimerRow
from raftflow.proto.raftflow.internal.v1 import node_pb2

log = structlog.get_logger("raftflow.leader")

HORIZON_MS = 60_000
PAGE = 1_000
TICK_MS = 100
FIRE_AT_ONCE = 256


def queued(row: OpenTask) -> QueuedTask:
    """A task that waited when we took over."""
    return QueuedTask(
        row.run, row.sequence, row.attempt, row.name, row.task_queue, row.priority, row.since_ms
    )


class Duties:
    """Follows effects while this node leads; forgets everything when it does not."""

    def __init__(
        self,
        *,
        node_id: str,
        proposer: Proposer,
        reads: Reads,
        replica: Replica,
        store: Store,
        clock: LogClock,
        metrics: Metrics,
        times: DutyTimes,
        network: Network,
        fatal: Fatal,
    ) -> None:
        self._proposer = proposer
        self._reads = reads
        self._replica = replica
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._times = times
        self._fatal = fatal
        self.matching = Matching()
        self.leases = Leases()
        self.timers = Timers()
        self._grants = Grants()
        self.returns = Returns(
            node_id=node_id, proposer=proposer, network=network, leases=self.leases
        )
        self._wakeup = asyncio.Event()
        self.outbox = Outbox(proposer=proposer, store=store)
        self._retention = Retention(
            proposer=proposer,
            store=store,
            replica=replica,
            wake=self._wakeup.set,
            audit_retention_ms=times.audit_retention_ms,
        )
        self._foreseen: set[TaskKey] = set()  # granted before they are queued; not yet applied
        self._term = 0  # the term we lead, 0 when we do not
        self._following = False  # the first entry of our term has been applied
        self._settled = False  # what our predecessor left is known
        self._horizon_ms = 0  # timers due until then are in the heap, 0 before the first load
        self._office: asyncio.Task[None] | None = None

    # ---- elections ------------------------------------------------------------------------------

    def on_role(self, role: Role, term: int, _leader: str | None) -> None:
        if role is Role.LEADER and term == self._term:
            return
        self._leave()
        if role is Role.LEADER:
            self._term = term
            self.returns.take_over()
            self._clock.resume(self._replica.time_ms)

    def _leave(self) -> None:
        self._term = 0
        self._following = False
        self._settled = False
        if self._office is not None:
            self._office.cancel()
            self._office = None
        self.matching.clear()
        self.leases.clear()
        self.timers.clear()
        self._grants.clear()
        self.outbox.clear()
        self._retention.clear()
        self._foreseen.clear()
        self._horizon_ms = 0

    def stop(self) -> None:
        self._leave()

    # ---- apply ----------------------------------------------------------------------------------

    def on_applied(self, applied: Applied, batch: Batch) -> None:
        if not self._term:
            return
        if not self._following:
            if batch.term != self._term:
                self.returns.of_predecessors(batch.index, applied.effects)
                return
            self._following = True
            # Entries of earlier terms are all applied: their stamps bound ours from below.
            self._clock.resume(self._replica.time_ms)
            office = self._hold_office(batch.index)
            self._office = spawn(office, name="leader-duties", fatal=self._fatal)
        offers: dict[TaskKey, QueuedTask] = {}
        for effect in applied.effects:
            self._follow(effect, offers, batch.time_ms)
        # All at once: what one entry queued is shared out among the polls that wait.
        self._grant(self.matching.offer(offers.values()))

    def _follow(self, effect: Effect, offers: dict[TaskKey, QueuedTask], time_ms: int) -> None:
        """``offers`` collects what is queued and not taken again within the same entry, which is
        of ``time_ms``."""
        match effect:
            case OfferDecision():
                offers[effect.run, 0] = QueuedTask(
                    effect.run, 0, 0, effect.workflow_type, effect.task_queue, since_ms=time_ms
                )
            case OfferActivity():
                offers[effect.run, effect.sequence] = QueuedTask(
                    effect.run,
                    effect.sequence,
                    effect.attempt,
                    effect.step_name,
                    effect.task_queue,
                    effect.priority,
                    time_ms,
                )
            case WithdrawTask():
                offers.pop((effect.run, effect.sequence), None)
                self.matching.withdraw((effect.run, effect.sequence))
            case HoldLease():
                offers.pop((effect.run, effect.sequence), None)
                now_ms = self._clock.now_ms()
                self.leases.hold(
                    effect.run,
                    effect.sequence,
                    effect.token,
                    effect.duration_ms,
                    now_ms,
                    self._holder(effect),
                )
            case DeliverTask():
                self.returns.if_gone(effect)
            case DropLease():
                self.leases.drop(effect.token, expired=effect.expired)
            case ArmTimer():
                self._arm(TimerRow(effect.run, effect.kind, effect.sequence, effect.fire_at_ms))
            case DisarmTimer():
                self.timers.disarm(effect.run, effect.kind, effect.sequence, effect.fire_at_ms)
            case SendMessage():
                self.outbox.send(effect)
            case _:
                pass

    def _holder(self, effect: HoldLease) -> Holder | None:
        """None when the same entry has ended the lease."""
        run = self._replica.hot_run(effect.run)
        if run is None:
            return None
        step = run.steps[effect.sequence - 1] if effect.sequence else None
        task, queue = (step.task, step.task_queue) if step else (run.decision, run.task_queue)
        if task.token != effect.token:
            return None
        key = (step is not None, effect.run.namespace, queue)
        return Holder(key, task.worker_id, task.node)

    def _arm(self, row: TimerRow) -> None:
        if row.fire_at_ms <= self._horizon_ms:
            self.timers.arm(row)
            self._wakeup.set()

    def longest_wait_ms(self, *, activities: bool) -> int:
        """How long the task has waited that came first; 0 when none waits, or we do not lead."""
        since_ms = self.matching.oldest_ms(activities=activities)
        return 0 if since_ms is None else max(0, self._clock.now_ms() - since_ms)

    def standing(self, wanted: Wanted, most: int) -> Leading | None:
        """What is queued and leased, of ``most`` queues; None when we do not lead."""
        if not self._term:
            return None
        return standing(
            self.matching,
            self.leases,
            wanted,
            term=self._term,
            settled=self._settled,
            now_ms=self._clock.now_ms(),
            most=most,
        )

    def lease_facts(self, token: str) -> LeaseFacts | None:
        return self.leases.facts(token, self._clock.now_ms()) if self._term else None

    def names_waiting(self, *, activities: bool, namespace: str, queue: str) -> Mapping[str, int]:
        """How many tasks of a queue wait, by activity or workflow type."""
        return self.matching.names((activities, namespace, queue))

    # ---- polls ----------------------------------------------------------------------------------

    def on_submitted(self, command: bytes) -> None:
        """A call's command has its place in line: what it queues is granted right behind it."""
        if self._office is not None and self.matching.polls_waiting:
            decoded = decode_command(command)[1]
            if isinstance(decoded, Attributed):
                decoded = decoded.command
            self._foresee(decoded)

    def _foresee(self, command: Command) -> None:
        tasks = tasks_after(command, self._find_run)
        matches = self.matching.claim(task for task in tasks if task.key not in self._foreseen)
        self._foreseen.update(match.task.key for match in matches)
        self._grant(matches)

    def on_entry(self) -> None:
        """What was granted so far has left in an entry."""
        self.matching.seal()

    def _find_run(self, namespace: str, workflow_id: str, run_id: str) -> Run | None:
        if run_id:
            return self._replica.hot_run(RunKey(namespace, workflow_id, run_id))
        return self._replica.hot_newest(WorkflowKey(namespace, workflow_id))

    def on_demand(self, node: str, demand: node_pb2.Demand) -> None:
        """A node's polls: parked and withdrawn. Ignored when we do not lead: it is announced
        again to whoever does."""
        if not self._term:
            return
        if demand.reset:
            self.on_peer_down(node)
        for poll_id in demand.withdrawn:
            self.matching.unpark(poll_id)
            self._grants.withdraw(poll_id)
        for poll in demand.parked:
            self.returns.asked_again(poll)
            self._grant(self.matching.park(node, poll))

    async def on_demand_message(self, peer: str, payload: bytes) -> bytes:
        self.on_demand(peer, node_pb2.Demand.FromString(payload))
        return b""

    async def on_heartbeat_message(self, _peer: str, payload: bytes) -> bytes:
        try:
            reply = await self.on_heartbeat(node_pb2.HeartbeatRequest.FromString(payload))
        except Unavailable as error:
            raise PeerError("UNAVAILABLE", str(error)) from None
        return reply.SerializeToString()

    def on_peer_down(self, node: str) -> None:
        self.matching.forget_node(node)
        self._grants.forget_node(node)

    def _grant(self, matches: Iterable[Match]) -> None:
        for match in matches:
            done = partial(self._answered, self._term, self._grants.begin(match), match.task.key)
            self._proposer.propose_duty(grant_of(match, self._times), done)

    def _answered(self, term: int, handing: Handing, key: TaskKey, answer: Answer | None) -> None:
        self._foreseen.discard(key)
        # Dropped grants leave the poll without a task: it waits for the next one.
        if self._grants.end(handing, answer) and term == self._term:
            self._grant(self.matching.park(handing.node, handing.poll))

    # ---- heartbeats -----------------------------------------------------------------------------

    async def on_heartbeat(self, request: node_pb2.HeartbeatRequest) -> node_pb2.HeartbeatReply:
        """Extend the lease, or say what became of it. Raises Unavailable: a leader that slept
        through its deposition must not say that a lease is held, since its successor may have
        given the task to another worker."""
        await self._reads.linearizable()
        workflow, token = WorkflowKey(request.namespace, request.workflow_id), request.lease_token
        if self._office is not None and self.leases.beat(workflow, token, self._clock.now_ms()):
            return node_pb2.HeartbeatReply(held=True)
        if self.leases.is_missed(workflow, token):
            return node_pb2.HeartbeatReply(held=False, message="the lease's deadline was missed")
        parts = parse_token(request.lease_token)
        if parts is None or parts.namespace != request.namespace:
            return node_pb2.HeartbeatReply(held=False, message="the lease token is not valid here")
        run = await self._replica.run_view(request.namespace, request.workflow_id, parts.run_id)
        fate = lease_fate(run, parts.number, request.lease_token)
        return node_pb2.HeartbeatReply(
            held=fate.held, cancelled=fate.cancelled, message=fate.message
        )

    # ---- office ---------------------------------------------------------------------------------

    async def _hold_office(self, index: int) -> None:
        log.info("office_taken", term=self._term, index=index)
        await self._replica.written(index)
        await self._derive_tasks()
        while True:
            await self._extend_horizon()
            now_ms = self._clock.now_ms()
            self._fire(now_ms)
            self._expire(now_ms)
            await self.outbox.refill(now_ms)
            await self._retention.work(now_ms)
            await self._sleep(now_ms)

    async def _derive_tasks(self) -> None:
        """Offer what is queued and hold what is leased, page by page."""
        count, cursor = 0, None
        while True:
            page = await self._store.open_tasks(after=cursor, limit=PAGE)
            now_ms = self._clock.now_ms()
            for row in page.tasks:
                if row.leased:
                    holder = Holder(queued(row).queue_key, row.worker_id, row.node)
                    self.leases.hold(
                        row.run, row.sequence, row.token, row.duration_ms, now_ms, holder
                    )
            self._grant(self.matching.offer(queued(row) for row in page.tasks if not row.leased))
            count += len(page.tasks)
            cursor = page.cursor
            if cursor is None:
                break
        self.returns.leases_known()
        self._settled = True
        log.info("duties_derived", term=self._term, tasks=count, leases=len(self.leases))

    async def _extend_horizon(self) -> None:
        """Load the timers of the next horizon when half of the last one has passed. New timers
        reach the heap as effects, so the store is asked for what it had before."""
        now_ms = self._clock.now_ms()
        if self._horizon_ms - now_ms > HORIZON_MS // 2:
            return
        self._horizon_ms = now_ms + HORIZON_MS
        await self._replica.written(self._replica.applied_index)
        after: TimerRow | None = None
        while True:
            rows = await self._store.timers_due(self._horizon_ms, after=after, limit=PAGE)
            for row in rows:
                self.timers.arm(row)
            if len(rows) < PAGE:
                break
            after = rows[-1]

    def _fire(self, now_ms: int) -> None:
        for row in self.timers.due(now_ms, FIRE_AT_ONCE):
            self._metrics.timer_lag.set(max(0, now_ms - row.fire_at_ms) / 1_000)
            command = FireTimer(
                namespace=row.run.namespace,
                workflow_id=row.run.workflow_id,
                run_id=row.run.run_id,
                kind=row.kind,
                sequence=row.sequence,
                fire_at_ms=row.fire_at_ms,
            )
            self._proposer.propose_duty(command)
            self._foresee(command)

    def _expire(self, now_ms: int) -> None:
        for lease in self.leases.missed(now_ms):
            log.info(
                "lease_missed",
                workflow_id=lease.run.workflow_id,
                run_id=lease.run.run_id,
                sequence=lease.sequence,
            )
            self._proposer.propose_duty(
                ExpireLease(
                    namespace=lease.run.namespace,
                    workflow_id=lease.run.workflow_id,
                    token=lease.token,
                )
            )

    async def _sleep(self, now_ms: int) -> None:
        """Until the next duty, a newly armed timer, or a tick: log time can be steered."""
        due = [d for d in (self.timers.next_ms(), self.leases.next_deadline_ms()) if d is not None]
        wait_ms = min([TICK_MS, *(max(0, d - now_ms) for d in due)])
        self._wakeup.clear()
        try:
            async with asyncio.timeout(wait_ms / 1_000 + 0.001):
                await self._wakeup.wait()
        except TimeoutError:
            pass
