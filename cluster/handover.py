"""Leadership is handed over at an operator's wish, through any node: the call goes to the leader,
which answers once another one leads."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.types import Role
from raftflow.cluster.errors import OperationRefused, Unavailable
from raftflow.cluster.forwarding import LeaderWatch

log = structlog.get_logger("raftflow.handover")

METHOD = "transfer"
WAIT_S = 8.0
_NOT_LEADER = "NOT_LEADER"
_LOOK_S = 0.02
_GRACE_S = 0.5


@dataclass(frozen=True, slots=True)
class Handed:
    """Who led before, and who leads now, in which term."""

    before: str
    leader: str
    term: int


class Handover:
    def __init__(self, *, consensus: Consensus, watch: LeaderWatch, node_id: str) -> None:
        self._consensus = consensus
        self._watch = watch
        self._node_id = node_id
        consensus.channel.register(METHOD, self._on_asked)

    async def transfer(self, to: str) -> Handed:
        """To that voter, or with "" to the one that has most of the log. Raises OperationRefused,
        Unavailable."""
        try:
            async with asyncio.timeout(WAIT_S):
                return await self._transfer(to)
        except TimeoutError:
            raise Unavailable(
                f"no leader handed over within {WAIT_S:g} s; `raftflow cluster status` shows who"
                " leads",
                maybe_applied=True,
            ) from None

    async def _transfer(self, to: str) -> Handed:
        while True:
            leader = self._consensus.leader
            if self._consensus.role is Role.LEADER:
                return await self._hand_over(to)
            handed = None if leader is None else await self._ask(leader, to)
            if handed is not None:
                # What this node says next must not be older than this answer.
                while self._consensus.term < handed.term or self._consensus.leader is None:
                    await asyncio.wait({self._watch.changed()}, timeout=_LOOK_S)
                return handed
            await asyncio.wait({self._watch.changed()}, timeout=_LOOK_S)

    async def _ask(self, leader: str, to: str) -> Handed | None:
        """None when there is another leader, perhaps, to be asked."""
        question = json.dumps({"to": to}).encode()
        try:
            answer = await self._consensus.channel.call(
                leader, METHOD, question, timeout_ms=round(WAIT_S * 1_000)
            )
            return Handed(**json.loads(answer))
        except PeerUnavailable as error:
            if not error.sent:
                return None
            raise Unavailable(
                f"the connection to {leader} broke while it handed over;"
                " `raftflow cluster status` shows who leads",
                maybe_applied=True,
            ) from None
        except PeerTimeout:
            raise TimeoutError from None
        except PeerError as error:
            if error.code == _NOT_LEADER:
                return None
            if error.code == "UNKNOWN_METHOD":
                raise OperationRefused(
                    "NODE_REFUSED",
                    f"the leader, {leader}, is of a release before 0.5 and hands over only when it"
                    " stops. Upgrade it first",
                ) from None
            raise OperationRefused(error.code, error.text) from None

    async def _on_asked(self, _peer: str, payload: bytes) -> bytes:
        try:
            to = str(json.loads(payload)["to"])
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise PeerError("BAD_REQUEST", f"{METHOD}: {error}") from None
        if self._consensus.role is not Role.LEADER:
            raise PeerError(_NOT_LEADER, self._consensus.leader or "")
        try:
            return json.dumps(asdict(await self._hand_over(to))).encode()
        except OperationRefused as error:
            raise PeerError(error.reason, error.message) from None

    # ---- on the leader --------------------------------------------------------------------------

    async def _hand_over(self, to: str) -> Handed:
        consensus, term = self._consensus, self._consensus.term
        if to == self._node_id:
            return Handed(to, to, term)
        self._check(to)
        if not await consensus.transfer_leadership(to or None):
            raise OperationRefused(
                "NODE_REFUSED",
                f"{self._node_id} is handing over already, or no other voter is connected",
            )
        log.info("transfer_asked", to=to)
        # Consensus gives up after one election timeout; an election may be under way by then.
        patience_s = consensus.config.timing.election_max_ms / 1_000 + _GRACE_S
        try:
            async with asyncio.timeout(patience_s):
                while consensus.term == term:
                    await asyncio.wait({self._watch.changed()}, timeout=_LOOK_S)
        except TimeoutError:
            raise OperationRefused(
                "NODE_REFUSED",
                f"{to or 'no other voter'} did not take over in time: {self._node_id} leads on."
                " One that is far behind must catch up first (its lag, on the cluster page)",
            ) from None
        while (leader := consensus.leader) is None:
            await asyncio.wait({self._watch.changed()}, timeout=_LOOK_S)
        return Handed(self._node_id, leader, consensus.term)

    def _check(self, to: str) -> None:
        """Say which of all that stands in the way does."""
        consensus = self._consensus
        others = [each for each in consensus.configuration.voters if each != self._node_id]
        if not others:
            raise OperationRefused("NODE_REFUSED", "there is no other voter to hand over to")
        if not to:
            return
        info: Any = consensus.peers().get(to)
        if info is None:
            raise OperationRefused(
                "NODE_NOT_FOUND", f"{to} is no member; `raftflow node list` shows them"
            )
        if to not in others:
            raise OperationRefused("NODE_REFUSED", f"{to} does not vote, so it cannot lead")
        if not info.connected:
            raise OperationRefused("NODE_REFUSED", f"{to} is not connected to the leader")
