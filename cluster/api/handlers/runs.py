"""Runs: start, list, describe, history; what is told to them."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from raftflow.cluster.api.handlers.common import (
    check_namespace,
    execute,
    new_run_id,
    register_types,
)
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.watch import Watch
from raftflow.cluster.attempts import Attempt
from raftflow.cluster.background import in_thread
from raftflow.cluster.store.views import (
    PAGE_BYTES,
    BadCursor,
    RunCounts,
    RunFilter,
    RunPage,
    RunSummary,
)
from raftflow.engine import trace
from raftflow.engine.commands import (
    CancelRun,
    PauseRun,
    RegisterTypes,
    SignalRun,
    StartRun,
    TerminateRun,
    UnpauseRun,
)
from raftflow.engine.events import SignalReceived
from raftflow.engine.ids import DEFAULT_NAMESPACE, RunKey, WorkflowKey
from raftflow.engine.rejections import Started
from raftflow.engine.state import Run, Signal, Step, StepKind, StepStatus

# Events fetched at a time.
_SLICE = 50
# What one search in a history looks at, and how much of it at a time.
SEARCHED_EVENTS = 1_000
_SEARCHED_SLICE = 500


@dataclass(frozen=True, slots=True)
class StartedRun:
    workflow_id: str
    run_id: str
    started: bool


@dataclass(frozen=True, slots=True)
class DescribedRun:
    """``signals`` are all of them, with who took which; the run holds only the untaken ones.
    ``past_attempts``: by sequence, those that left no event, as far as this node saw them."""

    run: Run
    signals: Sequence[Signal]
    past_attempts: Mapping[int, Sequence[Attempt]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Framed records from ``first`` on, of a history that had ``length`` events when read.
    ``next_from``: up to there a search has looked; 0 when that was the end."""

    run: Run
    length: int
    first: int
    records: Sequence[bytes]
    next_from: int = 0


def new_workflow_id(node: NodeServices, workflow_type: str) -> str:
    return f"{workflow_type}-{node.clock.wall_ms()}-{secrets.token_hex(4)}"


def span_of_run(node: NodeServices, caller: str, run_id: str) -> str:
    """The run's span under the caller's. Where spans are exported, a run without a caller begins a
    trace of its own."""
    if caller:
        return trace.under(caller, run_id)
    return trace.root(secrets.token_hex(16), run_id) if node.config.otlp_endpoint else ""


async def start(node: NodeServices, command: StartRun) -> StartedRun:
    """``command.run_id`` and an absent workflow id are chosen here, once for all retries."""
    if command.workflow_type in node.hosted_types and command.namespace == DEFAULT_NAMESPACE:
        # Known from the first moment on, also before a pool has loaded its code.
        await register_types(
            node,
            RegisterTypes(namespace=command.namespace, workflow_types=(command.workflow_type,)),
        )
    workflow_id = command.workflow_id or new_workflow_id(node, command.workflow_type)
    run_id = new_run_id()
    caller = trace.caller(command.traceparent)
    command = replace(
        command,
        workflow_id=workflow_id,
        workflow_id_generated=not command.workflow_id,
        run_id=run_id,
        traceparent=span_of_run(node, caller, run_id),
        tracestate=trace.caller_state(command.tracestate) if caller else "",
    )
    answer = await execute(node, command)
    assert isinstance(answer, Started)
    return StartedRun(answer.workflow_id or workflow_id, answer.run_id, answer.started)


async def change(
    node: NodeServices, command: SignalRun | TerminateRun | CancelRun | PauseRun | UnpauseRun
) -> None:
    await execute(node, command)


async def list_runs(node: NodeServices, wanted: RunFilter) -> tuple[RunPage, int]:
    """A page from this node's store, and the index that the store had reached."""
    index = await _settled(node, wanted)
    try:
        return await node.store.list_runs(wanted), index
    except BadCursor:
        raise _bad_cursor() from None


async def count_runs(node: NodeServices, wanted: RunFilter) -> tuple[RunCounts, int]:
    """Of this node's store, as `list_runs`."""
    index = await _settled(node, wanted)
    return await node.store.counts(wanted), index


async def _settled(node: NodeServices, wanted: RunFilter) -> int:
    """What was applied here before the call is written: up to where."""
    if "\0" in wanted.query:  # the text index would see the end of the question there
        raise ApiError("INVALID_FIELD", "q contains a NUL, which no id or type does")
    await check_namespace(node, wanted.namespace)
    index = node.replica.applied_index
    await node.replica.written(index)
    return index


async def describe(
    node: NodeServices, namespace: str, workflow_id: str, run_id: str
) -> DescribedRun:
    run, index = await read(node, namespace, workflow_id, run_id)
    past, waiting, length = node.attempts.of(run.key), _waiting_signals(run), run.history_length
    if not (waiting or run.signals or any(_took_signal(step) for step in run.steps)):
        # Each signal is either untaken or some step's, or waits.
        return DescribedRun(run, (), past)
    await node.replica.written(index)
    signals = await node.store.signals_of(run.key)
    if any(signal.event_id > length for signal in signals):
        waiting = []  # those that waited have joined the history meanwhile, before any other
    return DescribedRun(run, [*signals, *waiting], past)


