"""Scripted runs: damaged logs and states, and what a node may do meanwhile (row 19)."""

from __future__ import annotations

from raftflow.cluster.consensus.types import Role
from raftflow.raftlog import abstaining
from tests.sim.checkers import require
from tests.sim.nemesis import records_of
from tests.sim.node import DIRECTORY, SimNode
from tests.sim.staging import followers_of, give_up, healthy, isolate, leader_of, scenario, write


def spoil(node: SimNode, index: int, *, whole: bool) -> None:
    """One entry on the disk of a node that is down; `whole`: not even its frame is legible."""
    path, offset, _, size = next(r for r in records_of(node) if r[2] == index)
    for at in range(0, size, 64) if whole else (size - 1,):
        node.disk.spoil(path, offset + at, zeroed=whole)


@scenario
def a_node_that_forgot_what_it_acknowledged_elects_nobody() -> None:
    """Row 19: only it and the one that is down have the last committed entry."""
    world = healthy()
    keeper, (forgetful, behind) = leader_of(world), followers_of(world)
    isolate(world, behind)
    write(world, keeper, 1)
    world.run_for(0.2)
    committed = keeper.core.commit_index
    require(committed == keeper.journal.last_index, "the entry is committed without the third")
    for node in world.nodes.values():
        node.kill(power=False)
    world.network.heal()
    spoil(forgetful, committed, whole=True)
    abstaining.mark(forgetful.disk, DIRECTORY, "nobody could prove it")
    forgetful.start()
    behind.start()
    keeper_is_away_s = 15.0
    world.run_for(keeper_is_away_s)
    require(world.leader() is None, "who lacks a committed entry does not lead")
    keeper.start()
    world.run_until(
        lambda: world._one_leader_followed() and world._all_equal(),
        within_s=5.0,
        promise="with the one that has it the cluster goes on",
    )
    world.run_for(1.0)
    require(not forgetful.core.abstaining, "and the node votes again")


@scenario
def a_majority_that_abstains_waits_until_an_operator_decides() -> None:
    """Row 19: nobody is elected; with the mark gone on a majority, the longest log leads and the
    rest abstain no more. So docs/operating.md says."""
    world = healthy()
    longest, others = leader_of(world), followers_of(world)
    for node in others:
        isolate(world, node)
    write(world, longest, 1)
    world.run_for(0.1)
    for node in world.nodes.values():
        node.kill(power=False)
        abstaining.mark(node.disk, DIRECTORY, "nobody could prove it")
    world.network.heal()
    for node in world.nodes.values():
        node.start()
    world.run_for(5.0)
    require(world.leader() is None, "nobody leads")
    for node in world.nodes.values():
        node.kill(power=False)
    for node in (longest, others[0]):
        abstaining.clear(node.disk, DIRECTORY)
    for node in world.nodes.values():
        node.start()
    world.run_until(world._one_leader_followed, within_s=4.0, promise="a leader is elected")
    require(leader_of(world) is longest, "whoever has the longest log")
    world.run_for(1.0)
    require(not others[1].core.abstaining, "and the third votes again")


@scenario
def a_node_without_its_state_leads_nobody() -> None:
    """Row 19: its log is whole and begins after the state that it has."""
    world = healthy()
    world.keep_entries = 5
    leader, (lost, other) = leader_of(world), followers_of(world)
    write(world, leader, 100, size=200, gap_s=0.005)
    world.run_for(0.5)
    isolate(world, other)
    give_up(world)
    write(world, leader, 1)
    world.run_for(0.3)
    for node in world.nodes.values():
        node.kill(power=False)
    world.network.heal()
    require(lost.journal.prev_index > 0, "its log was compacted")
    lost.durable = type(lost.durable)()
    lost.start()
    lost.sickness.find_copies = False
    other.start()
    world.run_for(3.0)
    require(lost.core.role is not Role.LEADER, "it does not lead")
    require(lost.core.awaiting_copy, "it still waits")
    lost.sickness.find_copies = True
    world.run_until(
        lambda: lost.core.role is Role.LEADER,
        within_s=5.0,
        promise="with a copy it does, since only it has the last entry",
    )


@scenario
def what_nobody_proves_is_not_taken_from_another_log() -> None:
    """Row 19: a deposed leader's own entries; what the others have there is not what it lost."""
    world = healthy()
    deposed, others = leader_of(world), followers_of(world)
    isolate(world, deposed)
    write(world, deposed, 4)
    world.run_for(0.1)
    first = deposed.journal.last_index - 3
    world.run_until(
        lambda: any(node.core.role is Role.LEADER for node in others),
        within_s=5.0,
        promise="the others elect",
    )
    leader = next(node for node in others if node.core.role is Role.LEADER)
    write(world, leader, 6)
    world.run_for(0.3)
    deposed.kill(power=False)
    world.network.heal()
    spoil(deposed, first, whole=True)
    deposed.start()
    world.run_until(
        lambda: deposed.alive and world._all_equal() and not deposed.core.abstaining,
        within_s=8.0,
        promise="it gives up what it cannot prove, and catches up",
    )


@scenario
def a_different_entry_on_each_node_comes_back() -> None:
    """Row 19: all repair at once, each from what the others can still read."""
    world = healthy()
    write(world, leader_of(world), 12)
    world.run_for(0.3)
    committed = leader_of(world).core.commit_index
    for node in world.nodes.values():
        node.kill(power=False)
    for number, node in enumerate(world.nodes.values()):
        spoil(node, committed - 2 - 2 * number, whole=number == 0)
        node.start()
    world.run_until(
        lambda: world._one_leader_followed() and world._all_equal(),
        within_s=5.0,
        promise="everything is there again",
    )
    require(world.stats["repairs"] == 3, "each was repaired", stats=world.stats)
    require(world.stats["abstained"] == 0, "and nobody had to abstain", stats=world.stats)
