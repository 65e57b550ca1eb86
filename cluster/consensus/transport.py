"""PySyncObj's transport over the mesh: encoded messages in, decoded and checked messages out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from raftflow.cluster.consensus import wire
from raftflow.cluster.consensus.link import Link

log = structlog.get_logger()


class RaftTransport(Transport):  # type: ignore[misc]
    """Messages are dropped, never queued without bound: Raft sends again what matters."""

    def __init__(
        self,
        *,
        on_received: Callable[[], None],
        on_lost: Callable[[str], None],
        on_error: Callable[[BaseException], object],
    ) -> None:
        super().__init__(None, None, [])
        self._nodes: dict[str, Node] = {}  # with the incarnation that the newest hello named
        self._links: dict[str, Link] = {}
        self._on_received = on_received
        self._on_lost = on_lost
        self._on_error = on_error
        self.messages_sent = 0
        self.messages_received = 0
        self.messages_dropped = 0
        self.bytes_sent = 0
        self.bytes_received = 0

    def send(self, node: Node, message: dict[str, Any]) -> bool:
        link = self._links.get(node.id)
        if link is None:
            return False
        payload = wire.encode(message)
        if not link.send(payload):
            self.messages_dropped += 1
            return False
        self.messages_sent += 1
        self.bytes_sent += len(payload)
        return True

    def connected(self, peer: str) -> bool:
        return peer in self._links

    # LinkHandler ------------------------------------------------------------------------------

    def link_up(self, link: Link) -> None:
        assert link.peer is not None
        self._links[link.peer_id] = link
        self._nodes[link.peer_id] = Node(link.peer_id, incarnation=link.peer.incarnation)
        self._guarded(self._onNodeConnected, self._nodes[link.peer_id])

    def link_frame(self, link: Link, payload: bytes) -> None:
        try:
            message = wire.decode(payload)
        except wire.WireError as error:
            link.close("bad_message", str(error))
            return
        self.messages_received += 1
        self.bytes_received += len(payload)
        self._guarded(self._onMessageReceived, self._nodes[link.peer_id], message)

    def link_down(self, link: Link, *, died: bool) -> None:
        if self._links.get(link.peer_id) is link:
            del self._links[link.peer_id]
            self._guarded(self._onNodeDisconnected, self._nodes.pop(link.peer_id))
            if died:
                self._guarded(self._on_lost, link.peer_id)

    def _guarded(self, call: Callable[..., object], *arguments: object) -> None:
        """An exception of the core is a broken invariant, not a connection's problem."""
        try:
            call(*arguments)
        except Exception as error:  # noqa: BLE001
            self._on_error(error)
        self._on_received()
