"""Bytes over a plain socket that are no HTTP, nearly HTTP, or HTTP with hostile bodies."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import os
import re
import select
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from fuzz_node import FuzzNode, Stage
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from raftflow.cluster.api.status import TABLE

pytestmark = pytest.mark.cluster

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "150"))
PATIENCE_S = 10.0
LARGE = 100 << 20
_HEAD = re.compile(rb"\AHTTP/\d\.\d (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n")


@dataclass(frozen=True, slots=True)
class Heard:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def reason(self) -> str:
        return str(json.loads(self.body)["reason"])


@pytest.fixture(scope="module")
def stage(node: FuzzNode) -> Stage:
    return node.stage()


@pytest.fixture(autouse=True)
def _well(node: FuzzNode, stage: Stage) -> Iterator[None]:
    yield
    stage.must_be_unchanged()
    node.must_be_well()


def signal_path(stage: Stage) -> str:
    return f"/api/workflows/{quote(f'{stage.name} timer', safe='')}/signal"


def talk(node: FuzzNode, pieces: Sequence[bytes], *, leave: bool, pause_s: float = 0) -> bytes:
    """What comes back until the node ends the connection. ``leave``: end our side first; otherwise
    the node must end it by itself."""
    host, port = node.http.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as caller:
        try:
            for piece in pieces:
                caller.sendall(piece)
                time.sleep(pause_s)
            if leave:
                caller.shutdown(socket.SHUT_WR)
        except OSError as error:  # it had heard enough
            if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
                raise
        heard = b""
        with contextlib.suppress(ConnectionError):
            while piece := caller.recv(1 << 16):
                heard += piece
        return heard


def answers_in(heard: bytes) -> list[Heard]:
    found = []
    while heard:
        head = _HEAD.match(heard)
        assert head is not None, heard[:200]
        lines = (line.partition(":") for line in head[2].decode("latin-1").splitlines())
        headers = {name.lower(): value.strip() for name, _, value in lines}
        status, heard = int(head[1]), heard[head.end() :]
        size = int(headers.get("content-length", "0"))
        if status == 100:
            continue
        found.append(Heard(status, headers, heard[:size]))
        heard = heard[size:]
        must_be_documented(found[-1])
    return found


def must_be_documented(answer: Heard) -> None:
    if answer.status < 400:
        return
    assert answer.headers["content-type"] == "application/json"
    assert TABLE[answer.reason].http == answer.status
    assert answer.status < 500


# ---- no HTTP ------------------------------------------------------------------------------------

GET = b"GET /api/health HTTP/1.1\r\nHost: n\r\n"
POST = b"POST %s HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SHORT = CHUNKED + b'8\r\n{"name":\r\n'

BROKEN = {
    "no bytes of text": [b"\x00\xff\x01\r\n\r\n"],
    "TLS": [bytes.fromhex("16030100c8010000c40303") + bytes(40)],
    "HTTP/2": [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    "no target": [b"GET\r\n\r\n"],
    "no such version": [b"GET /api/health HTTP/9.9\r\n\r\n"],
    "a target that is no URL": [b"GET http://[::1 HTTP/1.1\r\nHost: n\r\n\r\n"],
    "bytes in the target": [b"GET /api/workflows/\xff HTTP/1.1\r\nHost: n\r\n\r\n"],
    "a target without end": [b"GET /" + b"x" * 200_000],
    "a header without end": [GET + b"A: " + b"x" * 200_000],
    "too many headers": [GET + b"".join(b"A%d: x\r\n" % n for n in range(20_000)) + b"\r\n"],
    "NUL in a header": [GET + b"A: \x00\r\n\r\n"],
    "NUL in a header's name": [GET + b"A\x00: b\r\n\r\n"],
    "a folded header": [GET + b"A: b\r\n c\r\n\r\n"],
    "bare line feeds": [b"GET /api/health HTTP/1.1\nHost: n\n\n"],
    "two lengths": [POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"],
    "a length below zero": [POST + b"Content-Length: -5\r\n\r\n{}"],
    "a length with a sign": [POST + b"Content-Length: +2\r\n\r\n{}"],
    "a length beyond counting": [POST + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n{}"],
    "a length and chunks": [
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ],
    "an encoding that nobody knows": [POST + b"Transfer-Encoding: gzip\r\n\r\nxxx"],
    "a chunk of no size": [CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n"],
    "a chunk longer than it says": [CHUNKED + b"2\r\n{}xx\r\n0\r\n\r\n"],
    "a later chunk of no size": [SHORT, b"zz\r\n"],
    "a later chunk longer than it says": [SHORT, b"2\r\n{}xx\r\n"],
    "a trailer without end": [SHORT, b"0\r\nA: " + b"x" * 200_000],
    "a second request that is none": [GET + b"\r\n", b"\x00\r\n\r\n"],
    "a second request whose body breaks off": [GET + b"\r\n" + SHORT, b"zz\r\n"],
}

TOO_LARGE = {
    "a target without end",
    "a header without end",
    "too many headers",
    "a trailer without end",
}


@pytest.mark.parametrize("slowly", [False, True], ids=["at once", "in pieces"])
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_http_is_refused_and_ends_the_connection(
    node: FuzzNode, stage: Stage, name: str, slowly: bool
) -> None:
    """In the words of the API, and while its sender still waits for an answer."""
    path = signal_path(stage).encode()
    pieces = [piece.replace(b"%s", path) for piece in BROKEN[name]]
    heard = talk(node, pieces, leave=False, pause_s=0.1 if slowly else 0)
    wanted = (431, "HEADERS_TOO_LARGE") if name in TOO_LARGE else (400, "MALFORMED")
    if heard:  # nothing: the end was a reset, since bytes were left unread
        assert (answers_in(heard)[-1].status, answers_in(heard)[-1].reason) == wanted


@pytest.mark.parametrize(
    "unfinished", [b"GET /api/he", GET, POST, POST + b"Content-Length: 50\r\n\r\n{}", SHORT, b""]
)
def test_who_leaves_in_the_middle_is_let_go(
    node: FuzzNode, stage: Stage, unfinished: bytes
) -> None:
    path = signal_path(stage).encode()
    assert answers_in(talk(node, [unfinished.replace(b"%s", path)], leave=True)) == []


# ---- bodies -------------------------------------------------------------------------------------

NAMED = b'{"name": "go", "payload": %s}'
BODIES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "MALFORMED"),
    "a list": (b"[]", "MALFORMED"),
    "half": (b'{"name": "go"', "MALFORMED"),
    "more than one": (b'{"name": "go"}{}', "MALFORMED"),
    "NaN": (NAMED % b"NaN", "MALFORMED"),
    "minus infinity": (NAMED % b"-Infinity", "MALFORMED"),
    "a number beyond counting": (NAMED % (b"9" * 100_000), "MALFORMED"),
    "a float beyond counting": (NAMED % b"1e999", "INVALID_FIELD"),
    "no UTF-8": (NAMED % b'"\xff"', "MALFORMED"),
    "an encoded surrogate": (NAMED % b'"\xed\xa0\x80"', "MALFORMED"),
    "UTF-16": ('{"name": "go"}'.encode("utf-16"), "MALFORMED"),
    "a byte order mark": (b'\xef\xbb\xbf{"name": "go"}', "MALFORMED"),
    "a lone surrogate": (NAMED % rb'"\ud800"', "INVALID_FIELD"),
    "a lone surrogate in a name": (rb'{"name": "go", "\ud800": 1}', "UNKNOWN_FIELD"),
    "a control character in a name": (rb'{"name": "g\u0000o"}', "INVALID_FIELD"),
    "lists without end": (NAMED % (b"[" * 1_000_000), "MALFORMED"),
    "objects without end": (NAMED % (b'{"a":' * 500_000), "MALFORMED"),
    "half a million lists": (NAMED % (b"[" * 500_000 + b"]" * 500_000), "MALFORMED"),
    "no base64": (b'{"name": "go", "payload_base64": "%"}', "INVALID_FIELD"),
    "a payload over the limit": (NAMED % (b'"%s"' % (b"x" * ((2 << 20) + 1))), "PAYLOAD_TOO_LARGE"),
    "a body over the limit": (NAMED % (b'"%s"' % (b"x" * (9 << 20))), "BODY_TOO_LARGE"),
    "gzip": (gzip.compress(NAMED % b'"x"'), "MALFORMED"),
}


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "in chunks"])
@pytest.mark.parametrize("name", BODIES)
def test_what_is_no_signal_is_refused(
    node: FuzzNode, stage: Stage, name: str, chunked: bool
) -> None:
    content, reason = BODIES[name]
    head = POST % signal_path(stage).encode() + b"Connection: close\r\n"
    if chunked:
        chunks = [content[at : at + 60_000] for at in range(0, len(content), 60_000)]
        pieces = [head + b"Transfer-Encoding: chunked\r\n\r\n"]
        pieces += [b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks]
        pieces.append(b"0\r\n\r\n")
    else:
        pieces = [head + b"Content-Length: %d\r\n\r\n" % len(content), content]
    (answer,) = answers_in(talk(node, pieces, leave=False))
    assert (answer.status, answer.reason) == (TABLE[reason].http, reason)


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"zstd", b"gzip, gzip", b"\xff"])
def test_compressed_bodies_are_not_unpacked(node: FuzzNode, stage: Stage, encoding: bytes) -> None:
    bomb = gzip.compress(bytes(LARGE))
    head = POST % signal_path(stage).encode() + b"Connection: close\r\n"
    head += b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (encoding, len(bomb))
    begun = time.monotonic()
    (answer,) = answers_in(talk(node, [head, bomb], leave=False))
    assert (answer.status, answer.reason) == (415, "NOT_JSON")
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("chunked", [False, True], ids=["declared", "in chunks"])
def test_a_hundred_megabytes_are_not_read(node: FuzzNode, stage: Stage, chunked: bool) -> None:
    piece = bytes(1 << 20)
    head = POST % signal_path(stage).encode()
    if chunked:
        head += b"Transfer-Encoding: chunked\r\n\r\n"
        piece = b"%x\r\n%s\r\n" % (len(piece), piece)
    else:
        head += b"Content-Length: %d\r\n\r\n" % LARGE
    host, port = node.http.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as caller:
        caller.sendall(head)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < LARGE and b" 413 " not in peek(caller):
                caller.sendall(piece)
                sent += len(piece)
        (answer,) = answers_in(caller.recv(1 << 16))
    assert (answer.status, answer.reason) == (413, "BODY_TOO_LARGE")
    assert sent < LARGE / 2, "it was refused before it was sent"


def peek(caller: socket.socket) -> bytes:
    readable, _, _ = select.select([caller], [], [], 0)
    return caller.recv(1 << 16, socket.MSG_PEEK) if readable else b""


# ---- nearly HTTP --------------------------------------------------------------------------------

# Not HEAD: only who knows that it was asked can tell where its answer ends.
METHODS = [b"GET", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"get", b""]
TARGETS = [
    *(b"/", b"*", b"", b"//", b"/api", b"/api/", b"/api/health", b"/api/ready", b"/api/workflows"),
    *(b"/api/workflows/", b"/api/workflows/x", b"/api/workflows/%2F/signal", b"/api/workflows/%"),
    *(b"/api/workflows/..", b"/api/workflows/%ff", b"/../../etc/passwd", b"http://n/api/health"),
    *(b"/api/workflows?limit=1&limit=x", b"/api/workflows?%00=1", b"/api/workflows?q=%ff"),
    *(b"/api/workflows?" + b"a=1&" * 200, b"/api/workflows?q=" + b"%41" * 3_000, b"/#", b"/?#"),
    *(b"/api/namespaces/x", b"/api/openapi.json", b"/api/cluster", b"/api/workflow-types"),
    *(b"/api/workflow-tasks/complete", b"/api/activity-tasks/heartbeat", b"/index.html"),
]
HEADERS = [
    *(b"Host: n", b"Host:", b"Content-Type: application/json", b"Content-Type: text/plain"),
    *(b"Content-Type: \xff;;==", b'Content-Type: application/json; charset="', b"Expect: 1"),
    *(b"Expect: 100-continue", b"Connection: close", b"Connection: keep-alive", b"Connection: x"),
    *(b"Connection: Upgrade\r\nUpgrade: websocket", b"Content-Encoding: gzip", b"TE: trailers"),
    *(b"Origin: \xff", b"Origin: http://127.0.0.1:1", b"If-None-Match: \xff", b"Range: bytes=9-"),
    *(b"Cookie: " + b"a" * 4_000, b"X-Workflowd-Namespace: \xff", b"X-Workflowd-Namespace: nope"),
    *(b"Authorization: Bearer \xff", b"traceparent: \xff", b"tracestate: a=\xff", b"Accept: \xff"),
    b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Content-Length: 2"),
    *(b"Content-Length: x", b"Content-Length: 99", b"Content-Length:", b"A", b": b", b"A : b"),
]
CONTENTS = [
    *(b"", b"{}", b'{"type": "Order"}', b'{"workflow_types": ["Order"]}', b"2\r\n{}\r\n0\r\n\r\n"),
    *(b"5\r\n{", b"0\r\n\r\n", b"ffffffffffffffffff\r\n", b"\xff\xfe", b'{"name": "go"}'),
]


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One request whose length is mostly right."""
    content = draw(st.sampled_from(CONTENTS) | st.binary(max_size=30))
    lines = [
        b"%s %s %s"
        % (
            draw(st.sampled_from(METHODS)),
            draw(st.sampled_from(TARGETS)),
            draw(st.sampled_from([b"HTTP/1.1"] * 6 + [b"HTTP/1.0", b"HTTP/0.9", b"HTTP", b""])),
        ),
        *draw(st.lists(st.sampled_from(HEADERS) | st.binary(max_size=12), max_size=5)),
    ]
    if draw(st.integers(0, 3)):
        lines += [b"Host: n", b"Content-Type: application/json"]
    if draw(st.integers(0, 2)):
        lines.append(b"Content-Length: %d" % len(content))
    return b"\r\n".join(lines) + b"\r\n\r\n" + content


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_what_is_nearly_http_is_answered_or_let_go(node: FuzzNode, data: Any) -> None:
    stream = b"".join(data.draw(st.lists(requests(), min_size=1, max_size=3)))
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.integers(0, len(stream)))
        stream = stream[:place] + data.draw(st.binary(min_size=1, max_size=3)) + stream[place + 1 :]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=3)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    answers = answers_in(talk(node, pieces, leave=True))
    assert all(answer.status < 500 for answer in answers)
