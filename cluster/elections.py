"""Who led since when, and why it came to that.

Consensus tells each change as this node saw it. Why there was an election only its winner knows
well, so every node asks it once; what it says takes the place of the node's own guess.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from raftflow.cluster.asking import UNREADABLE, reading
from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.types import Election, Role

METHOD = "election"
KEPT = 100
# A leader is asked as soon as it is known; its channel may be up a little later.
_ASK_AT_S = (0.0, 0.2, 1.0)
_ANSWER_MS = 500


class Elections:
    def __init__(
        self,
        *,
        consensus: Consensus,
        node_id: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consensus = consensus
        self._node_id = node_id
        self._monotonic = monotonic
        self._seen: deque[Election] = deque(maxlen=KEPT)
        self._asking: set[asyncio.Task[None]] = set()
        consensus.channel.register(METHOD, self._on_asked)

    def all(self) -> tuple[Election, ...]:
        """The newest, oldest first. ``leader`` None: nobody led from then on."""
        return tuple(self._seen)

    @property
    def led_since_s(self) -> float | None:
        """From when on the present leader leads, by the monotonic clock."""
        newest = self._seen[-1] if self._seen else None
        leads = newest is not None and newest.leader == self._consensus.leader
        return newest.at_s if newest is not None and newest.leader and leads else None

    def on_role(self, _role: Role, term: int, leader: str | None) -> None:
        elections = self._consensus.status().elections
        if not elections or (self._seen and elections[-1].at_s <= self._seen[-1].at_s):
            return  # another term, or another role, and nobody else leads
        self._seen.append(elections[-1])
        if leader is not None and leader != self._node_id:
            task = asyncio.create_task(self._ask(leader, term), name="ask-election")
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def stop(self) -> None:
        for task in list(self._asking):
            task.cancel()

    async def _ask(self, leader: str, term: int) -> None:
        question = json.dumps({"term": term}).encode()
        for pause_s in _ASK_AT_S:
            await asyncio.sleep(pause_s)
            try:
                answer = await self._consensus.channel.call(
                    leader, METHOD, question, timeout_ms=_ANSWER_MS
                )
                said = json.loads(answer)
                self._learn(leader, term, str(said["reason"]), int(said["ago_ms"]) / 1_000)
                return
            except (PeerUnavailable, PeerTimeout):
                continue
            except (PeerError, *UNREADABLE):
                return  # it has forgotten, or is of a release before 0.5

    def _learn(self, leader: str, term: int, reason: str, ago_s: float) -> None:
        at_s = self._monotonic() - ago_s
        for place, election in enumerate(self._seen):
            if (election.leader, election.term) == (leader, term):
                # Not before what this node saw happen earlier.
                earlier = self._seen[place - 1].at_s if place else at_s
                self._seen[place] = replace(election, reason=reason, at_s=max(at_s, earlier))

    async def _on_asked(self, _peer: str, payload: bytes) -> bytes:
        """Why this node won in that term, and how long ago."""
        with reading(METHOD):
            term = int(json.loads(payload)["term"])
        for election in reversed(self._seen):
            if (election.leader, election.term) == (self._node_id, term):
                ago_ms = max(0, round((self._monotonic() - election.at_s) * 1_000))
                return json.dumps({"reason": election.reason, "ago_ms": ago_ms}).encode()
        raise PeerError("UNKNOWN_ELECTION", f"this node did not win in term {term}")
