"""Members are added and removed through any node: the call goes to the leader, which changes the
configuration and answers once the change is committed.

Calls are carried out one after the other. A change of leader is cured here as for commands: the
call is sent to the next one, which finds what an earlier attempt has done.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

import structlog

from raftflow.cluster import steward
from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.membership import Configuration
from raftflow.cluster.consensus.types import ChangeRefused, NotLeader, Proposed, Role
from raftflow.cluster.errors import MembershipRefused, Unavailable
from raftflow.cluster.forwarding import LeaderWatch

log = structlog.get_logger("raftflow.members")

METHOD = "members"
# A change waits for the one before it, and for its own commit; less than a caller waits for the
# answer (10 s at the command line), which says what came of it.
WAIT_S = 8.0
_LOOK_S = 0.01
_NOT_LEADER = "NOT_LEADER"
_INDETERMINATE = "INDETERMINATE"


@dataclass(frozen=True, slots=True)
class Request:
    """`raft` is "" to remove. `again`: an earlier attempt may have been carried out. `api`: add it
    as a node that never votes."""

    id: str
    raft: str = ""
    again: bool = False
    api: bool = False

    def done(self, configuration: Configuration) -> bool:
        member = configuration.find(self.id)
        if not self.raft:
            return member is None
        return member is not None and (member.raft, member.api) == (self.raft, self.api)


class _Unsettled(Exception):
    """Leadership went before the fate of the change was known."""


class Members:
    def __init__(self, *, consensus: Consensus, watch: LeaderWatch, node_id: str) -> None:
        self._consensus = consensus
        self._watch = watch
        self._node_id = node_id
        self._turn = asyncio.Lock()
        consensus.channel.register(METHOD, self._on_forwarded)

    async def add(self, member_id: str, raft: str, *, api: bool = False) -> int:
        """Make it a learner; returns the index of the entry. Raises MembershipRefused,
        Unavailable."""
        return await self._carry(Request(member_id, raft, api=api))

    async def remove(self, member_id: str) -> int:
        return await self._carry(Request(member_id))

    async def _carry(self, request: Request) -> int:
        deadline = asyncio.get_running_loop().time() + WAIT_S
        # Who never belonged to it was not removed by an attempt of ours.
        was_member = self._consensus.configuration.find(request.id) is not None
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    index = await self._attempt(request, deadline)
            except TimeoutError:
                # It may have been proposed, here or at the leader.
                raise self._unavailable(replace(request, again=True)) from None
            except _Unsettled:
                request = replace(request, again=bool(request.raft) or was_member)
                continue
            if index is not None:
                return index
            if asyncio.get_running_loop().time() > deadline:
                raise self._unavailable(request)
            await asyncio.wait({self._watch.changed()}, timeout=0.05)

    def _unavailable(self, request: Request) -> Unavailable:
        fate = "the change may still be made" if request.again else "nothing was changed"
        return Unavailable(
            f"no leader with a majority answered within {WAIT_S:g} s; {fate}. "
            "`raftflow node list` shows the members",
            maybe_applied=request.again,
        )

    async def _attempt(self, request: Request, deadline: float) -> int | None:
        """None when another try is worth it."""
        if self._consensus.role is Role.LEADER:
            try:
                return await self._change(request)
            except NotLeader:
                return None
        leader = self._consensus.leader
        if leader is None or leader == self._node_id:
            return None
        payload = json.dumps(asdict(request)).encode()
        try:
            answer = await self._watch.call(
                self._consensus.channel, leader, METHOD, payload, deadline
            )
        except PeerUnavailable as error:
            if error.sent:
                raise _Unsettled from None
            return None
        except PeerTimeout:
            raise _Unsettled from None
        except PeerError as error:
            self._heed(error, leader)
            return None
        if answer is None:
            raise _Unsettled
        return int(json.loads(answer)["index"])

    def _heed(self, error: PeerError, leader: str) -> None:
        """Raise what is final, and what makes the next attempt another one."""
        if error.code == _INDETERMINATE:
            raise _Unsettled
        if error.code == "UNKNOWN_METHOD":
            raise MembershipRefused(
                "MEMBERSHIP_REFUSED",
                f"the leader, {leader}, is of a release before 0.3 and cannot change members. "
                "Upgrade all nodes first",
            )
        if error.code != _NOT_LEADER:
            raise MembershipRefused(error.code, error.text)

    async def _on_forwarded(self, _peer: str, payload: bytes) -> bytes:
        try:
            fields: dict[str, Any] = json.loads(payload)
            request = Request(
                str(fields["id"]),
                str(fields["raft"]),
                bool(fields["again"]),
                bool(fields.get("api")),  # releases before 0.4 say nothing of it
            )
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise PeerError("BAD_REQUEST", f"{METHOD}: {error}") from None
        try:
            index = await self._change(request)
        except NotLeader as error:
            raise PeerError(_NOT_LEADER, error.leader or "") from None
        except _Unsettled:
            raise PeerError(_INDETERMINATE, "") from None
        except MembershipRefused as error:
            raise PeerError(error.reason, error.message) from None
        return json.dumps({"index": index}).encode()

    # ---- on the leader --------------------------------------------------------------------------

    async def _change(self, request: Request) -> int:
        async with self._turn:
            await self._settled()
            consensus = self._consensus
            status = consensus.status()
            if request.again and request.done(consensus.configuration):
                return status.configuration_index
            return await self._committed(await self._proposed(request))

    async def _settled(self) -> None:
        """The change before this one, perhaps the leader's own, is committed."""
        while self._consensus.role is Role.LEADER:
            status = self._consensus.status()
            if status.configuration_index == status.committed_configuration_index:
                return
            await asyncio.sleep(_LOOK_S)
        raise NotLeader(self._consensus.leader)

    async def _proposed(self, request: Request) -> Proposed:
        consensus = self._consensus
        while True:
            held_back_by = steward.held_back_by(consensus)
            before = consensus.configuration
            if request.raft:
                after = steward.added(
                    before, request.id, request.raft, held_back_by=held_back_by, api=request.api
                )
            else:
                after = steward.removed(
                    before, request.id, steward.seen_by(consensus), held_back_by=held_back_by
                )
            try:
                proposed = consensus.change_membership(after)
            except ChangeRefused as error:
                # Another change came first, or this leadership is too young.
                log.info("membership_change_waits", reason=str(error))
                await asyncio.sleep(_LOOK_S)
                continue
            log.info(
                "membership_change_proposed",
                index=proposed.index,
                reason=f"{'add' if request.raft else 'remove'} {request.id}: asked for",
            )
            return proposed

    async def _committed(self, proposed: Proposed) -> int:
        consensus = self._consensus
        while consensus.status().committed_configuration_index < proposed.index:
            if consensus.role is not Role.LEADER or consensus.term != proposed.term:
                raise _Unsettled
            await asyncio.sleep(_LOOK_S)
        return proposed.index
