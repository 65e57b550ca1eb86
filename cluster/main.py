"""The process of one node: from a configuration to an orderly exit."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import signal
import sys
from typing import Any

import structlog
import uvloop

from raftflow.cluster import logs
from raftflow.cluster.background import end
from raftflow.cluster.config import Config
from raftflow.cluster.consensus.ending import EXIT_REFUSED
from raftflow.cluster.consensus.identity import IdentityError
from raftflow.cluster.consensus.mesh import AddressUnavailable
from raftflow.cluster.consensus.outcast import Outcast
from raftflow.cluster.consensus.types import ConsensusBroken
from raftflow.cluster.errors import PortInUse, StartRefused
from raftflow.cluster.node import Node
from raftflow.cluster.store import StoreError
from raftflow.raftlog.errors import JournalError

log = structlog.get_logger("raftflow.main")

_M_MMAP_THRESHOLD = -3  # of <malloc.h>
_LARGE_BYTES = 512 << 10

# Each says in one sentence what is wrong with which file or address, and the way out.
_REFUSALS = (
    JournalError,
    StoreError,
    IdentityError,
    ConsensusBroken,
    AddressUnavailable,
    PortInUse,
    StartRefused,
)


def run(config: Config) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit status; what stops a start is said in one
    sentence on standard error."""
    if sys.flags.optimize:
        # An invariant that is not checked is not one.
        print("raftflow: refuses to run under python -O (assertions off)", file=sys.stderr)
        return EXIT_REFUSED
    _give_memory_back()
    logs.configure(level=config.log_level, style=config.log_format, node_id=config.node_id)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(config))
    except _REFUSALS as error:
        log.error("start_refused", reason=str(error))
        print(f"raftflow: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except Outcast as error:
        log.error("node_outcast", reason=str(error))
        print(f"raftflow: {error}", file=sys.stderr)
        return EXIT_REFUSED
    return 0


async def _serve(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node = Node(config)
    if config.tls_cert_file or config.peer_cert_file:
        # Without certificates a terminal that hangs up ends the node, as it does other programs.
        loop.add_signal_handler(signal.SIGHUP, node.read_certificates)
    try:
        stopping: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        if not await _started(node, stopping):
            return
        _spare_the_collector()
        told: list[asyncio.Future[Any]] = [stopping, node.outcast]
        await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED)
        log.info("stopping")
        if node.outcast.done():
            raise node.outcast.result()
    finally:
        await node.stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # It ends already: a second request must not change its exit status.
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


async def _started(node: Node, stopping: asyncio.Future[Any]) -> bool:
    """A start may have to wait for other nodes, so that it too can be stopped."""
    starting: asyncio.Future[Any] = asyncio.ensure_future(node.start())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        await end(starting)
        return False
    starting.result()
    return True


def _give_memory_back() -> None:
    """Once glibc has seen blocks of megabytes come and go it keeps them, in pieces: after a burst
    of large payloads a node held 640 MiB that nobody used. With a fixed bound they go back."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # others have no such habit
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def _spare_the_collector() -> None:
    """Aggregates live long and hold no cycles: with Python's own settings a walk over fifty
    thousand of them would stop the loop for half a second, again and again. These keep the usual
    pauses below 10 ms; full walks come once in tens of millions of new objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 5, 1_000)
