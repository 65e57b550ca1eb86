"""A node's state without the node: rows in memory, loading and storing as the replica does.

After every batch it checks that the rows it was told of are all that changed, that the invariants
hold, and that ids are dense. ``hot=False`` loads every aggregate afresh for each batch, so that
nothing may depend on what happens to be in memory.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any

from engine_world import result_problems, world_problems

from raftflow.engine import digest
from raftflow.engine.apply import Applied, Touched, apply, touched_keys
from raftflow.engine.commands import (
    FEATURE_LEVEL,
    Batch,
    Command,
    CompleteActivity,
    CompleteDecision,
    CompleteWorkflow,
    DeleteRun,
    DeliverMessage,
    EagerPoll,
    FireTimer,
    GrantActivity,
    GrantDecision,
    IdConflictPolicy,
    IdReusePolicy,
    RegisterTypes,
    ScheduleActivity,
    SignalRun,
    StartRun,
    TimerKind,
    WorkflowCommand,
)
from raftflow.engine.events import Event
from raftflow.engine.ids import DEFAULT_NAMESPACE, RunKey, WorkflowKey
from raftflow.engine.invariants import problems
from raftflow.engine.limits import DEFAULT_LIMITS, Limits
from raftflow.engine.outbox import sending
from raftflow.engine.rejections import Answer, Granted
from raftflow.engine.retry import NO_RETRY, RetryPolicy
from raftflow.engine.state import (
    AuditRecord,
    Catalog,
    Message,
    NamespaceRecord,
    RequestRecord,
    Run,
    Signal,
    Step,
    TimerRow,
    TokenRecord,
    WorkingSet,
)

BIRTH_MS = 1_000_000


@dataclasses.dataclass(slots=True)
class Rows:
    """The tables of a store."""

    runs: dict[RunKey, Run] = dataclasses.field(default_factory=dict)  # headers
    steps: dict[RunKey, dict[int, Step]] = dataclasses.field(default_factory=dict)
    signals: dict[RunKey, dict[int, Signal]] = dataclasses.field(default_factory=dict)
    arrivals: dict[RunKey, dict[int, Event]] = dataclasses.field(default_factory=dict)
    outbox: dict[RunKey, dict[int, Message]] = dataclasses.field(default_factory=dict)
    current: dict[WorkflowKey, str] = dataclasses.field(default_factory=dict)
    events: dict[RunKey, list[Event]] = dataclasses.field(default_factory=dict)
    timers: dict[tuple[RunKey, TimerKind, int], TimerRow] = dataclasses.field(default_factory=dict)
    namespaces: dict[str, NamespaceRecord] = dataclasses.field(default_factory=dict)
    types: dict[tuple[str, str], None] = dataclasses.field(default_factory=dict)
    tokens: dict[str, TokenRecord] = dataclasses.field(default_factory=dict)
    audit: list[AuditRecord] = dataclasses.field(default_factory=list)
    requests: dict[tuple[str, str], RequestRecord] = dataclasses.field(default_factory=dict)

    def load_run(self, key: RunKey) -> Run | None:
        header = self.runs.get(key)
        if header is None:
            return None
        run = copy_header(header)
        run.steps = [copy_step(step) for _, step in sorted(self.steps.get(key, {}).items())]
        run.signals = {s.event_id: s for s in self.signals.get(key, {}).values() if not s.taken_by}
        run.arrivals = dict(sorted(self.arrivals.get(key, {}).items()))
        run.outbox = dict(sorted(self.outbox.get(key, {}).items()))
        run.older_runs = self._older_runs(key)
        return run

    def _older_runs(self, key: RunKey) -> int:
        """No row says it: whoever loads the run counts."""
        of_id = [each for each in self.runs if each[:2] == key[:2]]
        return of_id.index(key)

    def forget(self, key: RunKey) -> None:
        """All rows of the run go."""
        for table in self.of_runs():
            table.pop(key, None)
        for timer in [row for row in self.timers if row[0] == key]:
            del self.timers[timer]

    def of_runs(self) -> tuple[dict[RunKey, Any], ...]:
        return (self.runs, self.steps, self.signals, self.events, self.arrivals, self.outbox)

    def timers_of(self, key: RunKey) -> dict[tuple[TimerKind, int], int]:
        return {
            (row.kind, row.sequence): row.fire_at_ms
            for row in self.timers.values()
            if row.run == key
        }


def copy_header(run: Run) -> Run:
    return dataclasses.replace(
        run,
        decision=copy.copy(run.decision),
        steps=[],
        signals={},
        arrivals={},
        outbox={},
        waits=None,
    )


def copy_step(step: Step) -> Step:
    return dataclasses.replace(step, task=copy.copy(step.task))


class EngineHarness:
    """Applies batches against rows in memory. ``digest`` rolls over every row as it is written."""

    def __init__(
        self, *, limits: Limits = DEFAULT_LIMITS, hot: bool = True, rows: Rows | None = None
    ) -> None:
        self.limits = limits
        self.feature_level = FEATURE_LEVEL
        self.rows = Rows() if rows is None else rows
        self.hot = hot
        self.index = 0
        self.time_ms = BIRTH_MS
        self.digest = digest.EMPTY
        self._state = self._cold()

    def reload(self) -> None:
        """Forget everything in memory, as a restart does."""
        self._state = self._cold()

    def apply(self, *commands: Command, advance_ms: int = 0) -> Applied:
        """Apply the commands as one entry, ``advance_ms`` of log time after the last."""
        self.index += 1
        self.time_ms += advance_ms
        batch = Batch(
            index=self.index,
            term=1,
            time_ms=self.time_ms,
            commands=tuple((f"c{n}", command) for n, command in enumerate(commands)),
            limits=self.limits,
            feature_level=self.feature_level,
        )
        if not self.hot:
            self.reload()
        for command in commands:
            self._load(touched_keys(command))
        applied = apply(self._state, batch)
        assert [reply.command_id for reply in applied.replies] == [c for c, _ in batch.commands]
        self._store(applied)
        self._check(applied)
        return applied

    def do(self, command: Command, advance_ms: int = 0) -> Answer:
        """Apply one command and return its answer."""
        return self.apply(command, advance_ms=advance_ms).replies[0].answer

    def run(self, workflow_id: str, run_id: str = "", namespace: str = DEFAULT_NAMESPACE) -> Run:
        """The run as its rows tell it; without a run id, the newest."""
        run_id = run_id or self.rows.current[WorkflowKey(namespace, workflow_id)]
        run = self.rows.load_run(RunKey(namespace, workflow_id, run_id))
        assert run is not None
        return run

    def history(
        self, workflow_id: str, run_id: str = "", namespace: str = DEFAULT_NAMESPACE
    ) -> list[Event]:
        return self.rows.events[self.run(workflow_id, run_id, namespace).key]

    # ---- shorthand: the ordinary life of a run -----------------------------------------------

    def register(self, *types: str, namespace: str = DEFAULT_NAMESPACE) -> Answer:
        return self.do(RegisterTypes(namespace=namespace, workflow_types=types))

    def start(self, workflow_id: str, workflow_type: str = "Order", run_id: str = "r1") -> Answer:
        return self.do(start(workflow_id, workflow_type, run_id=run_id))

    def grant_decision(self, workflow_id: str, nonce: str = "d") -> str:
        answer = self.do(grant_decision(self.run(workflow_id), nonce=f"{nonce}{self.index}"))
        assert isinstance(answer, Granted), answer
        return answer.token

    def decide(self, workflow_id: str, *commands: WorkflowCommand) -> Answer:
        """Hand the workflow task out and complete it with these commands."""
        token = self.grant_decision(workflow_id)
        return self.do(complete_decision(workflow_id, token, *commands))

    def grant_activity(self, workflow_id: str, sequence: int, nonce: str = "a") -> str:
        command = grant_activity(self.run(workflow_id), sequence, nonce=f"{nonce}{self.index}")
        answer = self.do(command)
        assert isinstance(answer, Granted), answer
        return answer.token

    def fire(self, workflow_id: str, kind: TimerKind, sequence: int = 0) -> Answer:
        """Let the timer's time come, and fire it."""
        key = self.run(workflow_id).key
        row = self.rows.timers[key, kind, sequence]
        self.time_ms = max(self.time_ms, row.fire_at_ms)
        return self.do(fire_timer(row))

    # ---- loading and storing ------------------------------------------------------------------

    def _cold(self) -> WorkingSet:
        catalog = Catalog(types=set(self.rows.types))
        catalog.namespaces.update(self.rows.namespaces)
        catalog.tokens.update(sorted(self.rows.tokens.items()))
        catalog.open_runs.update(self._open_runs())
        return WorkingSet(catalog=catalog)

    def _open_runs(self) -> Counter[str]:
        return Counter([key.namespace for key, run in self.rows.runs.items() if run.open])

    def _load(self, touched: Touched) -> None:
        state = self._state
        keys = list(touched.runs)
        for workflow in touched.workflows:
            run_id = self.rows.current.get(workflow)
            if run_id is not None:
                state.current[workflow] = run_id
                keys.append(RunKey(workflow.namespace, workflow.workflow_id, run_id))
        for key in keys:
            run = None if key in state.runs else self.rows.load_run(key)
            if run is not None:
                state.runs[key] = run
        for request in touched.requests:
            if request in self.rows.requests:
                state.requests[request] = self.rows.requests[request]

    def _store(self, applied: Applied) -> None:
        rows, changes = self.rows, applied.changes
        written: list[object] = []
        # First, so that whatever else is told of a run that was deleted stays behind as an orphan.
        for key in changes.deleted:
            rows.forget(key)
            written.append(("deleted", key))
        for key, run in changes.runs.items():
            rows.runs[key] = copy_header(run)
            written.append(rows.runs[key])
        for (key, sequence), step in changes.steps.items():
            rows.steps.setdefault(key, {})[sequence] = copy_step(step)
            written.append((key, step))
        for (key, event_id), signal in changes.signals.items():
            rows.signals.setdefault(key, {})[event_id] = signal
            written.append((key, signal))
        for key, event in changes.events:
            rows.events.setdefault(key, []).append(event)
            written.append((key, event))
        for timer_key, timer in changes.timers.items():
            if timer is None:
                rows.timers.pop(timer_key, None)
            else:
                rows.timers[timer_key] = timer
            written.append((timer_key, timer))
        for what, of_runs in (("arrivals", rows.arrivals), ("outbox", rows.outbox)):
            for (key, number), row in getattr(changes, what).items():
                if row is None:
                    of_runs.get(key, {}).pop(number, None)
                else:
                    of_runs.setdefault(key, {})[number] = row
                written.append((what, key, number, row))
        for workflow, newest in changes.current.items():
            if newest is None:
                rows.current.pop(workflow, None)
            else:
                rows.current[workflow] = newest
            written.append((workflow, newest))
        for name, table in (
            ("namespaces", rows.namespaces),
            ("types", rows.types),
            ("requests", rows.requests),
        ):
            table.update(getattr(changes, name))
            written += getattr(changes, name).items()
        for token_id, token in changes.tokens.items():
            if token is None:
                del rows.tokens[token_id]
            else:
                rows.tokens[token_id] = token
            written.append((token_id, token))
        rows.audit += changes.audit
        written += changes.audit
        if (wish := changes.forget_audit) is not None:
            rows.audit = [
                row
                for row in rows.audit
                if row.audit_no > wish.through or row.time_ms >= wish.before_ms
            ]
            written.append(wish)
        self.digest = digest.roll(self.digest, self.index, (repr(r).encode() for r in written))
        if changes.forget_requests is not None:
            self._forget(changes.forget_requests.before_ms, changes.forget_requests.limit)

    def _forget(self, before_ms: int, limit: int) -> None:
        expired = [k for k, r in self.rows.requests.items() if r.expires_ms <= before_ms]
        for key in expired[:limit]:
            del self.rows.requests[key]

    # ---- checking -----------------------------------------------------------------------------

    def _check(self, applied: Applied) -> None:
        for key, run in self._state.runs.items():
            stored = self.rows.load_run(key)
            assert stored == run, f"rows of {key} were not told of:\n{stored}\n{run}"
        for key in applied.changes.runs:
            self.check_run(key)
        assert not (found := world_problems(self.rows)), found
        counted = {name: n for name, n in self._state.catalog.open_runs.items() if n}
        assert counted == self._open_runs(), "what quotas go by"

    def check_run(self, key: RunKey) -> None:
        run = self.rows.load_run(key)
        assert run is not None
        found = problems(run, self.rows.timers_of(key))
        assert not found, (key, found)
        events = self.rows.events[key]
        assert [e.event_id for e in events] == list(range(1, run.history_length + 1)), key
        assert not (twice := result_problems(events)), (key, twice)


