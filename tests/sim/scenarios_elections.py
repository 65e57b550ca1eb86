"""Scripted runs: votes, pre-votes, leaders that come and go."""

from __future__ import annotations

from pysyncobj.node import Node as RaftNode

from raftflow.cluster.consensus.prevote import Objection
from raftflow.cluster.consensus.types import Role
from tests.sim.checkers import require
from tests.sim.staging import (
    followers_of,
    give_up,
    healthy,
    isolate,
    leader_of,
    scenario,
    write,
)


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
def who_refused_whom_and_why_is_known() -> None:
    """Row 14: for whoever asks why nobody leads."""
    world = healthy()
    leader, (deaf, other) = leader_of(world), followers_of(world)
    world.network.cut(leader.name, deaf.name)
    world.run_for(4.0)
    asked = deaf.core.votes()
    require(asked.asked_term == deaf.core.term + 1, "it asks for the next term", votes=asked)
    require(asked.granted_by == {deaf.name}, "only it says yes", votes=asked)
    ballot = other.core.votes().ballots[-1]
    require((ballot.candidate, ballot.pre) == (deaf.name, True), "the other was asked")
    require(ballot.objection is Objection.HEARS_LEADER, "and hears the leader", ballot=ballot)
    world.network.heal()
    world.run_for(1.0)
    voted = other.core.votes()
    require(voted.voted_for == leader.name, "its vote of this term is known", votes=voted)
    require(deaf.core.votes().asked_term == 0, "nobody asks any more")


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
