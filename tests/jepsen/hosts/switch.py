"""A packet switch in user space: what arrives from one host's TUN device leaves by another's.

It runs as a process of its own (`python switch.py CONTROL_FD NAME=FD=ADDRESS...`). Each direction
of each link has a `Link` that says what becomes of a packet: dropped, doubled, late, or late since
the line is slow. The kernel's netem does the same and is missing in many kernels.

Control: one JSON object a message on a SOCK_SEQPACKET socket; each is answered with one.
  {"set": [["n1", "n2", {"loss": 0.1, "delay_ms": 30, ...}], ...]}   {} makes the link whole again
  {"heal": true}          all links whole; the answer tells what the faults did meanwhile
  {"stats": true}         packets and what became of them, a link
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import random
import selectors
import socket
import sys
import time

MTU = 9_000
BURST = 64  # packets of one host before the others have their turn
QUEUE_S = 2.0  # what a slow line holds; beyond it packets are lost, as with any router
MAX_MESSAGE = 1 << 20


class Link:
    """One direction between two hosts. Whole unless told otherwise."""

    __slots__ = (
        *("bytes_per_s", "delay", "doubled", "dropped", "duplicate", "free_at"),
        *("jitter", "late", "loss", "packets", "whole"),
    )

    def __init__(self) -> None:
        self.packets = self.dropped = self.doubled = self.late = 0
        self.set()

    def set(
        self,
        *,
        loss: float = 0.0,
        duplicate: float = 0.0,
        delay_ms: float = 0.0,
        jitter_ms: float = 0.0,
        bytes_per_s: float = 0.0,
    ) -> None:
        self.loss = loss
        self.duplicate = duplicate
        self.delay = delay_ms / 1_000
        self.jitter = jitter_ms / 1_000
        self.bytes_per_s = bytes_per_s
        self.free_at = 0.0
        self.whole = not (loss or duplicate or delay_ms or jitter_ms or bytes_per_s)

    def departures(self, size: int, now: float, chance: random.Random) -> list[float]:
        """When the packet leaves: never, once or twice."""
        if self.loss and chance.random() < self.loss:
            self.dropped += 1
            return []
        when = now + self.delay + (self.jitter and chance.random() * self.jitter)
        if self.bytes_per_s:
            start = max(now, self.free_at)
            if start - now > QUEUE_S:
                self.dropped += 1
                return []
            self.free_at = start + size / self.bytes_per_s
            when += self.free_at - now
        self.late += when > now
        if self.duplicate and chance.random() < self.duplicate:
            self.doubled += 1
            return [when, when]
        return [when]

    def counts(self) -> dict[str, int]:
        return {
            "packets": self.packets,
            "dropped": self.dropped,
            "doubled": self.doubled,
            "late": self.late,
        }


class Switch:
    def __init__(self, control: socket.socket, ports: dict[str, tuple[int, str]]) -> None:
        self._control = control
        self._names = list(ports)
        self._devices = [device for device, _ in ports.values()]
        self._host_of = {
            socket.inet_aton(address): index for index, (_, address) in enumerate(ports.values())
        }
        self._links = [[Link() for _ in ports] for _ in ports]
        self._queue: list[tuple[float, int, int, bytes]] = []
        self._numbers = itertools.count()
        self._chance = random.Random(0)
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, -1)
        for index, device in enumerate(self._devices):
            os.set_blocking(device, False)
            self._selector.register(device, selectors.EVENT_READ, index)

    def run(self) -> None:
        """Until the control socket is closed."""
        while True:
            patience = None
            if self._queue:
                patience = max(0.0, self._queue[0][0] - time.monotonic())
            for key, _ in self._selector.select(patience):
                if key.data < 0:
                    if not self._obey():
                        return
                else:
                    self._forward(key.data)
            self._send_due()

    def _forward(self, source: int) -> None:
        device = self._devices[source]
        links = self._links[source]
        for _ in range(BURST):
            try:
                packet = os.read(device, MTU)
            except BlockingIOError:
                return
            target = self._host_of.get(packet[16:20])
            if target is None or packet[0] >> 4 != 4:
                continue
            link = links[target]
            link.packets += 1
            if link.whole:
                self._write(target, packet)
                continue
            now = time.monotonic()
            for when in link.departures(len(packet), now, self._chance):
                if when <= now:
                    self._write(target, packet)
                else:
                    heapq.heappush(self._queue, (when, next(self._numbers), target, packet))

    def _send_due(self) -> None:
        now = time.monotonic()
        while self._queue and self._queue[0][0] <= now:
            _, _, target, packet = heapq.heappop(self._queue)
            self._write(target, packet)

    def _write(self, target: int, packet: bytes) -> None:
        try:
            os.write(self._devices[target], packet)
        except OSError:
            pass  # a full or closed device loses packets, as a wire does

    def _obey(self) -> bool:
        raw = self._control.recv(MAX_MESSAGE)
        if not raw:
            return False
        order = json.loads(raw)
        for source, target, rule in order.get("set", ()):
            self._link(source, target).set(**rule)
        answer = self._stats()
        if order.get("heal"):
            for link in itertools.chain.from_iterable(self._links):
                link.set()
        self._control.send(json.dumps(answer).encode())
        return True

    def _link(self, source: str, target: str) -> Link:
        return self._links[self._names.index(source)][self._names.index(target)]

    def _stats(self) -> dict[str, dict[str, int]]:
        return {
            f"{source}>{target}": self._link(source, target).counts()
            for source in self._names
            for target in self._names
            if source != target
        }


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    ports = {}
    for word in sys.argv[2:]:
        name, device, address = word.split("=")
        ports[name] = (int(device), address)
    Switch(control, ports).run()


if __name__ == "__main__":
    main()
