"""The client asks once, within its deadline, and goes on under another name when in doubt."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.jepsen import api
from tests.jepsen.client import Channels, Client
from tests.jepsen.history import FAIL, INFO, OK, History


class Node(BaseHTTPRequestHandler):
    served: int = 0
    mood: str = "well"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Node.served += 1
        if Node.mood == "silent":
            time.sleep(1.5)
            return
        if Node.mood == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        body = b'{"run_id": "r", "started": true}' if Node.mood == "well" else b"half {"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class OneNode:
    def __init__(self, address: str) -> None:
        self.address = address

    def ids(self) -> list[str]:
        return ["n1"]

    def http(self, node: str) -> str:
        return self.address

    grpc = http


@pytest.fixture
def address() -> Iterator[str]:
    Node.served, Node.mood = 0, "well"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Node)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def client(address: str, directory: Path) -> tuple[Client, History]:
    cluster: Any = OneNode(address)
    history = History(directory / "history.jsonl")
    channels = Channels(cluster)
    return Client(cluster, history, channels, process="w/1", rng=random.Random(1)), history


START = api.start("T", "w", queue="q", request_id="r")


def test_an_answer_is_written_down(address: str, tmp_path: Path) -> None:
    asks, history = client(address, tmp_path)
    assert asks.call("start", START, key="w", api=api.JSON).kind == OK
    assert [(op.process, op.type, op.node, op.api) for op in history.ops] == [
        ("w/1", "invoke", "n1", "json"),
        ("w/1", "ok", "n1", "json"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("mood", ["silent", "reset"])
def test_who_cannot_know_goes_on_as_another(address: str, tmp_path: Path, mood: str) -> None:
    asks, history = client(address, tmp_path)
    Node.mood = mood
    begun = time.monotonic()
    assert asks.call("start", START, api=api.JSON, deadline_s=0.5).kind == INFO
    assert time.monotonic() - begun < 1.2
    assert Node.served == 1, "nothing is tried twice"
    Node.mood = "well"
    asks.call("start", START, api=api.JSON)
    assert [op.process for op in history.ops] == ["w/1", "w/1", "w/1.1", "w/1.1"]


def test_an_answer_that_makes_no_sense_is_a_finding(address: str, tmp_path: Path) -> None:
    asks, _history = client(address, tmp_path)
    Node.mood = "nonsense"
    outcome = asks.call("start", START, api=api.JSON)
    assert outcome.kind == INFO
    assert outcome.error.startswith("BROKEN answer")


@pytest.mark.parametrize("which", [api.JSON, api.GRPC])
def test_where_nobody_listens_nothing_happened(tmp_path: Path, which: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        asks, _history = client(f"127.0.0.1:{taken.getsockname()[1]}", tmp_path)
        outcome = asks.call("start", START, api=which, deadline_s=5.0)
    assert (outcome.kind, outcome.error) == (FAIL, "NOT_CONNECTED")