# ---- commands with the usual defaults -----------------------------------------------------------


def start(
    workflow_id: str,
    workflow_type: str = "Order",
    *,
    run_id: str = "r1",
    namespace: str = DEFAULT_NAMESPACE,
    input: bytes = b"",
    task_queue: str = "default",
    execution_timeout_ms: int = 0,
    reuse: IdReusePolicy = IdReusePolicy.REJECT_DUPLICATE,
    conflict: IdConflictPolicy = IdConflictPolicy.FAIL,
    request_id: str = "",
) -> StartRun:
    return StartRun(
        namespace=namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        workflow_type=workflow_type,
        task_queue=task_queue,
        input=input,
        execution_timeout_ms=execution_timeout_ms,
        id_reuse_policy=reuse,
        id_conflict_policy=conflict,
        request_id=request_id,
    )


def signal(
    workflow_id: str,
    name: str,
    payload: bytes = b"",
    *,
    run_id: str = "",
    namespace: str = DEFAULT_NAMESPACE,
    request_id: str = "",
) -> SignalRun:
    return SignalRun(
        namespace=namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        name=name,
        payload=payload,
        request_id=request_id,
    )


def grant_decision(run: Run, *, nonce: str, timeout_ms: int = 10_000) -> GrantDecision:
    return GrantDecision(
        namespace=run.key.namespace,
        workflow_id=run.key.workflow_id,
        run_id=run.key.run_id,
        nonce=nonce,
        worker_id="w1",
        node="n1",
        poll_id="p1",
        timeout_ms=timeout_ms,
    )


