"""What surely never reached a worker goes back; what may be at work stays."""

from __future__ import annotations

import pytest

from raftflow.cluster.leader.leases import Leases
from raftflow.cluster.leader.returns import Returns
from raftflow.cluster.nonces import nonce_for
from raftflow.engine.commands import Command, ReturnTask
from raftflow.engine.effects import DeliverTask
from raftflow.engine.ids import RunKey, TokenParts, format_token
from raftflow.proto.raftflow.internal.v1 import node_pb2

RUN = RunKey("default", "w", "r")
GRANT = DeliverTask(RUN, 1, "token", "n2", "aaaa.1")


class World:
    """Node n1 and what it knows of the others."""

    def __init__(self, *, gone: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        self.commit_index = 5
        self.gone = gone
        self.proposed: list[Command] = []
        self.leases = Leases()
        self.returns = Returns(
            node_id="n1",
            proposer=self,  # type: ignore[arg-type]
            network=self,
            leases=self.leases,
        )

    def connected(self, node: str) -> bool:
        return node not in self.gone

    def propose_duty(self, command: Command) -> None:
        self.proposed.append(command)


RETURNED = [ReturnTask(namespace="default", workflow_id="w", token="token")]


@pytest.mark.parametrize(
    ("node", "gone", "returned"),
    [("n2", {"n2"}, True), ("n2", set(), False), ("n1", {"n1"}, False)],
    ids=["gone", "there", "ours"],
)
def test_a_grant_to_a_node_that_is_gone_goes_back(
    node: str, gone: set[str], returned: bool
) -> None:
    world = World(gone=gone)
    world.returns.if_gone(DeliverTask(RUN, 1, "token", node, "aaaa.1"))
    assert world.proposed == (RETURNED if returned else [])


@pytest.mark.parametrize(("index", "born", "returned"), [(5, 0, 0), (6, 0, 1), (6, 6, 0)])
def test_of_a_predecessors_grants_those_that_nobody_was_told_of(
    index: int, born: int, returned: int
) -> None:
    world = World(gone={"n2"})
    world.returns.born_index = born
    world.returns.take_over()
    world.returns.of_predecessors(index, [GRANT])
    assert len(world.proposed) == returned


def test_a_caller_that_asks_again_gives_back_what_its_broken_poll_got() -> None:
    world = World()
    first = node_pb2.Poll(poll_id="aaaa.1", request_id="q", namespace="default")
    token = format_token(TokenParts("default", "r", 1, nonce_for(first)))
    world.leases.hold(RUN, 1, token, 1_000, 0)
    world.returns.asked_again(first)  # announced once more, not asked again
    world.returns.asked_again(node_pb2.Poll(poll_id="bbbb.1"))  # someone else, without a name
    assert world.proposed == []
    world.returns.asked_again(node_pb2.Poll(poll_id="bbbb.1", request_id="q", namespace="default"))
    assert world.proposed == [ReturnTask(namespace="default", workflow_id="w", token=token)]


def test_who_asked_before_the_leases_were_known_gets_it_back_though_served_by_now() -> None:
    """The poll is not asked once more: its caller has another task meanwhile, and another name."""
    world = World()
    world.returns.take_over()
    first = node_pb2.Poll(namespace="default", poll_id="aaaa.1", request_id="q")
    second = node_pb2.Poll(namespace="default", poll_id="bbbb.1", request_id="q")
    world.returns.asked_again(first)
    world.returns.asked_again(second)
    lost, arrived = (
        format_token(TokenParts("default", "r", number, nonce_for(poll)))
        for number, poll in ((1, first), (2, second))
    )
    world.leases.hold(RUN, 1, lost, 1_000, 0)
    world.leases.hold(RUN, 2, arrived, 1_000, 0)
    world.returns.leases_known()
    assert world.proposed == [ReturnTask(namespace="default", workflow_id="w", token=lost)]
