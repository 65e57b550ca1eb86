"""OpenTelemetry: a span for each run and each step that ended, sent by the leader.

The ids are those that workers and callers were told (`engine.trace`). The loop only notes what
ended; a thread of its own makes spans of the notes and sends them. Tracing never slows a node: what
a full queue or a receiver that is away costs is counted, and lost. A change of leader may lose or
repeat the spans of a moment.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from raftflow.cluster.config import Config
from raftflow.cluster.errors import StartRefused
from raftflow.cluster.metrics import Metrics
from raftflow.engine import trace
from raftflow.engine.apply import Applied
from raftflow.engine.commands import Batch
from raftflow.engine.state import Run, RunStatus, Step, StepKind, StepStatus

MAX_QUEUED = 10_000
BATCH = 500
PAUSE_S = 0.5
STOP_WAIT_S = 5.0
_BAD_ENDS = (RunStatus.FAILED, RunStatus.TERMINATED, RunStatus.TIMED_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What is noted of a run or step that ended: a run moves on, a note does not."""

    name: str
    traceparent: str  # its own span
    parent_span: str  # "" for the first of its trace
    tracestate: str
    started_ms: int
    ended_ms: int
    error: str | None  # None: it went well
    attributes: dict[str, str | int]


def ended(applied: Applied, batch: Batch) -> Iterator[Ended]:
    """The sampled runs and steps that this batch ended. Markers take no time and have no span."""
    runs, now_ms = applied.changes.runs, batch.time_ms
    for (key, _), step in applied.changes.steps.items():
        if step.status is StepStatus.SCHEDULED or step.resolved_ms != now_ms:
            continue
        run = runs.get(key)
        if run is None or step.kind is StepKind.MARKER or not trace.sampled(run.traceparent):
            continue
        yield _ended_step(run, step)
    for run in runs.values():
        if not run.open and run.closed_ms == now_ms and trace.sampled(run.traceparent):
            yield _ended_run(run)


def _ended_run(run: Run) -> Ended:
    return Ended(
        name=f"workflow {run.workflow_type}",
        traceparent=run.traceparent,
        parent_span=trace.parent_span(run.traceparent, run.key.run_id),
        tracestate=run.tracestate,
        started_ms=run.started_ms,
        ended_ms=run.closed_ms,
        error=run.error if run.status in _BAD_ENDS else None,
        attributes={
            **_whose(run),
            "raftflow.task_queue": run.task_queue,
            "raftflow.status": run.status.name,
            "raftflow.history_length": run.history_length,
        },
    )


def _ended_step(run: Run, step: Step) -> Ended:
    attributes: dict[str, str | int] = {
        **_whose(run),
        "raftflow.step_name": step.name,
        "raftflow.sequence": step.sequence,
        "raftflow.status": step.status.name,
    }
    if step.kind is StepKind.ACTIVITY:
        attributes |= {"raftflow.attempts": step.attempts, "raftflow.task_queue": step.task_queue}
    return Ended(
        name=f"{step.kind.name.lower()} {step.name}",
        traceparent=trace.of_step(run.traceparent, run.key.run_id, step.sequence),
        parent_span=run.traceparent.split("-")[2],
        tracestate=run.tracestate,
        started_ms=step.scheduled_ms,
        ended_ms=step.resolved_ms,
        error=step.error if step.status is StepStatus.FAILED else None,
        attributes=attributes,
    )


def _whose(run: Run) -> dict[str, str | int]:
    return {
        "raftflow.namespace": run.key.namespace,
        "raftflow.workflow_id": run.key.workflow_id,
        "raftflow.run_id": run.key.run_id,
        "raftflow.workflow_type": run.workflow_type,
    }


class SpanExport:
    """Notes on the loop, sends in a thread. Raises StartRefused when the extra is missing."""

    def __init__(self, config: Config, metrics: Metrics, *, leads: Callable[[], bool]) -> None:
        try:  # OpenTelemetry is an extra
            from raftflow.cluster.otlp import Receiver
        except ImportError as error:
            raise StartRefused(
                f"otlp_endpoint is set, but there is no {error.name} to send spans with: "
                "pip install 'raftflow[otel]', or leave otlp_endpoint empty"
            ) from None
        self._receiver = Receiver(config.otlp_endpoint, config.node_id)
        self._leads = leads
        self._queue: deque[Ended] = deque()
        self._sent, self._lost = metrics.spans_sent, metrics.spans_lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="span-export", daemon=True)
        self._thread.start()

    def on_applied(self, applied: Applied, batch: Batch) -> None:
        if not self._leads():
            return
        for note in ended(applied, batch):
            if len(self._queue) < MAX_QUEUED:
                self._queue.append(note)
            else:
                self._lost.labels("queue_full").inc()

    async def stop(self) -> None:
        """What is queued is sent, but a receiver that is away keeps no node from ending."""
        self._stop.set()
        await asyncio.to_thread(self._thread.join, STOP_WAIT_S)
        await asyncio.to_thread(self._receiver.close)

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_S):
            self._drain()
        self._drain()

    def _drain(self) -> None:
        while self._queue:
            notes = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            if self._receiver.send(notes):
                self._sent.inc(len(notes))
                continue
            self._lost.labels("not_received").inc(len(notes))
            if self._stop.is_set():
                return