def grant_activity(
    run: Run, sequence: int, *, nonce: str, attempt: int = 0, duration_ms: int = 30_000
) -> GrantActivity:
    return GrantActivity(
        namespace=run.key.namespace,
        workflow_id=run.key.workflow_id,
        run_id=run.key.run_id,
        sequence=sequence,
        attempt=attempt or run.steps[sequence - 1].task.attempt,
        nonce=nonce,
        worker_id="w1",
        node="n1",
        poll_id="p1",
        duration_ms=duration_ms,
    )


def complete_decision(
    workflow_id: str,
    token: str,
    *commands: WorkflowCommand,
    namespace: str = DEFAULT_NAMESPACE,
    replay_error: str = "",
    nondeterminism: bool = False,
) -> CompleteDecision:
    return CompleteDecision(
        namespace=namespace,
        workflow_id=workflow_id,
        task_token=token,
        commands=commands,
        replay_error=replay_error,
        nondeterminism=nondeterminism,
    )


def complete_activity(
    workflow_id: str, token: str, output: bytes = b"", *, namespace: str = DEFAULT_NAMESPACE
) -> CompleteActivity:
    return CompleteActivity(
        namespace=namespace,
        workflow_id=workflow_id,
        step_name="",
        sequence=0,
        lease_token=token,
        failed=False,
        output=output,
    )


