"""What nobody well-meaning sends to a port, and a watch over how the nodes take it.

Each probe is bytes, or a way to send them. None of them may be answered with anything but silence,
a refusal in the words of the protocol, or the end of the connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import select
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1 << 20
HUGE = 100 * MIB
DEEP = 100_000
SOCKETS = 200

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST, _SETTINGS, _PING, _CONTINUATION = 0, 1, 3, 4, 6, 9
_END_STREAM, _END_HEADERS = 1, 4
_CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(503)


class Trap:
    """Unpickled it writes a file: whoever reads it gave itself away."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (self._file, "unpickled"))


def frame(kind: int, flags: int, stream: int, payload: bytes, claimed: int | None = None) -> bytes:
    """One of HTTP/2; ``claimed`` is the length that it says."""
    size = len(payload) if claimed is None else claimed
    return size.to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def header(name: bytes, value: bytes) -> bytes:
    """HPACK, literally, without an index."""
    return b"\x00" + _string(name) + _string(value)


def _string(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes([len(text)]) + text
    rest, size = len(text) - 127, b"\x7f"
    while rest >= 128:
        size += bytes([rest % 128 + 128])
        rest //= 128
    return size + bytes([rest]) + text


def call_headers(method: str = "StartWorkflow", *more: tuple[bytes, bytes]) -> bytes:
    fields = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/workflow.v1.WorkflowService/" + method.encode()),
        (b":authority", b"n"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        *more,
    )
    return b"".join([header(*each) for each in fields])


def call_begun() -> bytes:
    """A call whose message is still to come."""
    begin = PREFACE + frame(_SETTINGS, 0, 0, b"")
    return begin + frame(_HEADERS, _END_HEADERS, 1, call_headers())


def data_frames(size: int) -> bytes:
    return frame(_DATA, 0, 1, bytes(16_000)) * (size // 16_000)


def message_begun(size: int) -> bytes:
    """The prefix of a message of this size."""
    return frame(_DATA, 0, 1, b"\x00" + struct.pack(">I", size))


def http_probes(trap: Path) -> dict[str, bytes]:
    """For everything that speaks HTTP/1.1."""
    head = b"POST /api/workflows HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\n"
    get = b"GET /api/health HTTP/1.1\r\nHost: n\r\n"
    poison = pickle.dumps(Trap(trap))
    deep = b'{"a":' * DEEP
    chunked = b"Transfer-Encoding: chunked\r\n"
    return {
        **_everywhere(poison),
        "a pickle as body": head + b"Content-Length: %d\r\n\r\n" % len(poison) + poison,
        "a truncated head": get[:30],
        "a truncated body": head + b"Content-Length: 1000\r\n\r\n{",
        "a giant length": head + b"Content-Length: 9223372036854775807\r\n\r\n{",
        "a length that is none": head + b"Content-Length: -1\r\n\r\n",
        "two lengths": head + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        "a length and chunks": head + b"Content-Length: 2\r\n" + chunked + b"\r\n0\r\n\r\n",
        "a giant chunk": head + chunked + b"\r\nffffffffffffffff\r\n{",
        "a chunk that is none": head + chunked + b"\r\nxyz\r\n",
        "deep JSON": head + b"Content-Length: %d\r\n\r\n" % len(deep) + deep,
        "deep lists": head + b"Content-Length: %d\r\n\r\n" % DEEP + b"[" * DEEP,
        "a flood of headers": get + b"".join([b"x%d: 1\r\n" % n for n in range(100_000)]),
        "a header without end": get + b"x: " + b"y" * (8 * MIB),
        "a line without end": b"GET /" + b"z" * (8 * MIB),
        "a flood of calls": (get + b"\r\n") * 2_000,
        "an upgrade": get + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n" + b"\xff" * MIB,
        "bytes above ASCII": b"GET /\xff\xfe HTTP/1.1\r\nHost: \xff\r\n\r\n",
        "zeros in a header": get + b"x: a\x00b\r\n\r\n",
        "HTTP/2": PREFACE + frame(_SETTINGS, 0, 0, b""),
    }


def grpc_probes(trap: Path) -> dict[str, bytes]:
    """For what speaks HTTP/2."""
    begin = PREFACE + frame(_SETTINGS, 0, 0, b"")
    poison = pickle.dumps(Trap(trap))
    opened = call_begun()
    deep = b"\x0b" * DEEP  # groups within groups
    cookie = b"".join([header(b"x%d" % n, b"y" * 100) for n in range(20_000)])
    block = call_headers() + cookie
    pieces = [block[at : at + 16_000] for at in range(0, len(block), 16_000)]
    flood = frame(_HEADERS, 0, 1, pieces[0])
    for piece in pieces[1:]:
        flood += frame(_CONTINUATION, 0, 1, piece)
    resets = b"".join(
        [
            frame(_HEADERS, _END_HEADERS, stream, call_headers()) + frame(_RST, 0, stream, bytes(4))
            for stream in range(1, 20_001, 2)
        ]
    )
    return {
        **_everywhere(poison),
        "HTTP/1.1": b"GET / HTTP/1.1\r\nHost: n\r\n\r\n",
        "a preface and garbage": begin + _garbage(),
        "a truncated preface": PREFACE[:10],
        "a truncated frame": begin + frame(_HEADERS, _END_HEADERS, 1, b"", claimed=1_000),
        "a giant frame": begin + frame(_DATA, 0, 1, bytes(MIB), claimed=(1 << 24) - 1),
        "a giant message": opened + frame(_DATA, 0, 1, b"\x00\xff\xff\xff\xff" + bytes(1_000)),
        "a truncated message": opened + frame(_DATA, 0, 1, b"\x00\x00\x00\x10\x00abc"),
        "a pickle as message": opened
        + frame(_DATA, _END_STREAM, 1, b"\x00" + struct.pack(">I", len(poison)) + poison),
        "a deep message": opened
        + b"".join(
            [
                frame(_DATA, _END_STREAM * (at + 16_000 >= DEEP + 5), 1, whole[at : at + 16_000])
                for whole in [b"\x00" + struct.pack(">I", DEEP) + deep]
                for at in range(0, DEEP + 5, 16_000)
            ]
        ),
        "a flood of headers": begin + flood,
        "continuations without end": begin
        + frame(_HEADERS, 0, 1, call_headers())
        + frame(_CONTINUATION, 0, 1, b"") * 100_000,
        "a giant header": begin
        + frame(_HEADERS, 0, 1, call_headers() + b"\x00\x01x\x7f\xff\xff\xff\xff\x07"),
        "a flood of settings": begin + frame(_SETTINGS, 0, 0, b"") * 100_000,
        "a flood of pings": begin + frame(_PING, 0, 0, bytes(8)) * 100_000,
        "a flood of resets": begin + resets,
        "a call without a method": begin
        + frame(_HEADERS, _END_HEADERS, 1, header(b":method", b"POST")),
    }


def raft_probes(trap: Path) -> dict[str, bytes]:
    """For the frames of `u32 length | u32 checksum | payload`."""
    poison = pickle.dumps(Trap(trap))
    hello = json.dumps({"protocol": 1, "cluster_id": "guess", "node_id": "n1"}).encode()
    return {
        **_everywhere(poison),
        "HTTP/1.1": b"GET / HTTP/1.1\r\nHost: n\r\n\r\n",
        "a giant length": struct.pack("<II", 0xFFFFFFFF, 0) + bytes(MIB),
        "a length of 64 MiB": struct.pack("<II", 64 << 20, 0) + bytes(MIB),
        "a truncated header": b"\x10\x00",
        "a truncated frame": struct.pack("<II", 1_000, 0) + b"{",
        "a wrong checksum": struct.pack("<II", 2, 1) + b"{}",
        "a pickle as hello": raft_frame(poison),
        "a hello that lacks most": raft_frame(hello),
        "deep JSON": raft_frame(b"[" * 4_000),
        "a flood of keepalives": bytes(8 * 500_000),
    }


def raft_frame(payload: bytes) -> bytes:
    from crc32c import crc32c

    return struct.pack("<II", len(payload), crc32c(payload)) + payload


def _everywhere(poison: bytes) -> dict[str, bytes]:
    return {
        "nothing": b"",
        "garbage": _garbage(),
        "zeros": bytes(MIB),
        "a pickle": poison,
        "the length of a pickle, and it": struct.pack(">i", len(poison)) + poison,
        "a greeting of TLS": _CLIENT_HELLO,
    }


def _garbage() -> bytes:
    return random.Random(5).randbytes(256 << 10)


# ---- sending ------------------------------------------------------------------------------------


def connected(
    address: str, timeout: float = 5.0, *, tls: ssl.SSLContext | None = None
) -> socket.socket:
    host, _, port = address.rpartition(":")
    plain = socket.create_connection((host, int(port)), timeout=timeout)
    return plain if tls is None else tls.wrap_socket(plain, server_hostname=host)


def send(
    address: str, data: bytes, *, patience: float = 0.5, tls: ssl.SSLContext | None = None
) -> bytes:
    """What comes back until the other side has been silent for a while, or hangs up."""
    answer = b""
    with contextlib.suppress(OSError), connected(address, tls=tls) as caller:
        caller.settimeout(5.0)
        with contextlib.suppress(OSError):
            caller.sendall(data)  # who is refused early cannot send it all
        caller.settimeout(patience)
        while len(answer) < 16 * MIB and (more := caller.recv(1 << 16)):
            answer += more
    return answer


def pour(address: str, begin: bytes, piece: bytes, *, tls: ssl.SSLContext | None = None) -> int:
    """Send 100 MB after ``begin``, whatever is answered; how many bytes left this side."""
    sent = 0
    with contextlib.suppress(OSError), connected(address, tls=tls) as caller:
        caller.settimeout(10.0)
        caller.sendall(begin)
        while sent < HUGE:
            caller.sendall(piece)
            sent += len(piece)
    return sent


@contextlib.contextmanager
def slow_loris(
    address: str, begin: bytes, tls: ssl.SSLContext | None = None
) -> Iterator[list[socket.socket]]:
    """Sockets that have begun to speak, and go on with one byte each half second."""
    callers = [connected(address, tls=tls) for _ in range(SOCKETS)]
    ended = threading.Event()

    def drip() -> None:
        at = 0
        while not ended.wait(0.5):
            at += 1
            for caller in callers:
                with contextlib.suppress(OSError):
                    caller.send(begin[at % len(begin) : at % len(begin) + 1])

    for caller in callers:
        caller.send(begin[:1])
    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield callers
    finally:
        ended.set()
        thread.join()
        for caller in callers:
            caller.close()


# ---- watching -----------------------------------------------------------------------------------


@dataclass
class Watch:
    """Asks every node all the time how it is, from a process of its own: what the test itself does
    must not make answers seem slow. ``nodes``: HTTP address and process of each; ``before``: what
    it had in memory before anything was sent."""

    nodes: dict[str, tuple[str, int]]
    before: dict[str, int]
    trusted: Path | None = None
    doing: str = "nothing"
    seen: list[dict[str, Any]] = field(default_factory=list)

    @contextlib.contextmanager
    def running(self) -> Iterator[Watch]:
        asked = json.dumps([self.nodes, str(self.trusted or "")])
        process = subprocess.Popen(
            [sys.executable, __file__, "watch", asked],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        try:
            yield self
        finally:
            told, _ = process.communicate()  # closes its input, which ends it
            self.seen = [json.loads(line) for line in told.splitlines()]

    def must_be_untouched(self) -> None:
        troubles = [each for each in self.seen if "trouble" in each]
        assert not troubles, (self.doing, troubles[:5])
        assert {each["node"] for each in self.seen} == set(self.nodes)
        slowest_s = max(each["took_s"] for each in self.seen)
        assert slowest_s < 2, f"{self.doing}: health took {slowest_s:.2f} s"
        offices = {(each["term"], each["leader"]) for each in self.seen}
        assert len(offices) == 1, (self.doing, offices)
        for each in self.seen:
            grown = each["bytes"] - self.before[each["node"]]
            assert grown < 300 * MIB, f"{self.doing}: {each['node']} grew by {grown >> 20} MiB"


def _watch(nodes: dict[str, tuple[str, int]], trusted: str) -> None:
    """One line of JSON for each answer, until nobody listens any more."""
    tls = ssl.create_default_context(cafile=trusted) if trusted else None
    print("watching", flush=True)
    ended = False
    while not ended:
        ended = bool(select.select([sys.stdin], [], [], 0.05)[0])
        for name, (address, pid) in nodes.items():
            begun = time.monotonic()
            try:
                state = health(address, tls)
            except (OSError, ValueError) as error:
                print(json.dumps({"node": name, "trouble": repr(error)}))
                continue
            seen = {"node": name, "took_s": time.monotonic() - begun, "bytes": resident_bytes(pid)}
            print(json.dumps(seen | {"term": state["term"], "leader": state["leader"]}))


def health(address: str, tls: ssl.SSLContext | None = None) -> dict[str, Any]:
    """By a fresh connection; ValueError when it is not a 200."""
    begin = b"GET /api/health HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n"
    with connected(address, timeout=2.0, tls=tls) as caller:
        caller.sendall(begin)
        answer = b""
        while more := caller.recv(1 << 16):
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise ValueError(head.partition(b"\r\n")[0])
    state: dict[str, Any] = json.loads(body)
    return state


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"process {pid} has gone")


def processor_s(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _send_all(address: str) -> None:
    """What is for HTTP/1.1, and bodies without end: in one piece, in large chunks, in tiny ones."""
    for data in http_probes(Path("nowhere")).values():
        send(address, data, patience=0.05)
    head = b"POST /api/workflows HTTP/1.1\r\nHost: n\r\nContent-Type: application/json\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    pour(address, head + b"Content-Length: %d\r\n\r\n" % HUGE, bytes(MIB))
    pour(address, chunked, b"100000\r\n" + bytes(MIB) + b"\r\n")
    pour(address, chunked, b"1\r\n0\r\n" * 100_000)


if __name__ == "__main__":
    {"watch": _watch, "send": _send_all}[sys.argv[1]](*json.loads(sys.argv[2]))
