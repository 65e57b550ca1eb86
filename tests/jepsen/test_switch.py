"""The packet switch on pairs of sockets in place of TUN devices: same reads and writes."""

import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.jepsen.hosts.switch import Link, Switch

ADDRESSES = {"a": "10.0.0.1", "b": "10.0.0.2"}


@dataclass
class Wires:
    hosts: dict[str, socket.socket]
    control: socket.socket

    def send(self, source: str, target: str, payload: bytes = b"x") -> None:
        header = bytearray(20)
        header[0] = 0x45
        header[16:20] = socket.inet_aton(ADDRESSES[target])
        self.hosts[source].send(bytes(header) + payload)

    def received(self, target: str, *, within: float = 0.2) -> bytes | None:
        self.hosts[target].settimeout(within)
        try:
            return self.hosts[target].recv(4096)[20:]
        except TimeoutError:
            return None

    def order(self, **order: object) -> dict[str, dict[str, int]]:
        self.control.send(json.dumps(order).encode())
        answer: dict[str, dict[str, int]] = json.loads(self.control.recv(1 << 16))
        return answer


@pytest.fixture
def wires() -> Iterator[Wires]:
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pairs = {name: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for name in ADDRESSES}
    ports = {name: (pair[1].fileno(), ADDRESSES[name]) for name, pair in pairs.items()}
    thread = threading.Thread(target=Switch(theirs, ports).run)
    thread.start()
    try:
        yield Wires({name: pair[0] for name, pair in pairs.items()}, control)
    finally:
        control.close()
        thread.join()
        theirs.close()
        for pair in pairs.values():
            for end in pair:
                end.close()


def test_a_packet_goes_to_its_host(wires: Wires) -> None:
    wires.send("a", "b", b"hello")
    assert wires.received("b") == b"hello"


def test_a_cut_is_of_one_direction_and_is_counted(wires: Wires) -> None:
    wires.order(set=[["a", "b", {"loss": 1.0}]])
    wires.send("a", "b")
    wires.send("b", "a", b"still")
    assert wires.received("a") == b"still"
    assert wires.received("b", within=0.05) is None
    assert wires.order(heal=True)["a>b"]["dropped"] == 1
    wires.send("a", "b", b"again")
    assert wires.received("b") == b"again"


def test_a_late_packet_comes_late_and_a_doubled_one_twice(wires: Wires) -> None:
    wires.order(set=[["a", "b", {"delay_ms": 60, "duplicate": 1.0}]])
    begun = time.monotonic()
    wires.send("a", "b", b"late")
    assert wires.received("b") == b"late"
    assert time.monotonic() - begun >= 0.06
    assert wires.received("b") == b"late"


def test_a_slow_line_sends_one_after_the_other_and_holds_only_so_much() -> None:
    link = Link()
    link.set(bytes_per_s=1_000)
    chance = random.Random(1)
    leaves = [link.departures(500, 10.0, chance) for _ in range(6)]
    assert leaves == [[10.5], [11.0], [11.5], [12.0], [12.5], []]
    assert link.counts()["dropped"] == 1


def test_what_is_no_packet_for_anybody_is_dropped(wires: Wires) -> None:
    wires.hosts["a"].send(b"\x60" + bytes(40))
    wires.send("a", "b", b"next")
    assert wires.received("b") == b"next"
