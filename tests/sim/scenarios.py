"""Scripted runs, one promise each: what a random schedule meets too rarely, or cannot judge.

A name says the promise; the docstring says the row of CONSENSUS. They are tests
(tests/cluster/consensus/test_scenarios.py) and what the mutants are tried on.
"""

from __future__ import annotations

from collections.abc import Callable

from pysyncobj.node import Node as RaftNode

from raftflow.cluster.consensus.types import Role
from raftflow.raftlog.journal import LogEntry
from tests.sim.checkers import require
from tests.sim.node import FailStop, SimNode
from tests.sim.options import Options
from tests.sim.workload import Workload
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


# ------------------------------------------------------------------------------- replication


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


# --------------------------------------------------------------------------------- elections


@scenario
def an_isolated_node_deposes_nobody_when_it_returns() -> None:
    """Row 14: pre-vote."""
    world = healthy()
    leader, (lonely, _other) = leader_of(world), followers_of(world)
    term = leader.core.term
    isolate(world, lonely)
    world.run_for(5.0)
    world.network.heal()
    world.run_for(2.0)
    require(leader.core.role is Role.LEADER and leader.core.term == term, "the leader stays")
    require(lonely.core.leader == leader.name, "the lonely node follows again")


@scenario
def a_node_that_does_not_hear_the_leader_deposes_nobody() -> None:
    """Row 14: stickiness. The others hear the leader and refuse."""
    world = healthy()
    leader, (deaf, _other) = leader_of(world), followers_of(world)
    term = leader.core.term
    world.network.cut(leader.name, deaf.name)
    world.run_for(4.0)
    require(leader.core.role is Role.LEADER and leader.core.term == term, "the leader stays")
    world.network.heal()
    world.run_for(1.0)
    require(leader.core.term == term and deaf.core.leader == leader.name, "all follow again")


@scenario
def a_paused_follower_reads_its_sockets_before_it_campaigns() -> None:
    """Row 14: what has arrived meanwhile counts first."""
    for seed in range(6):
        world = healthy(seed)
        leader, (sleeper, _other) = leader_of(world), followers_of(world)
        before = sleeper.core.status().counters.pre_votes
        sleeper.inbox.append(sleeper.core.tick)  # The timer may come before the sockets.
        sleeper.pause(2.0)
        world.run_for(4.0)
        pre_votes = sleeper.core.status().counters.pre_votes - before
        require(pre_votes == 0, "no pre-vote after a pause", seed=seed, pre_votes=pre_votes)
        require(sleeper.core.leader == leader.name, "it follows")


@scenario
def a_paused_leader_reads_its_sockets_before_it_steps_down() -> None:
    """Row 14: a pause shorter than the election timeout changes nothing."""
    world = healthy()
    leader = leader_of(world)
    term = leader.core.term
    leader.inbox.append(leader.core.tick)
    leader.pause(0.35)
    world.run_for(2.0)
    require(leader.core.role is Role.LEADER and leader.core.term == term, "the leader stays")


@scenario
def a_leader_without_a_majority_steps_down() -> None:
    """Rows 14, 16: within about one election timeout, and whoever waits learns it at once."""
    world = healthy()
    leader = leader_of(world)
    roles: list[Role] = []
    on_role = leader.on_role

    def note(role: Role, term: int, name: str | None) -> None:
        roles.append(role)
        on_role(role, term, name)

    leader.on_role = note
    isolate(world, leader)
    answers: list[int | None] = []
    leader.core.read_index(answers.append)
    leader.core.tick()
    world.run_for(1.0)
    require(leader.core.role is not Role.LEADER, "it steps down")
    require(roles[:1] == [Role.FOLLOWER], "its surroundings are told", roles=roles)
    require(answers == [None], "its reads learn that nobody confirmed them", answers=answers)


@scenario
def a_killed_leader_is_replaced_in_a_fraction_of_the_timeout() -> None:
    """Row 14: the reset connection starts a pre-vote."""
    slow = 0
    for seed in range(20):
        world = healthy(seed)
        leader = leader_of(world)
        leader.kill(power=False)
        took = world.run_until(
            lambda w=world: w.leader() is not None, within_s=3.0, promise="a new leader"
        )
        slow += took > 0.2
    require(slow <= 4, "mostly within 200 ms", slower=slow, of=20)


@scenario
def nodes_that_are_always_late_still_elect() -> None:
    """Row 14: what spares a paused node must not silence a busy one."""
    world = healthy()
    leader, followers = leader_of(world), followers_of(world)
    for node in followers:
        node.tick_s = 0.15
    leader.kill(power=True)
    world.run_until(lambda: world.leader() is not None, within_s=4.0, promise="a new leader")


