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
from tests.sim.workload import Workload
from tests.sim.world import World

Scenario = Callable[[], None]
SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


def healthy(seed: int = 1, *, size: int = 3) -> World:
    """A cluster that has a leader which everyone follows."""
    world = World(seed, size=size)
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


def isolate(world: World, node: SimNode) -> None:
    for other in world.names:
        if other != node.name:
            world.network.cut(node.name, other)
            world.network.cut(other, node.name)


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
    """Rows 4, 7: a deposed leader with 300 entries that nobody has catches up at once."""
    world = healthy()
    old = leader_of(world)
    isolate(world, old)
    write(world, old, 300)
    world.run_until(
        lambda: any(n.core.role is Role.LEADER for n in followers_of_old(world, old)),
        within_s=5.0,
        promise="the others elect",
    )
    new = next(n for n in followers_of_old(world, old) if n.core.role is Role.LEADER)
    write(world, new, 300, size=3000)
    world.run_for(1.0)
    before = world.network.messages
    world.network.heal()
    world.run_until(world._all_equal, within_s=2.0, promise="the deposed leader catches up")
    spent = world.network.messages - before
    require(spent < 400, "it takes few messages", messages=spent)


def followers_of_old(world: World, old: SimNode) -> list[SimNode]:
    return [node for node in world.nodes.values() if node is not old]


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
    world = World(1, size=1)
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
    for other in world.names:
        if other != node.name:
            world.network.cut(node.name, other)
            world.network.cut(other, node.name)
    node.core._campaign(world.clock.now)
    vote = {"type": "response_vote", "term": node.core.term}
    for _ in range(3):
        node.transport._onMessageReceived(RaftNode(voter.name), dict(vote))
    require(node.core.role is Role.CANDIDATE, "one voter is no majority of five")


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
    world.run_for(3.0)
    new = next(n for n in followers_of_old(world, old) if n.core.role is Role.LEADER)
    write(world, new, 20, gap_s=0.005)
    world.run_for(0.5)
    old.kill(power=False)
    old.durable = new.durable
    require(old.journal.last_index > new.durable.index, "the tail is longer than the store")
    world.network.heal()
    old.start()
    world.run_for(1.0)
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
