"""What goes wrong, and whether it really did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from raftflow.cluster.consensus.types import Role

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World


class Nemesis:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rng
        self.effective: Counter[str] = Counter()
        self.stopped = False
        self._faults: list[tuple[int, Callable[[], bool]]] = [
            (4, self._kill),
            (4, self._power_loss),
            (1, self._power_loss_everywhere),
            (3, self._pause),
            (4, self._partition),
            (3, self._one_way),
            (2, self._slow_link),
            (2, self._thin_link),
            (3, self._reset),
            (2, self._slow_disk),
            (2, self._transfer),
        ]
        world.clock.after(1.2, self._strike)

    def _strike(self) -> None:
        if self.stopped:
            return
        weights = [weight for weight, _fault in self._faults]
        fault = self._rng.choices(self._faults, weights)[0][1]
        name = fault.__name__.strip("_")
        if fault():
            self.effective[name] += 1
        self._world.clock.after(self._rng.uniform(0.1, 0.9), self._strike)

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
        sides = names[: (size := self._rng.randrange(1, len(names)))], names[size:]
        self._log(f"partition {''.join(sides[0])} | {''.join(sides[1])}")
        for a in sides[0]:
            for b in sides[1]:
                self._world.network.cut(a, b)
                self._world.network.cut(b, a)
        self._heal_later()
        return True

    def _one_way(self) -> bool:
        a, b = self._rng.sample(self._world.names, 2)
        self._log(f"cut {a} -> {b}")
        self._world.network.cut(a, b)
        self._heal_later()
        return True

    def _heal_later(self) -> None:
        if self._rng.random() < 0.5:
            # The sockets give up at some time, and what they hold is gone.
            self._world.clock.after(self._rng.uniform(0.2, 2.0), self._give_up)
        self._world.clock.after(self._rng.uniform(0.1, 2.5), self._heal)

    def _give_up(self) -> None:
        for (a, b), link in self._world.network.links.items():
            if link.cut:
                self._world.network.reset(a, b)

    def _heal(self) -> None:
        self._log("heal the network")
        self._world.network.heal()

    def _slow_link(self) -> bool:
        a, b = self._rng.sample(self._world.names, 2)
        link = self._world.network.links[a, b]
        link.delay_s = self._rng.choice((0.02, 0.05, 0.15, 0.3))
        link.jitter_s = link.delay_s
        self._log(f"delay {a} -> {b} {link.delay_s} s")
        self._world.clock.after(self._rng.uniform(0.5, 2.5), self._heal)
        return True

    def _thin_link(self) -> bool:
        a, b = self._rng.sample(self._world.names, 2)
        self._world.network.links[a, b].bytes_per_s = self._rng.choice((2_000, 10_000, 50_000))
        self._log(f"bandwidth {a} -> {b}")
        self._world.clock.after(self._rng.uniform(0.5, 2.5), self._heal)
        return True

    def _reset(self) -> bool:
        a, b = self._rng.sample(self._world.names, 2)
        self._log(f"reset {a} - {b}")
        return self._world.network.reset(a, b)

    def _slow_disk(self) -> bool:
        node = self._rng.choice(list(self._world.nodes.values()))
        node.flush_s = self._rng.choice((0.01, 0.05, 0.3, 1.0))
        self._log(f"fsync takes {node.flush_s} s on {node.name}")

        def recover() -> None:
            node.flush_s = 0.001

        self._world.clock.after(self._rng.uniform(0.3, 1.5), recover)
        return node.alive

    def _transfer(self) -> bool:
        leaders = [n for n in self._world.running() if n.core.role is Role.LEADER]
        if not leaders:
            return False
        node = self._rng.choice(leaders)
        others = [name for name in self._world.names if name != node.name]
        to = self._rng.choice([None, *others])
        self._log(f"transfer leadership from {node.name} to {to}")
        started = node.core.transfer_leadership(to)
        node.core.tick()
        return started
