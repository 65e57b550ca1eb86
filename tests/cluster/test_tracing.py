"""Spans of ended runs and steps, sent to a real receiver."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import engine_harness as make
import pytest
from engine_harness import EngineHarness
from eventually import eventually
from otlp_receiver import OtlpReceiver

from raftflow.cluster import tracing
from raftflow.cluster.config import Config
from raftflow.cluster.errors import StartRefused
from raftflow.cluster.metrics import Metrics
from raftflow.cluster.tracing import SpanExport
from raftflow.engine import trace
from raftflow.engine.apply import Applied
from raftflow.engine.commands import (
    Batch,
    Command,
    CompleteWorkflow,
    FailWorkflow,
    StartTimer,
    TimerKind,
)

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SPAN = trace.under(CALLER, "r1")


class Observed(EngineHarness):
    """Tells what each batch did, as the replica does."""

    def __init__(self, export: SpanExport) -> None:
        super().__init__()
        self.export = export

    def apply(self, *commands: Command, advance_ms: int = 0) -> Applied:
        applied = super().apply(*commands, advance_ms=advance_ms + 1)
        batch = Batch(
            index=self.index, term=1, time_ms=self.time_ms, commands=(), limits=self.limits
        )
        self.export.on_applied(applied, batch)
        return applied


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    running = OtlpReceiver()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "PAUSE_S", 0.01)


def exporting(endpoint: str, metrics: Metrics, *, leads: bool = True) -> SpanExport:
    config = Config(data_dir=Path("nowhere"), otlp_endpoint=endpoint)
    return SpanExport(config, metrics, leads=lambda: leads)


def one_run(export: SpanExport, traceparent: str = SPAN, *, fails: bool = False) -> Observed:
    harness = Observed(export)
    harness.register("Order")
    harness.do(replace(make.start("w"), traceparent=traceparent, tracestate="a=1"))
    nap = StartTimer(step_name="nap", sequence=2, delay_ms=50)
    harness.decide("w", make.activity(1, "charge"), nap)
    token = harness.grant_activity("w", 1)
    harness.do(make.complete_activity("w", token, b"ok"))
    harness.fire("w", TimerKind.STEP, 2)
    end = FailWorkflow(error="broken") if fails else CompleteWorkflow(output=b"")
    harness.decide("w", end)
    return harness


async def test_a_run_and_its_steps_are_spans_of_the_callers_trace(receiver: OtlpReceiver) -> None:
    metrics = Metrics()
    export = exporting(receiver.endpoint, metrics)
    harness = one_run(export)
    await eventually(lambda: len(receiver.spans) == 3, "three spans have arrived")
    await export.stop()
    run = receiver.spans[SPAN.split("-")[2]]
    assert (run.name, run.parent_span_id.hex()) == ("workflow Order", "00f067aa0ba902b7")
    assert run.trace_id.hex() == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert (run.trace_state, run.status.code) == ("a=1", 0)
    state = harness.run("w")
    assert run.start_time_unix_nano == state.started_ms * 1_000_000
    assert run.end_time_unix_nano == state.closed_ms * 1_000_000
    for step, name in zip(state.steps, ("activity charge", "timer nap"), strict=True):
        span = receiver.spans[trace.of_step(SPAN, "r1", step.sequence).split("-")[2]]
        assert (span.name, span.parent_span_id.hex()) == (name, SPAN.split("-")[2])
        assert span.start_time_unix_nano == step.scheduled_ms * 1_000_000
        assert span.end_time_unix_nano == step.resolved_ms * 1_000_000
    attributes = {a.key: a.value for a in run.attributes}
    assert attributes["raftflow.workflow_id"].string_value == "w"
    assert attributes["raftflow.history_length"].int_value == state.history_length
    assert receiver.resources[0]["service.name"] == "raftflow"
    assert "workflowd_trace_spans_sent_total 3.0" in metrics.render().decode()


async def test_what_went_wrong_is_said(receiver: OtlpReceiver) -> None:
    export = exporting(receiver.endpoint, Metrics())
    one_run(export, fails=True)
    await export.stop()  # sends what is queued
    run = receiver.spans[SPAN.split("-")[2]]
    assert (run.status.code, run.status.message) == (2, "broken")


@pytest.mark.parametrize("traceparent", ["", SPAN.removesuffix("01") + "00"])
async def test_what_nobody_samples_is_not_sent(receiver: OtlpReceiver, traceparent: str) -> None:
    export = exporting(receiver.endpoint, Metrics())
    one_run(export, traceparent)
    await export.stop()
    assert receiver.spans == {}


async def test_only_the_leader_sends(receiver: OtlpReceiver) -> None:
    export = exporting(receiver.endpoint, Metrics(), leads=False)
    one_run(export)
    await export.stop()
    assert receiver.spans == {}


async def test_a_full_queue_loses_and_counts(
    receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "MAX_QUEUED", 2)
    monkeypatch.setattr(tracing, "PAUSE_S", 60.0)
    metrics = Metrics()
    export = exporting(receiver.endpoint, metrics)
    one_run(export)
    await export.stop()
    assert len(receiver.spans) == 2
    assert 'spans_lost_total{cause="queue_full"} 1.0' in metrics.render().decode()


async def test_a_receiver_that_refuses_costs_spans_alone(receiver: OtlpReceiver) -> None:
    receiver.status = 400
    metrics = Metrics()
    export = exporting(receiver.endpoint, metrics)
    one_run(export)
    lost = 'spans_lost_total{cause="not_received"} 3.0'
    await eventually(lambda: lost in metrics.render().decode(), "the loss is counted")
    await export.stop()


def test_without_the_extra_a_node_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "raftflow.cluster.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    monkeypatch.delitem(
        sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", raising=False
    )
    with pytest.raises(StartRefused, match=r"pip install 'raftflow\[otel\]'"):
        exporting("http://127.0.0.1:1", Metrics())
