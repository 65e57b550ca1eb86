"""Links between the nodes: like TCP, in order and whole, until the connection breaks.

Each direction of a pair has its own delay, bandwidth and cut. A cut link swallows nothing: what is
sent waits, as in a socket, until the cut ends or one side gives the connection up, and then both
sides lose what is under way.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.sim.clock import Clock

Deliver = Callable[[str, bytes], None]


@dataclass(slots=True)
class Link:
    """One direction."""

    rng: random.Random
    delay_s: float = 0.0003
    jitter_s: float = 0.0005
    bytes_per_s: float = 0.0  # 0 = as fast as it goes
    cut: bool = False
    queue: deque[tuple[float, bytes]] = field(default_factory=deque)
    free_at: float = 0.0
    epoch: int = 0  # a broken connection's messages never arrive
    sent: int = 0


@dataclass(slots=True)
class Endpoint:
    deliver: Deliver
    connected: Callable[[str], None]
    disconnected: Callable[[str], None]
    # Whether it would call this one, and whether it would take a call from it.
    calls: Callable[[str], bool] = lambda _name: True
    welcomes: Callable[[str], bool] = lambda _name: True


class Network:
    def __init__(
        self, clock: Clock, rng: random.Random, names: list[str], *, bytes_per_s: float = 0.0
    ) -> None:
        self._clock = clock
        self._rng = rng
        self.names = names
        self._bytes_per_s = bytes_per_s  # of a link that nothing is wrong with
        self.links = {(a, b): self._link() for a in names for b in names if a != b}
        self._endpoints: dict[str, Endpoint] = {}
        self._connected: set[tuple[str, str]] = set()
        self._believes: set[tuple[str, str]] = set()  # (a, b): a was told that b is connected
        self._connecting: set[tuple[str, str]] = set()
        self.messages = 0
        self.lost = 0  # messages that died with their connection
        self.buffer_bytes = 4 << 20

    def _link(self) -> Link:
        # Chance of its own: what one link carries leaves the others as they would be.
        rng = random.Random(self._rng.getrandbits(64))
        return Link(rng=rng, bytes_per_s=self._bytes_per_s)

    # -- nodes

    def add(self, name: str) -> None:
        """A node that was not there at the beginning; the list of names is the world's."""
        for other in self.names:
            if other != name:
                self.links[name, other], self.links[other, name] = self._link(), self._link()

    def meet(self, name: str) -> None:
        """It knows other peers now: connect to those, leave the others."""
        for other in self.names:
            if other != name and name in self._endpoints and other in self._endpoints:
                self._connect_soon(name, other)

    def part(self, a: str, b: str) -> None:
        """One of them does not count the other among the members any more."""
        self._break(a, b, notice_s=0.0005)

    def attach(self, name: str, endpoint: Endpoint) -> None:
        self._endpoints[name] = endpoint
        for other in self.names:
            if other in self._endpoints and other != name:
                self._connect_soon(name, other)

    def detach(self, name: str, *, reset: bool) -> None:
        """The process is gone. With `reset` its peers learn it at once, else they time out."""
        self._endpoints.pop(name)
        for other in self.names:
            if other != name:
                self._believes.discard((name, other))
                self._break(name, other, notice_s=0.0005 if reset else self._rng.uniform(1.0, 2.0))

    def is_connected(self, a: str, b: str) -> bool:
        return (a, b) in self._connected

    # -- faults

    def cut(self, source: str, target: str) -> None:
        self.links[source, target].cut = True

    def heal(self) -> None:
        """All links are fast again, also for what waits in them."""
        for (source, target), link in self.links.items():
            link.delay_s, link.jitter_s = 0.0003, 0.0005
            link.bytes_per_s = self._bytes_per_s
            link.cut, link.free_at = False, 0.0
            self._pump(source, target)

    def reset(self, a: str, b: str) -> bool:
        """The connection breaks, and comes back when it can."""
        if not self.is_connected(a, b):
            return False
        self._break(a, b, notice_s=0.0005)
        return True

    # -- messages

    def send(self, source: str, target: str, raw: bytes) -> bool:
        if (source, target) not in self._connected:
            self.lost += (source, target) in self._believes
            return (source, target) in self._believes
        link = self.links[source, target]
        if link.queue and sum(len(raw) for _, raw in link.queue) > self.buffer_bytes:
            return False
        self.messages += 1
        link.sent += 1
        arrives = self._clock.now + link.delay_s + link.rng.random() * link.jitter_s
        if link.bytes_per_s:
            link.free_at = max(link.free_at, self._clock.now) + len(raw) / link.bytes_per_s
            arrives = max(arrives, link.free_at + link.delay_s)
        if link.queue:
            arrives = max(arrives, link.queue[-1][0])
        link.queue.append((arrives, raw))
        if not link.cut:
            self._schedule(source, target, arrives)
        return True

    def _schedule(self, source: str, target: str, at: float) -> None:
        epoch = self.links[source, target].epoch
        self._clock.after(
            max(0.0, at - self._clock.now), lambda: self._arrive(source, target, epoch)
        )

    def _arrive(self, source: str, target: str, epoch: int) -> None:
        link = self.links[source, target]
        if link.epoch != epoch or link.cut or not link.queue:
            return
        at, raw = link.queue[0]
        if at > self._clock.now:
            self._schedule(source, target, at)
            return
        link.queue.popleft()
        self._endpoints[target].deliver(source, raw)

    def _pump(self, source: str, target: str) -> None:
        link = self.links[source, target]
        for position, (at, raw) in enumerate(link.queue):
            soon = min(max(at, self._clock.now), self._clock.now + link.delay_s)
            link.queue[position] = (soon, raw)
            self._schedule(source, target, soon)

    # -- connections

    def _connect_soon(self, a: str, b: str) -> None:
        pair = (min(a, b), max(a, b))
        if pair not in self._connecting:
            self._connecting.add(pair)
            self._clock.after(self._rng.uniform(0.002, 0.03), lambda: self._connect(*pair))

    def _connect(self, a: str, b: str) -> None:
        self._connecting.discard((a, b))
        if a not in self._endpoints or b not in self._endpoints or self.is_connected(a, b):
            return
        if self.links[a, b].cut or self.links[b, a].cut:
            self._connect_soon(a, b)
            return
        one, other = self._endpoints[a], self._endpoints[b]
        if not (one.calls(b) and other.welcomes(a)) and not (other.calls(a) and one.welcomes(b)):
            return
        self._connected |= {(a, b), (b, a)}
        for me, peer in ((a, b), (b, a)):
            self._tell_lost(me, peer)
            self._believes.add((me, peer))
            self._endpoints[me].connected(peer)

    def _break(self, a: str, b: str, *, notice_s: float) -> None:
        if not self.is_connected(a, b):
            return
        self._connected -= {(a, b), (b, a)}
        for me, other in ((a, b), (b, a)):
            link = self.links[me, other]
            self.lost += len(link.queue)
            link.queue.clear()
            link.epoch += 1
            self._clock.after(notice_s, lambda m=me, o=other, e=link.epoch: self._notice(m, o, e))
        self._clock.after(notice_s, lambda: self._connect_soon(a, b))

    def _notice(self, me: str, other: str, epoch: int) -> None:
        if self.links[me, other].epoch == epoch and not self.is_connected(me, other):
            self._tell_lost(me, other)

    def _tell_lost(self, me: str, other: str) -> None:
        if (me, other) in self._believes:
            self._believes.discard((me, other))
            self._endpoints[me].disconnected(other)
