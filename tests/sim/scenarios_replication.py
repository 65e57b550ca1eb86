"""Scripted runs: entries, batches, acknowledgements, commits."""

from __future__ import annotations

from pysyncobj.node import Node as RaftNode

from raftflow.cluster.consensus.types import Role
from raftflow.raftlog.journal import LogEntry
from tests.sim.checkers import require
from tests.sim.options import Options
from tests.sim.staging import (
    elected_besides,
    followers_of,
    give_up,
    healthy,
    isolate,
    leader_of,
    scenario,
    write,
)
from tests.sim.world import World


@scenario
def an_entry_commits_without_waiting_for_a_heartbeat() -> None:
    """Rows 2, 6: one round trip and one fsync for the leader, one more message for the others."""
    world = healthy()
    leader = leader_of(world)
    for _ in range(20):
        acked = world.checks.acked
        leader.propose(b"x")
        took = world.run_until(
            lambda before=acked: world.checks.acked > before, within_s=1.0, promise="it commits"
        )
        require(took < 0.006, "a commit takes a round trip and an fsync", took=took)
        took = world.run_until(world._all_equal, within_s=1.0, promise="all apply it")
        require(took < 0.006, "followers learn of the commit at once", took=took)
        world.run_for(0.01)


@scenario
def a_slow_disk_does_not_look_like_a_dead_node() -> None:
    """Row 2: both followers' fsync takes a second; the leader stays, nothing commits early."""
    world = healthy()
    leader = leader_of(world)
    term = leader.core.term
    for node in followers_of(world):
        node.flush_s = 1.0
    write(world, leader, 30, gap_s=0.05)
    world.run_for(3.0)
    require(leader.core.term == term, "the leader stays", term=leader.core.term)
    require(world._all_equal(), "all is applied in the end")


@scenario
def a_pipeline_stays_within_two_batches() -> None:
    """Row 6: a follower that does not answer holds at most two batches, and gets none twice."""
    world = healthy()
    leader, (slow, _other) = leader_of(world), followers_of(world)
    slow.flush_s = 0.3
    sent: list[int] = []
    transport, send = leader.transport, leader.transport.send

    def count(target: RaftNode, message: dict) -> bool:
        if target.id == slow.name and message.get("entries"):
            sent.append(len(message["entries"]))
        return send(target, message)

    transport.send = count
    for _ in range(40):
        write(world, leader, 1)
        world.run_for(0.004)
    require(len(sent) <= 3, "at most two batches are in flight", batches=sent)
    world.run_for(3.0)
    require(world._all_equal(), "the follower catches up")
    require(sum(sent) <= 50, "nothing is sent twice on a healthy connection", sent=sum(sent))


@scenario
def a_long_conflicting_tail_is_replaced_in_a_few_messages() -> None:
    """Rows 4, 5, 7: a deposed leader with 300 entries that nobody has catches up at once, and
    commits none of them, although the new leader's commit index covers them."""
    world = healthy()
    world.keep_entries = 1000
    old = leader_of(world)
    isolate(world, old)
    write(world, old, 300)
    new = elected_besides(world, old)
    write(world, new, 299, size=3000)
    world.run_for(1.0)
    # The leader after the next knows nothing of the old one, and begins at the end of its log.
    newest = next(node for node in world.nodes.values() if node not in (old, new))
    new.core.transfer_leadership(newest.name)
    world.run_until(
        lambda: newest.core.role is Role.LEADER, within_s=2.0, promise="leadership moves"
    )
    world.run_for(0.5)
    before = world.network.messages
    give_up(world)
    world.network.heal()
    world.run_until(world._all_equal, within_s=2.0, promise="the deposed leader catches up")
    spent = world.network.messages - before
    require(spent < 200, "it takes few messages", messages=spent)