def fail_activity(
    workflow_id: str,
    token: str,
    error: str = "boom",
    *,
    error_type: str = "",
    non_retryable: bool = False,
    next_retry_delay_ms: int = -1,
    namespace: str = DEFAULT_NAMESPACE,
) -> CompleteActivity:
    return CompleteActivity(
        namespace=namespace,
        workflow_id=workflow_id,
        step_name="",
        sequence=0,
        lease_token=token,
        failed=True,
        error=error,
        error_type=error_type,
        non_retryable=non_retryable,
        next_retry_delay_ms=next_retry_delay_ms,
    )


def deliver(
    sender: RunKey, number: int, message: Message, *, new_run_id: str = "c1"
) -> DeliverMessage:
    """What the leader makes of an outbox row; ``new_run_id`` is for a child that it starts."""
    duty = sending(sender, number, message)
    return DeliverMessage(
        namespace=sender.namespace,
        workflow_id=sender.workflow_id,
        run_id=sender.run_id,
        number=number,
        target_workflow_id=duty.target_workflow_id,
        target_run_id=new_run_id if duty.starts else duty.target_run_id,
    )


def eager(
    *, names: tuple[str, ...] = (), task_queue: str = "default", limit: int = 1, nonce: str = "e1"
) -> EagerPoll:
    return EagerPoll(
        node="n1",
        poll_id="p9",
        nonce=nonce,
        worker_id="w9",
        names=names,
        task_queue=task_queue,
        duration_ms=20_000,
        limit=limit,
    )


def delete(
    workflow_id: str,
    run_id: str = "r1",
    *,
    namespace: str = DEFAULT_NAMESPACE,
    request_id: str = "",
    closed_before_ms: int = 0,
) -> DeleteRun:
    return DeleteRun(
        namespace=namespace,
        workflow_id=workflow_id,
        run_id=run_id,
        request_id=request_id,
        closed_before_ms=closed_before_ms,
    )


def fire_timer(row: TimerRow) -> FireTimer:
    return FireTimer(
        namespace=row.run.namespace,
        workflow_id=row.run.workflow_id,
        run_id=row.run.run_id,
        kind=row.kind,
        sequence=row.sequence,
        fire_at_ms=row.fire_at_ms,
    )


def activity(
    sequence: int,
    name: str = "step",
    *,
    input: bytes = b"",
    retry: RetryPolicy = NO_RETRY,
    task_queue: str = "",
    start_to_close_ms: int = 0,
    schedule_to_close_ms: int = 0,
    schedule_to_start_ms: int = 0,
) -> ScheduleActivity:
    return ScheduleActivity(
        step_name=name,
        sequence=sequence,
        input=input,
        retry=retry,
        task_queue=task_queue,
        start_to_close_timeout_ms=start_to_close_ms,
        schedule_to_close_timeout_ms=schedule_to_close_ms,
        schedule_to_start_timeout_ms=schedule_to_start_ms,
    )


def run_to_end(harness: EngineHarness, workflow_id: str, steps: Iterable[str]) -> None:
    """A sequential workflow of activities, each completed at its first attempt."""
    for sequence, name in enumerate(steps, start=1):
        harness.decide(workflow_id, activity(sequence, name))
        harness.do(complete_activity(workflow_id, harness.grant_activity(workflow_id, sequence)))
    harness.decide(workflow_id, CompleteWorkflow(output=b"done"))
