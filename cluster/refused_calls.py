"""Calls that this node refused lately, kept in memory and told to whoever asks why.

A start that was refused leaves no run, and a completion that was refused looks like a worker that
does nothing: neither is in the log of the cluster. What is the same again counts up.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable

METHOD = "refused"
MOST = 1_000
# What one node tells at most.
MOST_TOLD = 50
KEPT_MS = 3_600_000
_MOST_CHARACTERS = 500
_ANSWER_MS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCall:
    """``target`` is the workflow id, "" where the call was refused before anybody read it.
    ``step``: the name or sequence of the step that it was about. ``limit``: which bound was met,
    ``value`` what it is."""

    operation: str
    namespace: str
    target: str
    step: str
    reason: str
    message: str
    limit: str
    value: int
    first_ms: int
    last_ms: int
    times: int
    node: str = ""


class Channel(Protocol):
    def register(self, method: str, handler: Callable[[str, bytes], Awaitable[bytes]]) -> None: ...

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes: ...


class Consensus(Protocol):
    @property
    def channel(self) -> Channel: ...

    def peers(self) -> Mapping[str, Any]: ...


_Key = tuple[str, str, str, str, str]  # operation, namespace, target, step, reason


class RefusedCalls:
    def __init__(
        self,
        *,
        consensus: Consensus,
        node_id: str,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._consensus = consensus
        self._node_id = node_id
        self._now_ms = now_ms
        self._calls: OrderedDict[_Key, RefusedCall] = OrderedDict()  # the latest last
        consensus.channel.register(METHOD, self._on_asked)

    def note(
        self,
        operation: str,
        *,
        namespace: str,
        target: str,
        step: str,
        reason: str,
        message: str,
        limit: str = "",
        value: int = 0,
    ) -> None:
        key, now_ms = (operation, namespace, target, step, reason), self._now_ms()
        known = self._calls.pop(key, None)
        self._calls[key] = RefusedCall(
            operation=operation,
            namespace=namespace,
            target=target,
            step=step,
            reason=reason,
            message=message[:_MOST_CHARACTERS],
            limit=limit,
            value=value,
            first_ms=now_ms if known is None else known.first_ms,
            last_ms=now_ms,
            times=1 if known is None else known.times + 1,
        )
        if len(self._calls) > MOST:
            self._calls.popitem(last=False)

    def own(self, namespace: str, target: str) -> list[RefusedCall]:
        """Of this node, the latest first: those about ``target``, and those of which only the
        namespace is known."""
        since_ms = self._now_ms() - KEPT_MS
        found: list[RefusedCall] = []
        for call in reversed(self._calls.values()):
            if call.last_ms < since_ms or len(found) == MOST_TOLD:
                break
            if call.namespace == namespace and call.target in ("", target):
                found.append(call)
        return found

    async def find(self, namespace: str, target: str) -> tuple[RefusedCall, ...]:
        """Of all nodes that answer, the latest first."""
        payload = json.dumps({"namespace": namespace, "target": target}).encode()
        peers = [peer for peer in self._consensus.peers() if peer != self._node_id]
        answers = await asyncio.gather(*(self._ask(peer, payload) for peer in peers))
        now_ms = self._now_ms()
        told = _decoded(self._said(namespace, target), self._node_id, now_ms)
        for peer, answer in zip(peers, answers, strict=True):
            told += _decoded(answer, peer, now_ms)
        return tuple(sorted(told, key=lambda call: -call.last_ms))

    async def _ask(self, peer: str, payload: bytes) -> bytes:
        try:
            return await self._consensus.channel.call(peer, METHOD, payload, timeout_ms=_ANSWER_MS)
        except (PeerUnavailable, PeerTimeout, PeerError):
            return b"[]"  # it is away, or of a release before 0.5

    async def _on_asked(self, _peer: str, payload: bytes) -> bytes:
        try:
            asked = json.loads(payload)
            return self._said(str(asked["namespace"]), str(asked["target"]))
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise PeerError("BAD_REQUEST", f"{METHOD}: {error}") from None

    def _said(self, namespace: str, target: str) -> bytes:
        """With how long ago, since the clocks of two nodes differ."""
        now_ms = self._now_ms()
        calls = [asdict(call) for call in self.own(namespace, target)]
        for call in calls:
            call["first_ms"] -= now_ms
            call["last_ms"] -= now_ms
        return json.dumps(calls).encode()


def _decoded(answer: bytes, node: str, now_ms: int) -> list[RefusedCall]:
    said: list[dict[str, Any]] = json.loads(answer)
    names = RefusedCall.__dataclass_fields__.keys() - {"first_ms", "last_ms", "node"}
    return [
        RefusedCall(
            **{name: each[name] for name in names},
            first_ms=now_ms + each["first_ms"],
            last_ms=now_ms + each["last_ms"],
            node=node,
        )
        for each in said
    ]
