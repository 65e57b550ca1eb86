"""An HTTP server before the in-memory cluster, on a port of its own, that misbehaves on demand."""

import json
import os
import socket
import ssl
import struct
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sdk_cluster import FakeCluster, Refused


class Node:
    """One HTTP server before a cluster. `faults` are spent one per matching request."""

    def __init__(
        self, cluster: FakeCluster, *, port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.cluster = cluster
        self.faults: deque[tuple[str, str]] = deque()
        self.fault_always = ""
        self.leader_http = ""
        self.served: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.headers: Any = {}
        self.connections = 0
        self.dead = False
        self.sees_hang_ups = True
        self._open: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.node = self
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.address = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def kill(self) -> None:
        """As kill -9 does: the port is closed and every connection reset."""
        self.dead = True
        self._server.shutdown()
        self._server.server_close()
        for sock in list(self._open):
            reset(sock)

    def __enter__(self) -> "Node":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def fault_for(self, path: str) -> str:
        if self.fault_always:
            return self.fault_always
        for position, (prefix, fault) in enumerate(self.faults):
            if path.startswith(prefix):
                del self.faults[position]
                return fault
        return ""


def reset(sock: socket.socket) -> None:
    """Close with RST; the reader in another thread is woken first."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RD)
        os.close(sock.detach())
    except OSError:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    node: Node

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that hang up are the point of these tests


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one write per answer
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.node.connections += 1
        self.server.node._open.add(self.connection)

    def finish(self) -> None:
        self.server.node._open.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._serve(None)

    def do_POST(self) -> None:
        self._serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _serve(self, body: Any) -> None:
        node = self.server.node
        parts = urlsplit(self.path)
        node.served.append(f"{self.command} {parts.path}")
        node.headers = self.headers
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        node.queries.append(query)
        fault = node.fault_for(parts.path)
        if self._misbehave(fault):
            return
        try:
            answer = node.cluster.serve(self.command, parts.path, query, body, gone=self._is_gone)
        except Refused as refusal:
            self._answer(refusal.status, refusal.body)
            return
        if fault == "reset after":
            self._reset()
        elif fault == "half":
            self._half({} if answer is None else answer)
        elif answer is None:
            self._answer(204, None)
        else:
            self._answer(200, answer)

    def _is_gone(self) -> bool:
        """Whether nobody waits for the answer: we are dead, or the client sends no more."""
        node = self.server.node
        if node.dead or not node.sees_hang_ups:
            return node.dead
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _misbehave(self, fault: str) -> bool:
        """Faults instead of serving; those after it are left to the caller."""
        if fault == "reset":
            self._reset()
        elif fault == "hang":
            time.sleep(2.0)
            self._reset()
        elif fault == "503":
            body = {"error": "shutting down", "code": "UNAVAILABLE", "maybe_applied": False}
            if self.server.node.leader_http:
                body["leader_http"] = self.server.node.leader_http
            self._answer(503, body)
        elif fault in ("429", "503 later"):
            body = {"error": "slow down", "code": "RESOURCE_EXHAUSTED", "retry_after_ms": 200}
            self._answer(int(fault[:3]), body)
        elif fault == "html":
            self._raw(200, b"<html>a captive portal</html>", {})
        elif fault == "retry-after header":
            self._raw(503, b"busy", {"Retry-After": "0.2"})
        else:
            return False
        return True

    def _answer(self, status: int, body: Any) -> None:
        self._raw(status, b"" if body is None else json.dumps(body).encode(), {})

    def _raw(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def _half(self, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data) + 10))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
        self._reset()

    def _reset(self) -> None:
        self.close_connection = True
        reset(self.connection)
