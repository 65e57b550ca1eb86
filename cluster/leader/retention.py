"""What is kept for a time leaves by log time, through the log, in slices: closed runs after the
retention of their namespace, remembered request ids after theirs, the audit log after its own.

Both are found along an index, oldest first. The next slice of runs follows when the last one is
applied. What apply refuses (a message of that run is still on its way) is met in the next round.
"""

from __future__ import annotations

from collections.abc import Callable

from raftflow.cluster.features import AUDIT, DELETION
from raftflow.cluster.proposer import Proposer
from raftflow.cluster.replica import Replica
from raftflow.cluster.store import ClosedRun, Store
from raftflow.engine.commands import DeleteRun, ForgetAudit, ForgetRequests
from raftflow.engine.rejections import Answer

SLICE_RUNS = 64
SLICE_EVENTS = 10_000  # a run with more is a slice of its own
ROUND_EVERY_MS = 10_000
FORGET_AT_ONCE = 5_000
FORGET_EVERY_MS = 1_000


class Retention:
    """``wake`` is called when the next slice of runs may follow."""

    def __init__(
        self,
        *,
        proposer: Proposer,
        store: Store,
        replica: Replica,
        wake: Callable[[], None],
        audit_retention_ms: int = 0,  # for ever
    ) -> None:
        self._proposer = proposer
        self._store = store
        self._replica = replica
        self._wake = wake
        self._office = 0
        self._under_way = 0
        self._after: ClosedRun | None = None  # the last one of this round
        self._next_ms = 0
        self._forget_at_ms = 0
        self._audit_retention_ms = audit_retention_ms
        self._audit_at_ms = 0

    def clear(self) -> None:
        self._office += 1
        self._under_way = 0
        self._after = None
        self._next_ms = self._forget_at_ms = self._audit_at_ms = 0

    async def work(self, now_ms: int) -> None:
        """Propose what is due."""
        await self._forget_requests(now_ms)
        await self._forget_audit(now_ms)
        await self._delete_runs(now_ms)

    async def _forget_requests(self, now_ms: int) -> None:
        if now_ms < self._forget_at_ms:
            return
        self._forget_at_ms = now_ms + FORGET_EVERY_MS
        oldest_ms = await self._store.oldest_request_ms()
        if oldest_ms is not None and oldest_ms <= now_ms:
            self._proposer.propose_duty(ForgetRequests(before_ms=now_ms, limit=FORGET_AT_ONCE))

    async def _forget_audit(self, now_ms: int) -> None:
        """A slice each round; the next one waits while rows are left that may go."""
        if not self._audit_retention_ms or now_ms < self._audit_at_ms:
            return
        if self._proposer.feature_level < AUDIT.level:
            return
        before_ms = now_ms - self._audit_retention_ms
        through = await self._store.outdated_audit(before_ms, FORGET_AT_ONCE)
        self._audit_at_ms = now_ms + (FORGET_EVERY_MS if through else ROUND_EVERY_MS)
        if through:
            self._proposer.propose_duty(ForgetAudit(through=through, before_ms=before_ms))

    async def _delete_runs(self, now_ms: int) -> None:
        if self._under_way or now_ms < self._next_ms:
            return
        if self._proposer.feature_level < DELETION.level:
            return  # a member would stop at it; what is due waits for the upgrade's end
        bounds = {
            name: now_ms - record.retention_ms
            for name, record in sorted(self._replica.catalog.namespaces.items())
            if record.retention_ms
        }
        runs = []
        if bounds:
            runs = await self._store.closed_runs(bounds, after=self._after, limit=SLICE_RUNS)
        events = 0
        for run in runs:
            events += run.history_length
            if self._under_way and events > SLICE_EVENTS:
                return
            self._delete(run, bounds[run.key.namespace])
        if len(runs) < SLICE_RUNS:
            self._after = None
            self._next_ms = now_ms + ROUND_EVERY_MS

    def _delete(self, run: ClosedRun, before_ms: int) -> None:
        self._after = run
        self._under_way += 1
        office = self._office

        def answered(_answer: Answer | None) -> None:
            if office == self._office:
                self._under_way -= 1
                if not self._under_way:
                    self._wake()

        command = DeleteRun(
            namespace=run.key.namespace,
            workflow_id=run.key.workflow_id,
            run_id=run.key.run_id,
            request_id="",
            closed_before_ms=before_ms,
        )
        self._proposer.propose_duty(command, answered)
