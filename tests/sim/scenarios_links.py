"""Scripted runs: links that carry one way, or connect some only; how long nothing commits."""

from __future__ import annotations

from raftflow.cluster.consensus.types import Role
from tests.sim.checkers import require
from tests.sim.node import SimNode
from tests.sim.staging import give_up, healthy, leader_of, scenario, top_term
from tests.sim.workload import Workload
from tests.sim.world import World

# Commits go on so long after the election timeout has passed, at most.
RESUMED_S = 3.0
SEEDS = 3


def cut(world: World, pairs: list[tuple[SimNode, SimNode]]) -> None:
    for source, target in pairs:
        world.network.cut(source.name, target.name)


def commits_resume(world: World, *, terms: int, closes: bool) -> None:
    """Soon, with few elections; and stay, while the fault stays. `closes`: sockets give up."""
    workload = Workload(world)
    before, limit_s = top_term(world), world.timing.election_max_ms / 1000 + RESUMED_S
    acked = world.checks.acked
    if closes:
        world.run_for(0.3)
        give_up(world)
    world.run_until(
        lambda: world.checks.acked >= acked + 20, within_s=limit_s, promise="commits resume"
    )
    world.run_for(6.0)
    spent = top_term(world) - before
    require(spent <= terms, "no term storm", terms=spent)
    late = world.checks.acked
    world.run_for(2.0)
    require(world.checks.acked >= late + 20, "commits go on", acked=world.checks.acked - late)
    workload.stopped = True
    world.network.heal()
    world.run_until(world._one_leader_followed, within_s=3.0, promise="all follow in the end")


@scenario
def commits_resume_when_the_leader_sends_but_does_not_hear() -> None:
    """Row 14: its heartbeats keep nobody quiet for ever: it steps down."""
    commits_resume_without_half_of_the_leaders_links(deaf=True)


@scenario
def commits_resume_when_the_leader_hears_but_does_not_send() -> None:
    """Row 14: the others miss it."""
    commits_resume_without_half_of_the_leaders_links(deaf=False)


def commits_resume_without_half_of_the_leaders_links(*, deaf: bool) -> None:
    for seed in range(SEEDS):
        for closes in (False, True):
            world = healthy(seed, size=3 + 2 * (seed % 2))
            leader = leader_of(world)
            others = [node for node in world.nodes.values() if node is not leader]
            cut(world, [(other, leader) if deaf else (leader, other) for other in others])
            commits_resume(world, terms=3, closes=closes)


@scenario
def commits_go_on_when_one_link_carries_one_way() -> None:
    """Row 14: whichever link it is, and whichever way."""
    for seed in range(SEEDS):
        world = healthy(seed)
        leader = leader_of(world)
        other = next(node for node in world.nodes.values() if node is not leader)
        cut(world, [(leader, other) if seed % 2 else (other, leader)])
        term = leader.core.term
        commits_resume(world, terms=1, closes=seed % 3 == 0)
        require(leader.core.term <= term + 1, "nobody is deposed again and again")


@scenario
def commits_resume_over_a_bridge() -> None:
    """Row 14: two halves that hear one node in common, wherever the leader is."""
    for seed in range(SEEDS):
        world = healthy(seed, size=5)
        leader = leader_of(world)
        rest = [node for node in world.nodes.values() if node is not leader]
        nodes = [leader, *rest] if seed % 2 else [*rest, leader]
        bridge, left, right = nodes[0], nodes[1:3], nodes[3:]
        require(bridge.core.role in (Role.LEADER, Role.FOLLOWER), "somebody bridges")
        cut(world, [(a, b) for a in left for b in right] + [(b, a) for a in left for b in right])
        commits_resume(world, terms=3, closes=seed % 3 == 0)
