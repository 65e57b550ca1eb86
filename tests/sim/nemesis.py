"""What goes wrong, and whether it really did."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raftflow.cluster.consensus.types import Role
from raftflow.raftlog import segment
from tests.sim.clock import BEGAN

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World


RELENTS_S = 5.0
WEIGHTS = {
    "kill": 4,
    "pause": 3,
    "partition": 4,
    "bridge": 1,
    "one_way": 3,
    "deaf": 1,
    "flapping": 1,
    "slow_link": 2,
    "thin_link": 2,
    "reset": 3,
    "transfer": 2,
    "power_loss": 4,
    "power_loss_everywhere": 1,
    "slow_disk": 2,
    "disk_error": 2,
    "clock_jump": 2,
    "clock_strobe": 1,
    "join": 3,
    "leave": 3,
    "lost_disk": 3,
    "rot": 3,
    "lost_state": 1,
}


class Nemesis:
    """Each fault says whether it took effect: at once, or by counting when it is over."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random()
        self._number = 0
        self.effective: Counter[str] = Counter()
        self.stopped = False
        self._strobing: set[str] = set()  # also while they are right
        names = world.options.faults
        self._faults: list[Callable[[], bool]] = [getattr(self, "_" + name) for name in names]
        self._weights = [WEIGHTS[name] for name in names]

    def begin(self) -> None:
        self._world.clock.after(1.2, self._strike)

    @property
    def strikes(self) -> int:
        """How many there were."""
        return self._number

    def _strike(self) -> None:
        """Each has its own chance, so that leaving some out leaves the others as they were."""
        if self.stopped:
            return
        world, number = self._world, self._number
        self._number += 1
        self._rng = rng = random.Random(f"strike {number} of {world.seed}")
        # It relents: a cluster that is hit without a pause never commits anything.
        too_long_s = max(0.0, world.clock.now - BEGAN - world.strife_s) if world.lags else 0.0
        patience = 1.0 + too_long_s / RELENTS_S
        again_s = world.options.pace * rng.uniform(0.2, 1.8) * patience
        if world.schedule.strikes_at(number):
            fault = rng.choices(self._faults, self._weights)[0]
            if fault():
                self.effective[fault.__name__.strip("_")] += 1
        world.clock.after(again_s, self._strike)

    def _victim(self) -> SimNode | None:
        """Half of the time the leader: it has the most to lose."""
        nodes = self._world.running()
        if not nodes:
            return None
        leaders = [node for node in nodes if node.core.role is Role.LEADER]
        return self._rng.choice(leaders if leaders and self._rng.random() < 0.5 else nodes)

    def _log(self, what: str) -> None:
        self._world.trace(f"-- {what}")

    def _kill(self) -> bool:
        return self._stop(power=False)

    def _power_loss(self) -> bool:
        return self._stop(power=True)

    def _stop(self, *, power: bool) -> bool:
        node = self._victim()
        if node is None:
            return False
        self._log(f"{'power loss at' if power else 'kill'} {node.name}")
        node.kill(power=power)
        self._world.restart_after(node, self._rng.uniform(0.05, 2.0))
        return True

    def _power_loss_everywhere(self) -> bool:
        nodes = [node for node in self._world.nodes.values() if node.alive]
        self._log("power loss everywhere")
        for node in nodes:
            node.kill(power=True)
            self._world.restart_after(node, self._rng.uniform(0.05, 0.4))
        return bool(nodes)

    def _pause(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        seconds = self._rng.uniform(0.05, 2.5)
        self._log(f"pause {node.name} for {seconds:.2f} s")
        node.pause(seconds)
        return True

    def _partition(self) -> bool:
        names = list(self._world.names)
        self._rng.shuffle(names)
        size = self._rng.randrange(1, len(names))
        left, right = names[:size], names[size:]
        self._log(f"partition {''.join(left)} | {''.join(right)}")
        self._cut("partition", [(a, b) for a in left for b in right], both=True)
        return False

    def _bridge(self) -> bool:
        """Two halves that hear one node in common."""
        names = list(self._world.names)
        self._rng.shuffle(names)
        bridge, others = names[0], names[1:]
        half = len(others) // 2
        self._log(f"bridge {''.join(others[:half])} - {bridge} - {''.join(others[half:])}")
        self._cut("bridge", [(a, b) for a in others[:half] for b in others[half:]], both=True)
        return False

    def _one_way(self) -> bool:
        a, b = self._rng.sample(self._world.names, 2)
        self._log(f"cut {a} -> {b}")
        self._cut("one_way", [(a, b)])
        return False

    def _deaf(self) -> bool:
        """It sends, and hears nobody."""
        node = self._victim()
        if node is None:
            return False
        self._log(f"{node.name} is deaf")
        self._cut("deaf", [(name, node.name) for name in self._world.names if name != node.name])
        return False

    def _flapping(self) -> bool:
        """A connection that comes and goes."""
        a, b = self._rng.sample(self._world.names, 2)
        times = self._rng.randrange(3, 8)
        self._log(f"{a} - {b} flaps {times} times")

        def flap(left: int) -> None:
            self.effective["flapping"] += self._world.network.reset(a, b) and left == 1
            if left > 1 and not self.stopped:
                self._world.clock.after(0.12, lambda: flap(left - 1))

        flap(times)
        return False

    def _cut(self, name: str, pairs: list[tuple[str, str]], *, both: bool = False) -> None:
        if both:
            pairs = pairs + [(b, a) for a, b in pairs]
        for a, b in pairs:
            self._world.network.cut(a, b)
        if self._rng.random() < 0.5:
            # The sockets give up at some time, and what they hold is gone.
            self._world.clock.after(self._rng.uniform(0.2, 2.0), self._give_up)
        self._mend_link_after(self._rng.uniform(0.1, 2.5), name, pairs)

    def _mend_link_after(self, seconds: float, name: str, pairs: list[tuple[str, str]]) -> None:
        """The fault took effect if something was sent meanwhile."""
        links = [self._world.network.links[pair] for pair in pairs]
        before = sum(link.sent for link in links)

        def mend() -> None:
            self.effective[name] += sum(link.sent for link in links) > before
            self._log("heal the network")
            self._world.network.heal()

        self._world.clock.after(seconds, mend)

    def _give_up(self) -> None:
        for (a, b), link in self._world.network.links.items():
            if link.cut:
                self._world.network.reset(a, b)

    def _slow_link(self) -> bool:
        a, b = self._rng.sample(self._world.names, 2)
        link = self._world.network.links[a, b]
        link.delay_s = self._rng.choice((0.02, 0.05, 0.15, 0.3))
        link.jitter_s = link.delay_s
        self._log(f"delay {a} -> {b} {link.delay_s} s")
        self._mend_link_after(self._rng.uniform(0.5, 2.5), "slow_link", [(a, b)])
        return False

    def _thin_link(self) -> bool:
        a, b = self._rng.sample(self._world.names, 2)
        self._world.network.links[a, b].bytes_per_s = self._rng.choice((2_000, 10_000, 50_000))
        self._log(f"bandwidth {a} -> {b}")
        self._mend_link_after(self._rng.uniform(0.5, 2.5), "thin_link", [(a, b)])
        return False

    def _reset(self) -> bool:
        a, b = self._rng.sample(self._world.names, 2)
        self._log(f"reset {a} - {b}")
        return self._world.network.reset(a, b)

    def _slow_disk(self) -> bool:
        node = self._rng.choice(list(self._world.nodes.values()))
        before = node.flushes
        node.flush_s = self._rng.choice((0.01, 0.05, 0.3, 1.0))
        self._log(f"fsync takes {node.flush_s} s on {node.name}")

        def recover() -> None:
            self.effective["slow_disk"] += node.flushes > before
            node.flush_s = 0.001

        self._world.clock.after(self._rng.uniform(0.3, 1.5), recover)
        return False

    def _transfer(self) -> bool:
        leaders = [n for n in self._world.running() if n.core.role is Role.LEADER]
        if not leaders:
            return False
        node = self._rng.choice(leaders)
        others = [name for name in self._world.names if name != node.name]
        to = self._rng.choice([None, *others])
        self._log(f"transfer leadership from {node.name} to {to}")
        started: list[bool] = []
        node.do(lambda: started.append(node.core.transfer_leadership(to)))
        node.do(node.core.tick)
        return started == [True]

    def _disk_error(self) -> bool:
        """Its next fsync fails, and the page cache goes on as if nothing had happened."""
        node = self._victim()
        if node is None:
            return False
        self._log(f"the next fsync of {node.name} fails")
        node.disk.fail_at_sync = True

        def count() -> None:
            self.effective["disk_error"] += not node.disk.fail_at_sync

        self._world.clock.after(0.5, count)
        return False

    # -- members

    def _join(self) -> bool:
        return self._world.operator.join()

    def _leave(self) -> bool:
        node = self._victim()
        return node is not None and self._world.operator.leave(node.name)

    def _lost_disk(self) -> bool:
        node = self._victim()
        if node is None or any(each.sickness.lacking for each in self._world.nodes.values()):
            return False  # It may have the last copy of what another one lost.
        return self._world.operator.lose_disk(node.name)

    # -- rot

    def _rot(self) -> bool:
        """A record of a node that is down is damaged, and another one on each node that is: never
        the last intact copy of one that may be committed."""
        node = self._patient()
        if node is None:
            return False
        others = [each for each in self._world.nodes.values() if each is not node]
        ill = [each for each in others if each.sickness.lacking]
        found = records_of(node)
        if ill:
            # Several at once: what is committed, so that a majority has it, and no end of a log.
            commit = min(each.core.commit_index for each in self._world.nodes.values())
            taken = {index for each in ill for index in each.sickness.rotten}
            found = [r for r in found if r[2] not in taken and r[2] < commit]
        if not found:
            return False
        path, offset, index, size = self._rng.choice(found)
        self._log(f"entry {index} on the disk of {node.name} rots")
        node.sickness.rotten.add(index)
        zeroed = self._rng.random() < 0.3
        node.disk.spoil(path, offset + self._rng.randrange(size), zeroed=zeroed)
        return True

    def _lost_state(self) -> bool:
        node = self._patient()
        nodes = self._world.nodes.values()
        if node is None or any(each.sickness.lacking for each in nodes if each is not node):
            return False
        self._log(f"{node.name} loses its state, not its log")
        node.durable = type(node.durable)()
        node.sickness.rotten.add(0)
        return True

    def _patient(self) -> SimNode | None:
        """A voter on the disk that it is known by, and now it is down."""
        world = self._world
        leader = world.leader()
        node = self._victim()
        if leader is None or node is None or node.sickness.lacking:
            return None
        newest = leader.core.configuration
        if newest.index > leader.core.commit_index:
            return None  # The others may not know of it, and by what they know be too few.
        members = newest.configuration.members
        held = node.membership.held
        if held is None or min(len(members), len(held.configuration.members)) < 3:
            return None  # Nobody could repair it, or lead while it abstains.
        if not all(m.voter and world.nodes[m.id].disk_id == m.incarnation for m in members):
            known = all(m.voter and not m.incarnation for m in members)
            if not known or any(each.disks > 1 for each in world.nodes.values()):
                return None
        if node.name not in {member.id for member in members}:
            return None
        node.kill(power=False)
        world.restart_after(node, self._rng.uniform(0.05, 2.0))
        return node

    # -- wall clocks, where nodes have them

    def _clock_jump(self) -> bool:
        """Somebody sets the clock of a minority."""
        node = self._minority_clock()
        if node is None:
            return False
        node.skew_ms += self._rng.choice((-3_600_000, 3_600_000, 30 * 86_400_000, -5_000, 5_000))
        self._log(f"the clock of {node.name} is {node.skew_ms} ms off")
        return True

    def _clock_strobe(self) -> bool:
        """One that cannot decide."""
        node = self._minority_clock()
        if node is None:
            return False
        self._log(f"the clock of {node.name} strobes")
        rights = node.skew_ms
        self._strobing.add(node.name)

        def strobe(left: int) -> None:
            node.skew_ms = rights if left % 2 == 0 or self.stopped else rights + 200_000
            if left and not self.stopped:
                self._world.clock.after(0.11, lambda: strobe(left - 1))
            else:
                self._strobing.discard(node.name)

        strobe(9)
        return True

    def _minority_clock(self) -> Any:
        """One clock is wrong at a time: of those that a leader knows, a majority is right."""
        nodes: list[Any] = list(self._world.nodes.values())
        wrong = [
            node
            for node in nodes
            if node.skew_ms != node.usual_skew_ms or node.name in self._strobing
        ]
        if len(nodes) == 1:
            return None
        return wrong[0] if wrong else self._rng.choice(nodes)


def records_of(node: SimNode) -> list[tuple[str, int, int, int]]:
    """(file, offset, index, size) of what lies on the disk of a node, and counts."""
    found = {}
    for segment_id in segment.segment_ids(node.disk.listdir("/raft")):
        scan, _ = segment.scan(node.disk, "/raft", segment_id)
        for position, offset in enumerate(scan.ends[:-1]):
            index = scan.header.prev_index + 1 + position
            size = scan.ends[position + 1] - offset
            found[index] = (scan.path, offset, index, size)
    last = node.journal.last_index
    return [record for record in found.values() if record[2] <= last]
