"""What scenarios are staged with: clusters in known states, and what is done to them.

A scenario is a scripted run, one promise each: what a random schedule meets too rarely, or cannot
judge. Its name says the promise; its docstring says the row of CONSENSUS.
"""

from __future__ import annotations

from collections.abc import Callable

from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import ChangeRefused, Proposed, Role
from tests.sim.node import SimNode
from tests.sim.options import Options
from tests.sim.world import World

Scenario = Callable[[], None]
SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


def healthy(seed: int = 1, *, size: int = 3) -> World:
    """A cluster that has a leader which everyone follows."""
    world = World(seed, options=Options(nodes=size))
    world.start()
    world.run_until(world._one_leader_followed, within_s=3.0, promise="a leader is found")
    world.run_for(0.2)
    return world


def top_term(world: World) -> int:
    return max(node.core.term for node in world.nodes.values())


def leader_of(world: World) -> SimNode:
    leader = world.leader()
    assert leader is not None
    return leader


def followers_of(world: World) -> list[SimNode]:
    leader = leader_of(world)
    return [node for node in world.nodes.values() if node is not leader]


def write(world: World, node: SimNode, count: int, *, size: int = 20, gap_s: float = 0.0) -> None:
    for number in range(count):
        node.propose(b"%d." % number + bytes(size))
        if gap_s:
            world.run_for(gap_s)


def isolate(world: World, node: SimNode, *, from_: list[SimNode] | None = None) -> None:
    for other in from_ or world.nodes.values():
        if other is not node:
            world.network.cut(node.name, other.name)
            world.network.cut(other.name, node.name)


def give_up(world: World) -> None:
    """The sockets of cut links give up; what they hold is gone."""
    for (source, target), link in world.network.links.items():
        if link.cut:
            world.network.reset(source, target)
    world.run_for(0.01)


def elected_besides(world: World, old: SimNode) -> SimNode:
    """Wait until the others have a leader of their own."""

    def newer() -> list[SimNode]:
        return [
            node
            for node in world.nodes.values()
            if node.core.role is Role.LEADER and node.core.term > term
        ]

    term = old.core.term
    world.run_until(lambda: bool(newer()), within_s=5.0, promise="the others elect")
    return newer()[0]


def follows(world: World, *names: str) -> bool:
    """Whether these, and the leader, agree on who leads."""
    leader = world.leader()
    return leader is not None and all(
        world.nodes[name].core.leader == leader.name for name in names
    )


def changed(world: World, configuration: Configuration) -> SimNode:
    """The leader's next configuration, once it is committed; returns that leader."""
    leader = leader_of(world)
    proposed: list[Proposed] = []
    leader.do(lambda: proposed.append(leader.core.change(configuration)))
    leader.do(leader.core.tick)
    world.run_until(
        lambda: leader.core.committed_configuration.index >= proposed[0].index,
        within_s=3.0,
        promise="the change is committed",
    )
    return leader


def recorded(world: World) -> Configuration:
    """The cluster knows its members by their disks."""
    configuration = leader_of(world).core.configuration.configuration
    for member in configuration.members:
        disk = world.nodes[member.id].disk_id
        configuration = configuration.put(Member(member.id, member.id, member.voter, disk))
    changed(world, configuration)
    return configuration


def newcomer(world: World) -> SimNode:
    """A node that was told the members, and does not belong to them yet."""
    node = world.add_node(leader_of(world).core.configuration.configuration)
    node.start()
    world.run_for(0.1)
    return node


def learner(node: SimNode) -> Member:
    return Member(node.name, node.name, voter=False, incarnation=node.disk_id)


def voter(node: SimNode) -> Member:
    return Member(node.name, node.name, voter=True, incarnation=node.disk_id)


def refusal(leader: SimNode, configuration: Configuration) -> str:
    """Why the leader does not take it; "" if it does."""
    told: list[str] = [""]

    def change() -> None:
        try:
            leader.core.change(configuration)
        except ChangeRefused as error:
            told[0] = str(error)

    leader.do(change)
    return told[0]
