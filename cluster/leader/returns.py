"""Tasks that were granted and surely never reached a worker go back at once.

Without this they would sit out their leases. Each is returned by a command that counts no attempt
and is dropped at apply when the task is no longer out under that token.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from raftflow.cluster.leader.leases import Leases
from raftflow.cluster.proposer import Proposer
from raftflow.engine.commands import ReturnTask
from raftflow.engine.effects import DeliverTask, Effect
from raftflow.engine.ids import RunKey
from raftflow.proto.raftflow.internal.v1 import node_pb2


class Network(Protocol):
    """What the duties ask of consensus."""

    @property
    def commit_index(self) -> int: ...

    def connected(self, node: str) -> bool: ...


class Returns:
    """``born_index``: the log's end when this process began."""

    def __init__(
        self, *, node_id: str, proposer: Proposer, network: Network, leases: Leases
    ) -> None:
        self._node_id = node_id
        self._proposer = proposer
        self._network = network
        self._leases = leases
        self.born_index = 0
        self._told_index = 0  # what our predecessors told us to be committed, when we took over
        # Polls that came before we knew all leases, the last of each request id; None once we do.
        self._early: dict[str, node_pb2.Poll] | None = None

    def take_over(self) -> None:
        self._told_index = max(self.born_index, self._network.commit_index)
        self._early = {}

    def leases_known(self) -> None:
        """All that our predecessors granted is in the leases. Who asked again before may be served
        and gone by now, and would not do so once more."""
        early, self._early = self._early or {}, None
        for poll in early.values():
            self.asked_again(poll)

    def of_predecessors(self, index: int, effects: Iterable[Effect]) -> None:
        """An entry of an earlier term, applied after we took over. A leader tells its followers
        that a grant is committed before it hands the task over; one that died with a grant it had
        told nobody of did not."""
        if index <= self._told_index:
            return
        for effect in effects:
            if isinstance(effect, DeliverTask):
                self.if_gone(effect)

    def if_gone(self, grant: DeliverTask) -> None:
        """The node that should hand the task over cannot learn that it is granted."""
        if grant.node != self._node_id and not self._network.connected(grant.node):
            self._give_back(grant.run, grant.token)

    def asked_again(self, poll: node_pb2.Poll) -> None:
        """A caller asks again: what its broken poll was granted never reached it, since the node
        died or the connection broke. Nobody works on it."""
        if poll.request_id:
            if self._early is not None:
                self._early[poll.request_id] = poll
            for lease in self._leases.never_received(poll):
                self._give_back(lease.run, lease.token)

    def _give_back(self, run: RunKey, token: str) -> None:
        self._proposer.propose_duty(
            ReturnTask(namespace=run.namespace, workflow_id=run.workflow_id, token=token)
        )