@scenario
def leadership_moves_when_asked() -> None:
    """No election timeout passes, nothing is lost, and the target leads."""
    world = healthy()
    leader, (target, _other) = leader_of(world), followers_of(world)
    write(world, leader, 5)
    require(leader.core.transfer_leadership(target.name), "the transfer starts")
    took = world.run_until(
        lambda: target.core.role is Role.LEADER, within_s=1.0, promise="the target leads"
    )
    require(took < 0.1, "it takes no timeout", took=took)
    world.run_for(0.5)
    require(world.leader() is target and world._all_equal(), "all follow")


@scenario
def a_voter_counts_once() -> None:
    """Row 13: the same vote twice is one vote."""
    world = healthy(size=5)
    node = followers_of(world)[0]
    voter = next(n for n in followers_of(world) if n is not node)
    isolate(world, node)
    node.core._campaign(world.clock.now)
    vote = {"type": "response_vote", "term": node.core.term}
    for _ in range(3):
        node.transport._onMessageReceived(RaftNode(voter.name), dict(vote))
    require(node.core.role is Role.CANDIDATE, "one voter is no majority of five")


@scenario
def a_vote_is_kept_over_a_restart() -> None:
    """Row 1: whoever asks later in the same term gets none."""
    world = healthy()
    leader, (voter, other) = leader_of(world), followers_of(world)
    term = voter.core.term + 1
    ask = {"type": "request_vote", "term": term, "last_log_index": 1 << 40}
    ask |= {"last_log_term": voter.core.term}
    isolate(world, voter)
    voter.transport._onMessageReceived(RaftNode(leader.name), dict(ask))
    require(voter.hard_state.voted_for == leader.name, "the vote is given")
    voter.kill(power=True)
    voter.start()
    voter.transport._onMessageReceived(RaftNode(other.name), dict(ask))  # The checkers watch.
    require(voter.core.term == term, "the term is kept")


@scenario
def a_leader_learns_of_a_newer_term() -> None:
    """Row 13: else a node that campaigned in vain would follow nobody, for ever."""
    world = healthy()
    node = followers_of(world)[0]
    isolate(world, node)
    node.core._campaign(world.clock.now)
    give_up(world)
    world.network.heal()
    world.run_until(
        lambda: world._one_leader_followed() and leader_of(world).core.term >= node.core.term,
        within_s=2.0,
        promise="all follow one leader again",
    )


@scenario
def a_node_with_a_shorter_log_does_not_campaign() -> None:
    """Row 14: it cannot win, and would only raise the term."""
    world = healthy()
    leader, (short, other) = leader_of(world), followers_of(world)
    isolate(world, short)
    write(world, leader, 10)
    world.run_for(0.2)
    other.pause(0.6)  # The short one asks first.
    leader.kill(power=False)
    give_up(world)
    world.network.heal()
    world.run_until(
        lambda: other.core.role is Role.LEADER, within_s=5.0, promise="the complete log leads"
    )
    campaigns = short.core.status().counters.elections
    require(campaigns == 0, "the short one did not campaign", campaigns=campaigns)


# ------------------------------------------------------------------------- snapshots, reads


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


# --------------------------------------------------------------------------------- fail-stop


@scenario
def a_failed_apply_ends_the_node() -> None:
    """Row 11: once, and the process ends."""
    world = healthy()
    leader = leader_of(world)

    def fail(_entries: list[LogEntry]) -> None:
        raise RuntimeError("disk of the store is gone")

    leader.on_commit = fail
    try:
        leader.propose(b"x")
        world.run_for(0.5)
    except FailStop as stopped:
        require(leader.name in str(stopped), "the node that failed ends")
    else:
        require(False, "a failed apply ends the node")


@scenario
def a_vote_that_cannot_be_stored_is_not_given() -> None:
    """Rows 1, 17: the disk refuses; the node ends and no vote leaves it."""
    world = healthy()
    leader, (voter, _other) = leader_of(world), followers_of(world)
    given: list[dict] = []

    def refuse(*_arguments: object) -> None:
        raise OSError(5, "input/output error")

    voter.disk.fdatasync = refuse
    voter.transport.send = lambda _target, message: given.append(message) or True
    term = voter.core.term + 1
    message = {"type": "request_vote", "term": term, "last_log_index": 1 << 40}
    try:
        voter.transport._onMessageReceived(
            RaftNode(leader.name), message | {"last_log_term": voter.core.term}
        )
    except FailStop:
        require(not given, "no message leaves it", given=given)
    else:
        require(False, "a vote that cannot be stored ends the node", given=given)
