"""Nodes come and go while a cluster runs: real sockets, real disks."""

from __future__ import annotations

from pathlib import Path

from consensus_nodes import Cluster, cluster, propose_all
from eventually import eventually

from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import ChangeRefused, Role


async def change(nodes: Cluster, configuration: Configuration) -> Consensus:
    """Until it is committed; whoever leads."""

    def begun() -> Consensus | None:
        for node in nodes.nodes.values():
            if node.role is Role.LEADER:
                try:
                    node.change_membership(configuration)
                except ChangeRefused:
                    return None
                return node
        return None

    leader = await eventually(begun, "the change begins")
    index = leader.configuration_index
    await eventually(lambda: leader.committed_configuration_index >= index, "it is committed")
    return leader


def learner(nodes: Cluster, node_id: str) -> Member:
    return Member(node_id, nodes.address(node_id), voter=False)


async def test_a_node_joins_learns_votes_and_another_leaves(tmp_path: Path) -> None:
    async with cluster(tmp_path, "n1", "n2", "n3", "n4", born=("n1", "n2", "n3")) as nodes:
        leader = await nodes.leader()
        await propose_all(leader, ["a", "b"])
        await nodes.start("n4")
        told: list[tuple[str, ...]] = []
        leader.on_members(lambda configuration: told.append(configuration.voters))
        member = learner(nodes, "n4")
        await change(nodes, leader.configuration.put(member))
        await nodes.applied(["a", "b"])
        assert leader.peers()["n4"].connected
        assert not leader.peers()["n4"].voter
        joined = Member("n4", member.raft, voter=True, incarnation=nodes.nodes["n4"].incarnation)
        await change(nodes, leader.configuration.put(joined))
        assert told[-1] == ("n1", "n2", "n3", "n4")
        await eventually(lambda: nodes.nodes["n4"].configuration.voters == told[-1])
        gone = next(each for each in ("n1", "n2", "n3") if nodes.nodes[each] is not leader)
        await change(nodes, leader.configuration.without(gone))
        left = nodes.nodes[gone]
        await eventually(lambda: gone not in left.configuration.voters, "the removed node is told")
        await eventually(lambda: not left.connected(leader.config.node_id), "it is refused")
        term = leader.term
        await propose_all(leader, ["c"])
        rest = [each for each in nodes.nodes if each != gone]
        await nodes.applied(["a", "b", "c"], *rest)
        assert leader.term == term


async def test_a_leader_that_is_removed_hands_over(tmp_path: Path) -> None:
    async with cluster(tmp_path) as nodes:
        leader = await nodes.leader()
        name = leader.config.node_id
        await propose_all(leader, ["a"])
        await change(nodes, leader.configuration.without(name))
        await eventually(lambda: leader.role is not Role.LEADER, "it steps down")
        rest = [each for each in nodes.nodes if each != name]
        new = await eventually(
            lambda: next((nodes.nodes[n] for n in rest if nodes.nodes[n].role is Role.LEADER), None)
        )
        await propose_all(new, ["b"])
        await nodes.applied(["a", "b"], *rest)
        assert new.configuration.voters == tuple(rest)


async def test_who_belongs_survives_a_restart(tmp_path: Path) -> None:
    async with cluster(tmp_path, "n1", "n2", "n3", "n4", born=("n1", "n2", "n3")) as nodes:
        await nodes.start("n4")
        leader = await nodes.leader("n1", "n2", "n3")
        await change(nodes, leader.configuration.put(learner(nodes, "n4")))
        index = leader.committed_configuration_index
        await eventually(
            lambda: all(n.committed_configuration_index == index for n in nodes.nodes.values())
        )
        await nodes.stop()
        await nodes.start("n1", "n2", "n3", "n4")
        leader = await nodes.leader()
        assert leader.configuration.find("n4") == learner(nodes, "n4")
        assert leader.configuration_index == index
        await propose_all(leader, ["a"])
        await nodes.applied(["a"])
