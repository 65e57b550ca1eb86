"""A node's JSON API without a node: canned answers over real HTTP, and a record of what came."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Call:
    method: str
    target: str
    headers: dict[str, str]
    body: Any


Reply = tuple[int, Any]


@dataclass
class FakeApi:
    """`respond` answers each call; bytes go out as they are, everything else as JSON."""

    respond: Callable[[Call], Reply]
    calls: list[Call] = field(default_factory=list)
    address: str = ""


@contextmanager
def serving(
    respond: Callable[[Call], Reply], *, tls: ssl.SSLContext | None = None
) -> Iterator[FakeApi]:
    fake = FakeApi(respond)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            call = Call(self.command, self.path, dict(self.headers), body)
            fake.calls.append(call)
            status, document = fake.respond(call)
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    fake.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
