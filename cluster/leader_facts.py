"""What the leader alone knows of one lease, or of one queue. Any node asks, and does not wait for
long: an answer of `why` is worth more with a gap, which it names, than late.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from raftflow.cluster.asking import Channel, Untold, ask, reading
from raftflow.cluster.consensus.channel import Handler

LEASE_METHOD = "leader.lease"
NAMES_METHOD = "leader.names"
_ANSWER_MS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """In durations, since the clocks of two nodes differ. ``silent_ms``: since the last heartbeat,
    the grant, or the takeover of this leader."""

    left_ms: int  # below 0: the deadline has passed
    silent_ms: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesWanted:
    """How many tasks wait in a queue, by activity or workflow type."""

    activities: bool
    namespace: str
    queue: str


class Consensus(Protocol):
    @property
    def channel(self) -> Channel: ...

    def status(self) -> Any: ...


class Leading(Protocol):
    """The duties of this node, which it has while it leads."""

    def lease_facts(self, token: str) -> LeaseFacts | None:
        """None: there is no such lease."""
        ...

    def names_waiting(
        self, *, activities: bool, namespace: str, queue: str
    ) -> Mapping[str, int]: ...


class LeaderFacts:
    def __init__(self, *, consensus: Consensus, node_id: str, leading: Leading) -> None:
        self._consensus = consensus
        self._node_id = node_id
        self._leading = leading
        consensus.channel.register(LEASE_METHOD, self._on_lease)
        consensus.channel.register(NAMES_METHOD, self._on_names)

    async def lease(self, token: str) -> LeaseFacts | None:
        """None when the leader has no such lease. Raises Untold."""
        said = await self._ask(LEASE_METHOD, {"token": token}, self._on_lease)
        if said is None:
            return None
        return LeaseFacts(**{name: int(said[name]) for name in LeaseFacts.__dataclass_fields__})

    async def names(self, wanted: NamesWanted) -> Mapping[str, int]:
        """Raises Untold."""
        said = await self._ask(NAMES_METHOD, asdict(wanted), self._on_names)
        return {str(name): int(number) for name, number in said.items()}

    async def _ask(
        self,
        method: str,
        question: Mapping[str, Any],
        own: Handler,
    ) -> Any:
        """What whoever leads says; ``own`` answers when that is this node."""
        leader, payload = self._consensus.status().leader, json.dumps(question).encode()
        if leader is None:
            raise Untold("no leader is known")
        if leader == self._node_id:
            return json.loads(await own("", payload))
        channel = self._consensus.channel
        try:
            return await ask(
                channel, leader, method, payload, read=json.loads, timeout_ms=_ANSWER_MS
            )
        except Untold as why:
            raise Untold(f"the leader {leader}: {why}") from None

    async def _on_lease(self, _peer: str, payload: bytes) -> bytes:
        with reading(LEASE_METHOD):
            token = str(json.loads(payload)["token"])
        lease = self._leading.lease_facts(token)
        return json.dumps(None if lease is None else asdict(lease)).encode()

    async def _on_names(self, _peer: str, payload: bytes) -> bytes:
        with reading(NAMES_METHOD):
            asked = json.loads(payload)
            activities, namespace, queue = asked["activities"], asked["namespace"], asked["queue"]
        waiting = self._leading.names_waiting(
            activities=bool(activities), namespace=str(namespace), queue=str(queue)
        )
        return json.dumps(dict(waiting)).encode()
