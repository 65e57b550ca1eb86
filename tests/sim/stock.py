"""PySyncObj as it is shipped, in the same world: process crashes only, its journal kept.

It must go on failing here (CONSENSUS): a simulator that finds nothing on stock finds nothing.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
import zlib
from typing import TYPE_CHECKING, Any

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated
from pysyncobj import syncobj as engine
from pysyncobj.node import Node as RaftNode
from pysyncobj.transport import Transport

from raftflow.cluster.consensus.core import ROLES
from raftflow.cluster.consensus.types import Role
from tests.sim.checkers import require
from tests.sim.network import Endpoint
from tests.sim.node import TICK_S, SimNode
from tests.sim.options import ANYWHERE, BETWEEN_NODES, Options
from tests.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

LATENCY_S = 1e-5


class StockTransport(Transport):  # type: ignore[misc]
    def __init__(self, node: StockNode) -> None:
        super().__init__(None, None, None)
        self._node = node

    def send(self, target: RaftNode, message: Any) -> bool:
        return self._node.world.network.send(self._node.name, target.id, pickle.dumps(message))


class StockCore(SyncObj):  # type: ignore[misc]
    """What the world asks of a core, answered by the stock object."""

    def __init__(self, node: StockNode) -> None:
        self._node_of = lambda: node
        world = node.world
        super().__init__(
            RaftNode(node.name),
            [RaftNode(name) for name in world.names if name != node.name],
            SyncObjConf(
                autoTick=False,
                useFork=False,
                journalFile=f"{node.folder}/journal",
                fullDumpFile=f"{node.folder}/dump",
                logCompactionMinEntries=40,
                logCompactionMinTime=10**6,
                logCompactionBatchSize=300,
                appendEntriesBatchSizeBytes=400,
                leaderFallbackTimeout=2.0,
                onStateChanged=lambda _old, new: node.on_role(ROLES[new], self.term, None),
            ),
            nodeClass=RaftNode,
            transport=node.transport,
        )
        self.written: list[bytes] = []  # in the dump, like every attribute from here on

    @replicated
    def put(self, payload: bytes) -> None:
        self.written.append(payload)
        self._node_of().on_applied(self.raftLastApplied + 1, payload)

    @property
    def role(self) -> Role:
        return ROLES[self._SyncObj__raftState]

    @property
    def term(self) -> int:
        return self.raftCurrentTerm

    def tick(self) -> None:
        self.doTick(0.0)

    def read_index(self, done: Callable[[int | None], None]) -> None:
        done(None)

    def transfer_leadership(self, to: str | None) -> bool:
        self.transferLeadership(None if to is None else RaftNode(to))
        return True


class StockNode(SimNode):
    only_processes_crash = True

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.folder = tempfile.mkdtemp(dir="/dev/shm", prefix="stock-")
        self._calls = 0
        self._called_at = 0.0

    def start(self) -> None:
        self.alive = True
        self.incarnation += 1
        self.inbox = []
        self.paused_until = 0.0
        engine.monotonicTime = self._monotonic
        self.transport = StockTransport(self)
        self.core = StockCore(self)
        endpoint = Endpoint(self._deliver, self._connected, self._disconnected)
        self.world.network.attach(self.name, endpoint)
        self._later(self.rng.random() * TICK_S, self._tick)

    def _monotonic(self) -> float:
        """A call takes time: stock's loops end after a slice of it."""
        now = self.world.clock.now
        self._calls = self._calls + 1 if now == self._called_at else 0
        self._called_at = now
        return now + self._calls * LATENCY_S

    def kill(self, *, power: bool) -> None:
        self.alive = False
        self.world.network.detach(self.name, reset=True)

    def do(self, event: Callable[[], None]) -> None:
        try:
            event()
        except AssertionError:
            raise
        except Exception:  # noqa: BLE001  # its tick thread logs and goes on
            self.world.stats["stock exceptions"] += 1

    def _deliver(self, source: str, raw: bytes) -> None:
        def receive() -> None:
            self.transport._onMessageReceived(RaftNode(source), pickle.loads(raw))

        self._now_or_later(receive)

    def propose(self, payload: bytes) -> None:
        checks = self.world.checks

        def done(_result: object, error: int) -> None:
            if error == FAIL_REASON.SUCCESS:
                checks.acked += 1
                checks.acknowledged.append(payload)

        self.core.put(payload, callback=done)

    def on_applied(self, index: int, payload: bytes) -> None:
        log = self.core._SyncObj__raftLog
        term = log[index - log[0][1]][2]
        self.world.checks.on_applied(self, index, (term, zlib.crc32(payload)))


def run_stock(seed: int) -> World:
    """Raises a Violation when stock breaks a promise. Liveness is not asked for."""
    options = Options(nodes=5 if seed % 4 == 3 else 3, faults=(*ANYWHERE, *BETWEEN_NODES))
    world = World(seed, options=options, node_class=StockNode)
    try:
        world.strife()
        world.mend()
        world.run_for(25.0)
        states = sorted((node.core.written for node in world.nodes.values()), key=len)
        lengths = [len(state) for state in states]
        for state in states:
            require(states[-1][: len(state)] == state, "states do not differ", lengths=lengths)
        lost = set(world.checks.acknowledged) - set(states[-1])
        require(not lost, "acknowledged writes are kept", lost=len(lost))
    finally:
        for node in world.nodes.values():
            shutil.rmtree(node.folder, ignore_errors=True)
    return world
