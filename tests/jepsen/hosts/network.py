"""Network namespaces of the nodes, and the switch between them.

Everything here is held by descriptors of this process: when it ends, the namespaces, the devices in
them and the switch are gone. The machine's own network is never touched (see `isolation`).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.jepsen.hosts.switch import MAX_MESSAGE, MTU

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
IFF_UP, IFF_RUNNING = 0x1, 0x40
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFMTU = 0x8914, 0x8916, 0x891C, 0x8922
OWN_NAMESPACE = "/proc/thread-self/ns/net"
CLIENT = "client"  # the host where the runner, the clients and the workers live
ANSWER_S = 10.0

Links = Iterable[tuple[str, str]]

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


@contextlib.contextmanager
def _new_namespace() -> Iterator[int]:
    """This thread is in a new network namespace within; yields a descriptor of it."""
    home = os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(_libc.unshare(CLONE_NEWNET), "unshare")
        yield os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        _checked(_libc.setns(home, CLONE_NEWNET), "setns")
        os.close(home)


def _interface(name: str, payload: bytes) -> bytes:
    return struct.pack("16s24s", name.encode(), payload)


def _set_up(name: str, address: str = "") -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:

        def order(number: int, payload: bytes) -> None:
            fcntl.ioctl(probe, number, _interface(name, payload))

        if address:
            words = struct.pack("<HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
            order(SIOCSIFADDR, words)
            mask = struct.pack("<HH4s8x", socket.AF_INET, 0, socket.inet_aton("255.255.255.0"))
            order(SIOCSIFNETMASK, mask)
            order(SIOCSIFMTU, struct.pack("<i", MTU))
        order(SIOCSIFFLAGS, struct.pack("<h", IFF_UP | IFF_RUNNING))


def _tun(address: str) -> int:
    """A device of the namespace this thread is in; what it sends is read from the descriptor."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"jepsen0", IFF_TUN | IFF_NO_PI))
    _set_up("lo")
    _set_up("jepsen0", address)
    return device


class Network:
    """`nodes` in namespaces of their own, the caller as `CLIENT`, the switch between them."""

    def __init__(self, nodes: list[str]) -> None:
        self.nodes = nodes
        self._lock = threading.Lock()
        self._namespaces: dict[str, int] = {}
        devices = {CLIENT: _tun(self.address(CLIENT))}
        for node in nodes:
            with _new_namespace() as namespace:
                self._namespaces[node] = namespace
                devices[node] = _tun(self.address(node))
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(ANSWER_S)
        self.switch = subprocess.Popen(
            [
                *(sys.executable, "-S", str(Path(__file__).with_name("switch.py"))),
                str(theirs.fileno()),
                *(f"{name}={device}={self.address(name)}" for name, device in devices.items()),
            ],
            pass_fds=[theirs.fileno(), *devices.values()],
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        for device in devices.values():
            os.close(device)

    def address(self, name: str) -> str:
        return f"10.77.0.{1 + self.nodes.index(name) if name in self.nodes else 254}"

    def wrapper(self, node: str) -> tuple[str, ...]:
        """Words before a command that run it on the node's network."""
        return ("nsenter", f"--net=/proc/{os.getpid()}/fd/{self._namespaces[node]}", "--")

    def shape(self, links: Links, **rule: float) -> None:
        """The same rule (see `switch.Link.set`) for each of these directions."""
        self._order({"set": [[source, target, rule] for source, target in links]})

    def cut(self, links: Links) -> None:
        self.shape(links, loss=1.0)

    def heal(self) -> dict[str, int]:
        """All links whole. What the switch has done since the beginning, over all links."""
        return _total(self._order({"heal": True}))

    def counts(self) -> dict[str, int]:
        return _total(self._order({"stats": True}))

    def between(self, *nodes: str) -> list[tuple[str, str]]:
        """Both directions of every pair of these nodes."""
        return list(itertools.permutations(nodes, 2))

    def across(self, one: Iterable[str], other: Iterable[str]) -> list[tuple[str, str]]:
        """Both directions between two groups."""
        pairs = list(itertools.product(one, other))
        return pairs + [(target, source) for source, target in pairs]

    def close(self) -> None:
        self._control.close()
        self.switch.wait(ANSWER_S)
        for namespace in self._namespaces.values():
            os.close(namespace)

    def _order(self, order: dict[str, object]) -> dict[str, dict[str, int]]:
        with self._lock:
            self._control.send(json.dumps(order).encode())
            answer: dict[str, dict[str, int]] = json.loads(self._control.recv(MAX_MESSAGE))
        return answer


def _total(links: dict[str, dict[str, int]]) -> dict[str, int]:
    total = {"packets": 0, "dropped": 0, "doubled": 0, "late": 0}
    for counts in links.values():
        for name, count in counts.items():
            total[name] += count
    return total
