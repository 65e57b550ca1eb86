"""Scripted runs: snapshots and linearizable reads."""

from __future__ import annotations

from tests.sim.checkers import require
from tests.sim.staging import (
    elected_besides,
    followers_of,
    healthy,
    isolate,
    leader_of,
    scenario,
    write,
)
from tests.sim.workload import Workload


@scenario
def a_follower_far_behind_gets_a_snapshot() -> None:
    """Row 9: and goes on from there; the log is not compacted under a copy being fetched."""
    world = healthy()
    world.keep_entries = 5
    leader, (behind, _other) = leader_of(world), followers_of(world)
    behind.kill(power=True)
    write(world, leader, 200, size=200, gap_s=0.005)
    world.run_for(0.5)
    require(leader.journal.prev_index > behind.durable.index, "the log was compacted")
    behind.start()
    workload = Workload(world)
    world.run_for(3.0)
    workload.stopped = True
    world.run_for(1.0)
    require(world.stats["snapshots installed"] >= 1, "a snapshot was installed")
    require(world.stats["snapshots offered"] <= 2, "one snapshot is enough", stats=world.stats)
    require(world._all_equal(), "and the follower has caught up")


@scenario
def a_snapshot_keeps_the_log_that_goes_on_from_it() -> None:
    """Rows 9, 10: entries after the snapshot stay; an older snapshot changes nothing."""
    world = healthy()
    leader, (node, _other) = leader_of(world), followers_of(world)
    write(world, leader, 20)
    world.run_for(0.5)
    node.kill(power=False)
    node.durable = type(node.durable)()  # An older store, or one that is restored from a backup.
    world.run_for(0.2)
    node.start()
    node.state = node.durable = leader.state
    last = node.journal.last_index
    node.core.snapshot_installed(10, node.journal.term(10))
    require(node.journal.last_index == last, "the suffix stays", last=node.journal.last_index)
    node.delivered = 10
    world.run_for(0.5)
    delivered = node.delivered
    require(delivered == leader.delivered, "the rest is handed over", delivered=delivered)
    node.core.snapshot_installed(5, node.journal.term(5))
    leader.propose(b"x")
    world.run_for(0.5)
    require(node.delivered == leader.delivered, "an older snapshot changes nothing")


@scenario
def a_store_that_went_on_without_its_log_starts() -> None:
    """Rows 8, 9, 10: the process died between the snapshot and the log; the log begins anew."""
    world = healthy()
    leader, (node, _other) = leader_of(world), followers_of(world)
    node.kill(power=True)
    write(world, leader, 50, gap_s=0.005)
    world.run_for(0.5)
    node.durable = leader.durable
    node.start()
    world.run_for(1.0)
    require(node.state == leader.state, "it goes on from its store")


@scenario
def a_tail_that_conflicts_with_the_store_goes() -> None:
    """Rows 4, 9, 10: as above, with a tail of its own that nobody has."""
    world = healthy()
    old = leader_of(world)
    isolate(world, old)
    write(world, old, 60)
    new = elected_besides(world, old)
    write(world, new, 20, gap_s=0.005)
    world.run_for(0.5)
    old.kill(power=False)
    old.durable = new.durable
    require(old.journal.last_index > new.durable.index, "the tail is longer than the store")
    world.network.heal()
    old.start()
    world.run_for(0.5)
    write(world, new, 5)
    world.run_for(0.5)
    require(world._all_equal(), "it goes on from its store")


@scenario
def reads_are_linearizable_on_every_node() -> None:
    """Row 15: one round for all that wait, on followers too."""
    world = healthy()
    leader = leader_of(world)
    write(world, leader, 3, gap_s=0.02)
    answers: list[int | None] = []
    before = world.network.messages
    for node in world.nodes.values():
        for _ in range(20):
            node.core.read_index(answers.append)
        node.core.tick()
    took = world.run_until(lambda: len(answers) == 60, within_s=1.0, promise="all answer")
    require(took < 0.01, "no heartbeat is waited for", took=took)
    require(set(answers) == {leader.core.commit_index}, "all see the commit", answers=set(answers))
    spent = world.network.messages - before
    require(spent < 30, "reads share rounds", messages=spent)
