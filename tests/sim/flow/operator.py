"""Whoever runs a cluster that runs workflows: calls its API, as `raftflow node` does. What the
members need besides, the leader's own steward sees to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.sim.flow.calls import AGAIN, Failed
from tests.sim.flow.speech import JsonCall
from tests.sim.operator import MOST_MEMBERS, Operator

if TYPE_CHECKING:
    from tests.sim.flow.world import FlowWorld

WAIT_S = 12.0


class FlowOperator(Operator):
    _world: FlowWorld

    def _care(self) -> None:
        """The steward of the leader does."""

    def join(self) -> bool:
        leader = self._leader()
        if leader is None:
            return False
        configuration = leader.core.configuration.configuration
        node = None
        if len(configuration.members) < MOST_MEMBERS:
            node = self._newcomer(configuration)
        if node is None:
            return False
        body = json.dumps({"id": node.name, "raft": f"{node.name}:1"}).encode()
        self._ask(JsonCall("POST", "/api/cluster/nodes", "", body), "join")
        return False

    def leave(self, name: str) -> bool:
        leader = self._leader()
        if leader is None:
            return False
        if not self._lives(leader.core.configuration.configuration.without(name)):
            return False
        self._ask(JsonCall("DELETE", f"/api/cluster/nodes/{name}", ""), "leave")
        return False

    def _ask(self, call: JsonCall, fault: str) -> None:
        world = self._world
        world.loop.enter(lambda: world.spawn(self._call(call, fault)))

    async def _call(self, call: JsonCall, fault: str) -> None:
        """Once; what is refused was not safe, or was done already."""
        world = self._world
        node = world.any_node()
        if node is None or self.stopped:
            return
        world.trace(f"-- {call.method} {call.target} {call.body.decode()} at {node.name}")
        try:
            await world.calls.ask(node, call, timeout_s=WAIT_S)
        except Failed as failed:
            world.stats["changes doubtful" if failed.reason in AGAIN else "changes refused"] += 1
        else:
            world.nemesis.effective[fault] += 1
            world.stats["changes"] += 1
