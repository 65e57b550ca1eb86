"""What a fault is, and what all of them need."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, ClassVar

from tests.jepsen.api import JSON, Request
from tests.jepsen.client import Channels, Client
from tests.jepsen.context import Run
from tests.jepsen.hosts.processes import wait_for
from tests.jepsen.outcomes import Outcome

RESTART_S = 60.0
# How long a fault may be in vain: who is to feel it may just be starting again.
FELT_S = 40.0


class NotNow(Exception):
    """The cluster is not in a state in which this fault means anything; nothing was done."""


class Fault:
    """One fault, injected once and healed once.

    `effect()` is asked before healing and says in words what shows that the fault struck; an empty
    answer fails the run: a suite whose faults do nothing proves nothing.
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()
    lasts_s: ClassVar[tuple[float, float]] = (1.0, 8.0)
    # Nodes may end by themselves while it lasts; elsewhere that is a violation.
    ends_nodes: ClassVar[bool] = False

    def __init__(self, run: Run, chance: random.Random) -> None:
        self.run = run
        # Hosts have more than the protocol; `needs` says what this fault uses of it.
        self.cluster: Any = run.cluster
        self.chance = chance
        self.victims: list[str] = []

    def inject(self) -> str:
        """What was done to whom."""
        raise NotImplementedError

    def effect(self) -> str:
        raise NotImplementedError

    def heal(self) -> None:
        raise NotImplementedError

    # ---- victims --------------------------------------------------------------------------------

    def leader(self) -> str:
        try:
            return str(self.cluster.leader(deadline=15.0))
        except AssertionError as error:
            raise NotNow(str(error)) from None

    def others(self, *nodes: str) -> list[str]:
        """The rest, in an order of chance."""
        rest = [node for node in self.cluster.ids() if node not in nodes]
        self.chance.shuffle(rest)
        return rest

    def anyone(self) -> str:
        """A leader is as likely as all followers together: it has more to lose."""
        leader = self.leader()
        return leader if self.chance.random() < 0.5 else self.others(leader)[0]

    def majority(self) -> int:
        return len(self.cluster.ids()) // 2 + 1

    def call(self, node: str, request: Request) -> Outcome:
        """As an operator would, with nothing written into the history but the fault."""
        client = Client(
            self.cluster,
            self.run.history,
            Channels(self.cluster),
            process="nemesis/operator",
            rng=self.chance,
        )
        return client.perform(request, node=node, api=JSON, deadline_s=15.0)

    # ---- waiting --------------------------------------------------------------------------------

    def eventually(self, condition: Callable[[], Any], seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until or self.run.stopping.is_set():
                return bool(condition())
            time.sleep(0.05)
        return True

    def restart(self, *nodes: str) -> None:
        """Start who is dead, and wait until each answers; a leader is not asked for."""
        for node in nodes:
            if not self.cluster.alive(node):
                self.cluster.start(node)
        for node in nodes:
            wait_for(
                f"{node} answers after its restart; {self.cluster.last_words(node)}",
                lambda node=node: self.cluster.health(node),
                deadline=RESTART_S,
            )
