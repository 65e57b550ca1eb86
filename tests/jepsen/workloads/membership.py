"""Counters go on while nodes are removed, emptied and added again, the leader among them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.jepsen import api
from tests.jepsen.checker.reads import check_reads
from tests.jepsen.checker.verdict import Verdict, joined, substance, verdict
from tests.jepsen.client import Client
from tests.jepsen.cluster import MEMBERSHIP, empty
from tests.jepsen.context import Run
from tests.jepsen.history import FAIL, INVOKE, OK, Op, named
from tests.jepsen.workloads.base import loop
from tests.jepsen.workloads.reads import Reads

TYPE = "JepsenMembers"
BETWEEN_S = (2.0, 6.0)
PATIENCE_S = 60.0
TRY_S = 0.5


@dataclass
class Membership(Reads):
    name: str = "membership"
    types: tuple[str, ...] = (TYPE,)
    needs: ClassVar[frozenset[str]] = frozenset({MEMBERSHIP})

    def threads(self, run: Run) -> list[Callable[[], None]]:
        return [*super().threads(run), self._operator(run)]

    def _operator(self, run: Run) -> Callable[[], None]:
        client = self.client(run, "operator")

        def turn() -> None:
            if not run.rest(client.rng.uniform(*BETWEEN_S)) or run.calm.is_set():
                return
            victim = client.rng.choice(run.cluster.ids())
            with run.node_lives:
                if run.stopping.is_set():
                    return
                client.note(INVOKE, "replace", key=victim)
                problem = self._replace(run, client, victim)
                client.note(FAIL if problem else OK, "replace", key=victim, error=problem)

        return loop(run, turn)

    def _replace(self, run: Run, client: Client, victim: str) -> str:
        """Out, emptied, and in again under the same name; the problem, if there is one. Once a
        node is out it is brought back, whether or not the run ends meanwhile."""
        cluster: Any = run.cluster
        others = [node for node in cluster.ids() if node != victim]
        if not self._until(client, others, api.remove_node(victim), done=("NODE_NOT_FOUND",)):
            return "it could not be removed"
        empty(cluster, victim)
        raft = cluster.address(victim, "raft")
        if not self._until(client, others, api.add_node(victim, raft), done=("NODE_EXISTS",)):
            return "it could not be added"
        cluster.join(victim)
        voter = f"{victim} is a voter again"
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            asked = [client.perform(api.members(), node=each, api=api.JSON) for each in others]
            members = api.newest_members(seen.body for seen in asked if seen.ok)
            if members.get(victim) == "voter":
                return ""
            time.sleep(TRY_S)
        return f"not within {PATIENCE_S:g} s: {voter}"

    def _until(
        self, client: Client, nodes: list[str], request: api.Request, *, done: tuple[str, ...]
    ) -> bool:
        """The same call until it is taken; `done` are refusals that say that it was before."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            node = client.rng.choice(nodes)
            outcome = client.perform(request, node=node, api=api.JSON, deadline_s=15.0)
            if outcome.ok or outcome.error in done:
                return True
            time.sleep(TRY_S)
        return False

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        replaced = named(made, "replace")
        errors = [f"{call.key}: {call.error}" for call in replaced if call.kind == FAIL]
        return self.with_manners(
            history,
            joined(check_reads(made), verdict(errors)),
            substance(made, {"read": 40, "write": 10, "replace": 2}, most_info=0.5),
        )
