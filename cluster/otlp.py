"""The only module that knows OpenTelemetry, which is an extra: `tracing` imports it when wanted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags, TraceState

if TYPE_CHECKING:
    from raftflow.cluster.tracing import Ended

STANDARD_PATH = "/v1/traces"
TIMEOUT_S = 5.0
_NS_PER_MS = 1_000_000
_SCOPE = InstrumentationScope("raftflow")

# It logs each refusal with a traceback; what is lost stands in a metric.
logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)


class Receiver:
    """Somebody who takes spans over OTLP/HTTP. Blocks: not for the event loop."""

    def __init__(self, endpoint: str, node_id: str) -> None:
        base = endpoint.rstrip("/")
        url = base if urlsplit(base).path else base + STANDARD_PATH
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=TIMEOUT_S)
        self._resource = Resource.create(
            {
                "service.name": "raftflow",
                "service.instance.id": node_id,
                "service.version": version("raftflow"),
            }
        )

    def send(self, notes: Sequence[Ended]) -> bool:
        try:
            result = self._exporter.export([self._span(note) for note in notes])
        except Exception:  # noqa: BLE001 - whatever their code meets, it must not end the thread
            return False
        return result is SpanExportResult.SUCCESS

    def close(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _span(self, note: Ended) -> ReadableSpan:
        span_id = note.traceparent.split("-")[2]
        return ReadableSpan(
            name=note.name,
            context=_context(note, span_id),
            parent=_context(note, note.parent_span) if note.parent_span else None,
            resource=self._resource,
            attributes=note.attributes,
            status=Status(StatusCode.UNSET if note.error is None else StatusCode.ERROR, note.error),
            start_time=note.started_ms * _NS_PER_MS,
            end_time=note.ended_ms * _NS_PER_MS,
            instrumentation_scope=_SCOPE,
        )


def _context(note: Ended, span_id: str) -> SpanContext:
    """A span of the note's trace."""
    _, trace_id, _, flags = note.traceparent.split("-")
    return SpanContext(
        trace_id=int(trace_id, 16),
        span_id=int(span_id, 16),
        is_remote=False,
        trace_flags=TraceFlags(int(flags, 16)),
        trace_state=TraceState.from_header([note.tracestate]) if note.tracestate else None,
    )
