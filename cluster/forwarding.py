"""From any node to the leader and back: retrying by command id until the outcome is known.

A leader change is cured here, inside the cluster: the node that took a call sends the same command
id to the next leader, also after "maybe applied", for up to the leader wait. Ids are remembered
in the log, and tokens make completions repeatable, so that a repeat has no second effect. What a
call came to is said where its id stands first in the log, which this node applies as well.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from raftflow.cluster.codec import commands, replies
from raftflow.cluster.consensus.channel import (
    PeerChannel,
    PeerError,
    PeerTimeout,
    PeerUnavailable,
)
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.types import NotLeader, Role
from raftflow.cluster.errors import Indeterminate, Overloaded, Unavailable
from raftflow.cluster.proposer import Proposer, overloaded
from raftflow.engine.apply import Applied
from raftflow.engine.commands import (
    Attributed,
    Batch,
    Command,
    CompleteActivity,
    CompleteDecision,
    RecordHeartbeat,
    ReturnTask,
)
from raftflow.engine.rejections import Answer, Rejection
from raftflow.proto.raftflow.internal.v1 import node_pb2

log = structlog.get_logger("raftflow.forwarding")

METHOD = "propose"

# Work that a worker has done is never turned away for want of room: it waits, then meets 503.
_FINISHED = (CompleteActivity, CompleteDecision, RecordHeartbeat, ReturnTask)

_NOT_LEADER = "NOT_LEADER"
_INDETERMINATE = "INDETERMINATE"
_OVERLOADED = "OVERLOADED"


@dataclass(slots=True)
class _Attempt:
    """What is known of a call so far."""

    command_id: str
    command: bytes
    deadline: float  # loop time
    refusable: bool
    applied: asyncio.Future[Answer]  # what the first entry with its id came to, on this node
    maybe_applied: bool = False
    refusal: Overloaded | None = None  # the last try's, when the leader had no room


def _said(command: Command) -> Command:
    """The command, whoever says it."""
    return command.command if isinstance(command, Attributed) else command


class LeaderWatch:
    """Lets many calls wait for the next change of leader."""

    def __init__(self) -> None:
        self._changed: asyncio.Future[None] | None = None

    def changed(self) -> asyncio.Future[None]:
        """A future shared by all who wait now; shield it before cancelling."""
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        return self._changed

    async def call(
        self, channel: PeerChannel, leader: str, method: str, payload: bytes, deadline: float
    ) -> bytes | None:
        """Call the leader; None when the leader changed first: a frozen one answers nobody.
        ``deadline`` is loop time. Raises as PeerChannel.call does."""
        remaining = deadline - asyncio.get_running_loop().time()
        timeout_ms = max(1, int(remaining * 1_000))
        reply = asyncio.ensure_future(channel.call(leader, method, payload, timeout_ms=timeout_ms))
        try:
            waited: list[asyncio.Future[Any]] = [reply, self.changed()]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            return reply.result() if reply.done() else None
        finally:
            reply.cancel()

    def on_role(self, _role: Role, _term: int, _leader: str | None) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


class Forwarder:
    """Executes commands from any node."""

    def __init__(
        self,
        *,
        consensus: Consensus,
        proposer: Proposer,
        watch: LeaderWatch,
        node_id: str,
        leader_wait_ms: int,
        check: Callable[[Command], None] = lambda command: None,
    ) -> None:
        """``check`` raises what refuses a command before anything is proposed."""
        self._consensus = consensus
        self._check = check
        self._channel: PeerChannel = consensus.channel
        self._proposer = proposer
        self._watch = watch
        self._node_id = node_id
        self._leader_wait = leader_wait_ms / 1_000
        self._asked = 0
        self._going_on: set[asyncio.Task[Answer]] = set()
        self._calls: dict[str, _Attempt] = {}
        self._channel.register(METHOD, self._on_forwarded)

    async def execute(
        self, command: Command, *, command_id: str | None = None, deadline_ms: int | None = None
    ) -> Answer:
        """Return the command's answer once it is applied. ``deadline_ms`` shortens the wait.

        Raises Unavailable after the leader wait, with ``maybe_applied`` as it really is,
        Overloaded when the leader refused it for want of room, and what ``check`` raises. A caller
        that goes away takes its call along, but not what a worker has done: that goes on to its
        end.
        """
        self._check(command)
        wait = self._leader_wait if deadline_ms is None else deadline_ms / 1_000
        command_id = command_id or secrets.token_hex(12)
        loop = asyncio.get_running_loop()
        call = _Attempt(
            command_id,
            commands.encode_command(command_id, command),
            loop.time() + wait,
            not isinstance(_said(command), _FINISHED),
            loop.create_future(),
        )
        try:
            return await self._carry(call)
        except asyncio.CancelledError:
            if not call.refusable:
                self._go_on(call)
            raise

    def _go_on(self, call: _Attempt) -> None:
        """The same id again does no harm, wherever the first try has come to."""
        task = asyncio.create_task(self._carry(call), name="call-without-caller")
        self._going_on.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Answer]) -> None:
        self._going_on.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("result_lost", reason=str(error))

    def on_applied(self, applied: Applied, _batch: Batch) -> None:
        if not self._calls:
            return
        for reply in applied.replies:
            call = self._calls.get(reply.command_id)
            if call is not None and not call.applied.done():
                call.applied.set_result(reply.answer)

    async def _carry(self, call: _Attempt) -> Answer:
        self._calls[call.command_id] = call
        try:
            async with asyncio.timeout_at(call.deadline):
                while (answer := await self._attempt(call)) is None:
                    pass
                return answer
        except TimeoutError:
            if call.applied.done():
                return call.applied.result()
            raise self._unavailable(call) from None
        finally:
            del self._calls[call.command_id]

    async def _attempt(self, call: _Attempt) -> Answer | None:
        """One try with whoever leads now; None when another is worth it."""
        if call.applied.done():
            return call.applied.result()
        repeated = call.maybe_applied
        answer = await self._try(call)
        if repeated and isinstance(answer, Rejection):
            # The first try may have done what is refused to the second: the log knows.
            return await asyncio.shield(call.applied)
        return answer

    async def _try(self, call: _Attempt) -> Answer | None:
        call.refusal = None
        if self._consensus.role is Role.LEADER:
            return await self._propose_here(call)
        leader = self._consensus.leader or self._heir()
        if leader is None or leader == self._node_id:
            await self._next_change(0.1)
            return None
        return await self._send(call, leader)

    def _heir(self) -> str | None:
        """A node that was removed hears of no leader any more, and has calls in its hands. The
        others listen to it a moment longer: it asks those who vote, one after the other."""
        configuration = self._consensus.configuration
        if configuration.find(self._node_id) is not None:
            return None
        self._asked += 1
        return configuration.voters[self._asked % len(configuration.voters)]

    async def _propose_here(self, call: _Attempt) -> Answer | None:
        # Until the answer or a refusal is here, the deadline may strike with the entry on its way.
        before, call.maybe_applied = call.maybe_applied, True
        try:
            return await self._proposer.submit(call.command_id, call.command)
        except NotLeader:
            call.maybe_applied = before
            await self._next_change(0.05)
        except Overloaded as error:
            call.maybe_applied = before
            await self._when_overloaded(call, error)
        except Indeterminate:
            await self._next_change(0.05)
        return None

    async def _send(self, call: _Attempt, leader: str) -> Answer | None:
        request = node_pb2.ForwardRequest(command_id=call.command_id, command=call.command)
        before, call.maybe_applied = call.maybe_applied, True
        try:
            reply = await self._watch.call(
                self._channel, leader, METHOD, request.SerializeToString(), call.deadline
            )
            return None if reply is None else replies.decode_answer(reply)
        except PeerUnavailable as error:
            call.maybe_applied = before or error.sent
        except PeerTimeout:
            pass
        except PeerError as error:
            if error.code == _NOT_LEADER:
                call.maybe_applied = before
            elif error.code == _OVERLOADED:
                call.maybe_applied = before
                await self._when_overloaded(call, overloaded(error.text))
        await self._next_change(0.02)
        return None

    async def _when_overloaded(self, call: _Attempt, error: Overloaded) -> None:
        # An earlier try may have reached a log: then a refusal does not say that nothing happened.
        if call.refusable and not call.maybe_applied:
            raise error
        call.refusal = error
        await asyncio.sleep(error.retry_after_ms / 1_000)

    async def _next_change(self, at_most: float) -> None:
        """Wait for a change of leader, but not long: it may have come before we looked."""
        await asyncio.wait({self._watch.changed()}, timeout=at_most)

    def _unavailable(self, call: _Attempt) -> Unavailable:
        if call.refusal is not None:
            return Unavailable(
                f"{call.refusal.message}, and had none for {self._leader_wait:g} s",
                maybe_applied=call.maybe_applied,
                retry_after_ms=call.refusal.retry_after_ms,
            )
        known = "no leader is known" if self._consensus.leader is None else "the leader is silent"
        fate = "it may still be applied" if call.maybe_applied else "nothing was proposed"
        return Unavailable(
            f"no answer from a leader with a majority within {self._leader_wait:g} s "
            f"({known}); {fate}",
            maybe_applied=call.maybe_applied,
        )

    async def _on_forwarded(self, _peer: str, payload: bytes) -> bytes:
        request = node_pb2.ForwardRequest.FromString(payload)
        try:
            answer = await self._proposer.submit(request.command_id, request.command)
        except NotLeader as error:
            raise PeerError(_NOT_LEADER, error.leader or "") from None
        except Indeterminate as error:
            raise PeerError(_INDETERMINATE, str(error)) from None
        except Overloaded as error:
            raise PeerError(_OVERLOADED, error.cause) from None
        return replies.encode_answer(answer)
