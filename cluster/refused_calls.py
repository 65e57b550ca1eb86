"""Calls that this node refused lately, kept in memory and told to whoever asks why.

A start that was refused leaves no run, and a completion that was refused looks like a worker that
does nothing: neither is in the log of the cluster. What is the same again counts up.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass

from raftflow.cluster.asking import Peers, Untold, ask, reading

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


_AS_IT_IS = RefusedCall.__dataclass_fields__.keys() - {"first_ms", "last_ms", "node"}
_Key = tuple[str, str, str, str, str]  # operation, namespace, target, step, reason


class RefusedCalls:
    def __init__(
        self,
        *,
        consensus: Peers,
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
        told = self._read(self._said(namespace, target), self._node_id)
        for answer in answers:
            told += answer
        return tuple(sorted(told, key=lambda call: -call.last_ms))

    async def _ask(self, peer: str, payload: bytes) -> list[RefusedCall]:
        channel = self._consensus.channel
        try:
            return await ask(
                channel,
                peer,
                METHOD,
                payload,
                read=lambda answer: self._read(answer, peer),
                timeout_ms=_ANSWER_MS,
            )
        except Untold:
            return []

    async def _on_asked(self, _peer: str, payload: bytes) -> bytes:
        with reading(METHOD):
            asked = json.loads(payload)
            namespace, target = str(asked["namespace"]), str(asked["target"])
        return self._said(namespace, target)

    def _said(self, namespace: str, target: str) -> bytes:
        """With how long ago, since the clocks of two nodes differ."""
        now_ms = self._now_ms()
        calls = [asdict(call) for call in self.own(namespace, target)]
        for call in calls:
            call["first_ms"] -= now_ms
            call["last_ms"] -= now_ms
        return json.dumps(calls).encode()

    def _read(self, answer: bytes, node: str) -> list[RefusedCall]:
        now_ms, said = self._now_ms(), json.loads(answer)
        return [
            RefusedCall(
                **{name: each[name] for name in _AS_IT_IS},
                first_ms=now_ms + each["first_ms"],
                last_ms=now_ms + each["last_ms"],
                node=node,
            )
            for each in said
        ]
