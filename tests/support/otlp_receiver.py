"""A receiver of OTLP over HTTP, in a thread: the real bytes, read with the real schema."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class OtlpReceiver:
    """``spans`` maps span ids (hex) to spans; ``status`` is what it answers."""

    def __init__(self) -> None:
        self.spans: dict[str, Any] = {}
        self.resources: list[dict[str, str]] = []
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    raw = gzip.decompress(raw)
                if receiver.status == 200 and self.path == "/v1/traces":
                    receiver.take(ExportTraceServiceRequest.FromString(raw))
                body = ExportTraceServiceResponse().SerializeToString()
                self.send_response(receiver.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, request: ExportTraceServiceRequest) -> None:
        for each in request.resource_spans:
            self.resources.append({a.key: a.value.string_value for a in each.resource.attributes})
            for scope in each.scope_spans:
                for span in scope.spans:
                    self.spans[span.span_id.hex()] = span

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