@scenario
def a_follower_that_went_on_with_a_minority_comes_back() -> None:
    """Rows 3, 4: what an old leader verified says nothing about the new one's log."""
    world = healthy(size=5)
    old, (friend, *others) = leader_of(world), followers_of(world)
    for node in others:
        isolate(world, node, from_=[old, friend])
    write(world, old, 50)
    new = elected_besides(world, old)
    write(world, new, 5)
    world.run_for(0.5)
    require(friend.journal.last_index > new.journal.last_index, "the minority has the longer log")
    give_up(world)
    world.network.heal()
    world.run_until(world._all_equal, within_s=2.0, promise="the minority catches up")
    world.run_for(0.2)
    require(world.leader() is new, "the new leader stays")


@scenario
def what_is_sent_again_is_not_cut() -> None:
    """Row 4: connections break while entries are under way; nothing that matches is cut."""
    world = healthy()
    leader, followers = leader_of(world), followers_of(world)
    for node in followers:
        node.flush_s = 0.03
    for number in range(30):
        write(world, leader, 2)
        world.run_for(0.006)
        # One at a time: two followers that lose the leader at once elect another.
        world.network.reset(leader.name, followers[number % 2].name)
        world.run_for(0.06)
    world.run_until(world._all_equal, within_s=3.0, promise="all is applied")
    require(world.checks.acked > 20, "most commit", acked=world.checks.acked)


@scenario
def an_ack_of_an_older_term_counts_for_nothing() -> None:
    """Row 3: even if it names what the leader has just written."""
    world = healthy()
    leader, (node, _other) = leader_of(world), followers_of(world)
    isolate(world, leader)
    write(world, leader, 3)
    world.run_for(0.1)
    last, commit = leader.journal.last_index, leader.core.commit_index
    ack = {"type": "next_node_idx", "term": leader.core.term - 1, "success": True, "rejected": 0}
    ack |= {"next_node_idx": last + 1, "received": last, "hint_term": 0, "round": 1}
    leader.transport._onMessageReceived(RaftNode(node.name), ack)
    require(leader.core.commit_index == commit, "nothing is committed by it")


@scenario
def an_ack_after_a_flush_covers_what_was_flushed() -> None:
    """Rows 2, 17: entries that were cut while the flush ran, and others in their place, are not."""
    world = healthy()
    leader, (node, _other) = leader_of(world), followers_of(world)
    isolate(world, node)
    world.run_for(0.1)
    node.flush_s = 60.0
    index, term = node.journal.last_index, node.core.term

    def append(count: int, term: int) -> None:
        entries = [LogEntry(index + 1 + i, term, b"\0%d" % term) for i in range(count)]
        message = {"type": "append_entries", "term": term, "prevLogIdx": index, "round": 1}
        message |= {"prevLogTerm": node.journal.term(index), "commit_index": 0}
        node.transport._onMessageReceived(RaftNode(leader.name), message | {"entries": entries})

    append(5, term)
    flushed = node.journal.flush()
    append(9, term + 1)  # A newer leader has other entries there.
    node.core.flushed(flushed)
    node.core.tick()  # The checkers look at every ack.
    require(node.journal.flushed_index == index, "what took their place is not on disk")


@scenario
def entries_of_any_size_travel_whole() -> None:
    """Row 12: also next to every limit, and beyond the size of a batch."""
    world = healthy()
    leader = leader_of(world)
    for size in (65_535, 65_536, 65_537, (1 << 20) - 1, 1 << 20, 3 << 20):
        leader.propose(bytes(size))
    world.run_until(
        lambda: world.checks.acked >= 6 and world._all_equal(),
        within_s=3.0,
        promise="large entries commit everywhere",
    )


@scenario
def a_single_node_is_a_cluster() -> None:
    """Rows 2, 14, 15: it elects itself at once, and commits what its own disk has."""
    world = World(1, options=Options(nodes=1))
    world.start()
    world.run_until(
        lambda: world.leader() is not None, within_s=0.1, promise="it does not wait for nobody"
    )
    node = leader_of(world)
    node.flush_s = 0.5
    world.run_for(1.0)
    node.propose(b"x")
    world.run_for(0.1)
    require(world.checks.acked == 0, "not before the fsync")
    answers: list[int | None] = []
    node.core.read_index(answers.append)
    node.core.tick()
    require(len(answers) == 1 and answers[0] is not None, "it reads alone", answers=answers)
    world.run_for(1.0)
    require(world.checks.acked == 1, "after the fsync")