def _waiting_signals(run: Run) -> list[Signal]:
    """Accepted, and to be history when the decision that is out has ended: as yet without an id."""
    return [
        Signal(0, arrival.time_ms, arrival.body.name, arrival.body.payload)
        for arrival in run.arrivals.values()
        if isinstance(arrival.body, SignalReceived)
    ]


def _took_signal(step: Step) -> bool:
    return step.kind is StepKind.SIGNAL and step.status is StepStatus.COMPLETED


async def runs_of(
    node: NodeServices, namespace: str, workflow_id: str, cursor: str = ""
) -> tuple[Sequence[RunSummary], str]:
    """The newest runs of an id, or those from ``cursor`` on, and the cursor of the next ones."""
    _, index = await read(node, namespace, workflow_id, "")
    await node.replica.written(index)
    try:
        return await node.store.runs_of(WorkflowKey(namespace, workflow_id), cursor)
    except BadCursor:
        raise _bad_cursor() from None


async def history(
    node: NodeServices, watch: Watch, key: RunKey, *, first: int, limit: int, wait_ms: int
) -> HistoryPage | None:
    """A page of events from ``first`` on. With ``wait_ms`` it waits for one to exist while the
    run is open; None when none came in time. An empty ``key.run_id`` means the newest run."""
    run, index = await read(node, key.namespace, key.workflow_id, key.run_id)
    if wait_ms and run.open and run.history_length < first:
        grew = await watch.grown(node, run.key, beyond=first - 1, timeout_ms=wait_ms)
        if not grew:
            return None
        # What this node has applied since is newer than the index that was confirmed for the call.
        index = node.replica.applied_index
        grown = await node.replica.run_view(key.namespace, key.workflow_id, run.key.run_id)
        run = grown or run
    length = run.history_length
    if length < first:
        return HistoryPage(run, length, first, ())
    await node.replica.written(index)
    last = min(length, first + limit - 1)
    return HistoryPage(run, length, first, await _events(node, run.key, first, last))


async def search_history(
    node: NodeServices,
    key: RunKey,
    *,
    first: int,
    limit: int,
    matches: Callable[[bytes], bool],
) -> HistoryPage:
    """Those of the events from ``first`` on whose records match. So many are looked at that it
    takes no longer than other reads."""
    run, index = await read(node, key.namespace, key.workflow_id, key.run_id)
    await node.replica.written(index)
    length = run.history_length
    found: list[tuple[int, bytes]] = []
    start, last, size = first, min(length, first + SEARCHED_EVENTS - 1), 0
    while start <= last and size < PAGE_BYTES and len(found) <= limit:
        records = await _events(node, run.key, start, min(last, start + _SEARCHED_SLICE - 1))
        if not records:
            break
        size += sum(map(len, records))
        found += await in_thread(_matching, records, start, matches)
        start += len(records)
    next_from = start if start <= length else 0
    if len(found) > limit:
        next_from = found[limit][0]
    return HistoryPage(run, length, first, [record for _, record in found[:limit]], next_from)


def _matching(
    records: Sequence[bytes], first: int, matches: Callable[[bytes], bool]
) -> list[tuple[int, bytes]]:
    return [(first + n, record) for n, record in enumerate(records) if matches(record)]


def _bad_cursor() -> ApiError:
    return ApiError("INVALID_FIELD", "cursor is not one that a page gave out")


async def _events(node: NodeServices, key: RunKey, first: int, last: int) -> Sequence[bytes]:
    """The records ``first`` to ``last``, or as many of them as fit into one answer."""
    records: list[bytes] = []
    size = 0
    while first + len(records) <= last and size < PAGE_BYTES:
        start = first + len(records)
        slice_ = await node.store.events(key, start=start, limit=min(_SLICE, last - start + 1))
        if not slice_:
            break
        records += slice_
        size += sum(map(len, slice_))
    return records


async def whole_history(node: NodeServices, page: HistoryPage) -> AsyncIterator[bytes]:
    """The `.history` file, in pieces: the framed records are stored as the file holds them."""
    records = page.records
    first = page.first
    while records:
        yield b"".join(records)
        first += len(records)
        records = await _events(node, page.run.key, first, page.length)


async def read(
    node: NodeServices, namespace: str, workflow_id: str, run_id: str
) -> tuple[Run, int]:
    """The run as a linearizable read sees it, with the read index. Only then may it be a 404."""
    index = await node.reads.linearizable()
    run = await node.replica.run_view(namespace, workflow_id, run_id)
    if run is not None:
        return run, index
    await check_namespace(node, namespace)
    named = f"workflow {workflow_id}" + (f" has no run {run_id}" if run_id else " does not exist")
    raise ApiError("WORKFLOW_NOT_FOUND", named)
