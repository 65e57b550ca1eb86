"""Commands leave the edge with the name of whoever asked for them, for apply and the audit log."""

from __future__ import annotations

from dataclasses import replace

from raftflow.cluster.api.auth import Caller
from raftflow.cluster.api.services import Forwarder, NodeServices
from raftflow.cluster.features import AUDIT, Levels
from raftflow.engine.audit import audited
from raftflow.engine.commands import Attributed, Command, Fact, Origin
from raftflow.engine.rejections import Answer


class SignedForwarder:
    """The way to the leader, as one caller has it."""

    def __init__(self, forwarder: Forwarder, levels: Levels, origin: Origin) -> None:
        self._forwarder = forwarder
        self._levels = levels
        self._origin = origin

    async def execute(
        self, command: Command, *, command_id: str | None = None, deadline_ms: int | None = None
    ) -> Answer:
        # Work is not noted: it needs a name only where apply looks at the token.
        signs = isinstance(command, Fact) and (self._origin.token_id or audited(command))
        if signs and self._levels.allows(AUDIT):
            assert isinstance(command, Fact)
            command = Attributed(origin=self._origin, command=command)
        return await self._forwarder.execute(
            command, command_id=command_id, deadline_ms=deadline_ms
        )


def signed(node: NodeServices, caller: Caller, address: str) -> NodeServices:
    """The node as this caller sees it."""
    origin = Origin(
        actor=caller.actor,
        role=caller.role,
        node=node.config.node_id,
        address=address,
        token_id=caller.token_id,
    )
    return replace(node, forwarder=SignedForwarder(node.forwarder, node.levels, origin))
