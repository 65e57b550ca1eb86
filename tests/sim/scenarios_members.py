"""Scripted runs: who belongs to the cluster, and whose disk counts (rows 20, 21)."""

from __future__ import annotations

from dataclasses import replace

from pysyncobj.node import Node as RaftNode

from raftflow.cluster.consensus.types import Role
from tests.sim.checkers import require
from tests.sim.node import SimNode
from tests.sim.options import Options
from tests.sim.staging import (
    changed,
    elected_besides,
    followers_of,
    follows,
    give_up,
    healthy,
    isolate,
    leader_of,
    learner,
    newcomer,
    recorded,
    refusal,
    scenario,
    top_term,
    voter,
    write,
)
from tests.sim.workload import Workload
from tests.sim.world import World


def names(*nodes: SimNode) -> str:
    return "".join(sorted(node.name for node in nodes))


def steady(world: World, seconds: float, promise: str) -> None:
    """Nobody raises the term meanwhile."""
    before = top_term(world)
    world.run_for(seconds)
    require(top_term(world) == before, promise, before=before, after=top_term(world))


# ------------------------------------------------------------------------------ one at a time


@scenario
def a_second_change_waits_for_the_first() -> None:
    """Row 21: and no two voters change in one."""
    world = healthy()
    leader, (one, other) = leader_of(world), followers_of(world)
    now = leader.core.configuration.configuration
    problem = refusal(leader, now.without(one.name).without(other.name))
    require("one at a time" in problem, "two at once are refused", problem=problem)
    problem = refusal(leader, now.without(one.name).put(learner(world.add_node(now))))
    require(problem == "", "a learner may come with it", problem=problem)
    problem = refusal(leader, now)
    require("not committed" in problem, "the next one waits", problem=problem)
    world.run_for(0.3)
    problem = refusal(leader, leader.core.configuration.configuration)
    require(problem == "", "until it is committed", problem=problem)


@scenario
def a_new_leader_changes_nothing_before_an_entry_of_its_own_is_committed() -> None:
    """Row 21: two leaders could otherwise each begin from a configuration of their own."""
    world = healthy(size=5)
    old = leader_of(world)
    for node in followers_of(world):
        node.flush_s = 0.2
    world.run_for(1.0)
    isolate(world, old)
    new = elected_besides(world, old)
    problem = refusal(new, new.core.configuration.configuration.without(old.name))
    require("term" in problem, "not yet", problem=problem)
    world.run_for(1.5)
    problem = refusal(new, new.core.configuration.configuration.without(old.name))
    require(problem == "", "its no-op is committed", problem=problem)


@scenario
def a_configuration_goes_with_its_entry() -> None:
    """Row 21: in force on everyone who has it, and undone where it is cut off."""
    world = healthy(size=5)
    old, (friend, *others) = leader_of(world), followers_of(world)
    before = old.core.configuration
    for node in others:
        isolate(world, node, from_=[old, friend])
    gone = others[0]
    require(refusal(old, before.configuration.without(gone.name)) == "", "it begins")
    old.do(old.core.tick)
    world.run_for(0.1)
    for node in (old, friend):
        held = node.core.configuration.configuration
        require(held.find(gone.name) is None, "in force when appended", node=node.name)
        require(node.core.committed_configuration == before, "not committed", node=node.name)
    new = elected_besides(world, old)
    write(world, new, 3)
    give_up(world)
    world.network.heal()
    world.run_until(world._all_equal, within_s=3.0, promise="all follow the new leader")
    for node in world.nodes.values():
        require(node.core.configuration == before, "undone with its entry", node=node.name)


@scenario
def two_halves_never_commit_after_changes_of_their_own() -> None:
    """Row 21: a deposed leader goes on shrinking the cluster; it gets nowhere."""
    world = healthy(size=5)
    old, (friend, *others) = leader_of(world), followers_of(world)
    for node in others:
        isolate(world, node, from_=[old, friend])
    held = old.core.configuration.configuration
    require(refusal(old, held.without(others[0].name)) == "", "one change begins")
    write(world, old, 3)
    problem = refusal(old, old.core.configuration.configuration.without(others[1].name))
    require("not committed" in problem, "the next does not", problem=problem)
    commit = old.core.commit_index
    new = elected_besides(world, old)
    world.run_for(0.3)
    changed(world, new.core.configuration.configuration.without(old.name))
    changed(world, new.core.configuration.configuration.without(friend.name))
    write(world, new, 3)
    world.run_for(1.0)
    require(old.core.commit_index == commit, "the minority commits nothing")
    require(world.checks.acked == 3, "the others do", acked=world.checks.acked)


# ------------------------------------------------------------------------------------ learners


@scenario
def a_learner_gets_the_log_and_counts_nowhere() -> None:
    """Rows 2, 15, 21: neither for commits nor for reads, contact or votes."""
    world = healthy()
    leader, others = leader_of(world), followers_of(world)
    node = newcomer(world)
    changed(world, leader.core.configuration.configuration.put(learner(node)))
    write(world, leader, 5)
    world.run_for(0.3)
    require(node.state == leader.state, "it learns")
    acked = world.checks.acked
    for other in others:
        isolate(world, other)
    write(world, leader, 1)
    answers: list[int | None] = []
    leader.do(lambda: leader.core.read_index(answers.append))
    leader.do(leader.core.tick)
    world.run_for(0.3)
    require(world.checks.acked == acked, "nothing commits with a learner's help")
    world.run_for(2.0)
    require(leader.core.role is not Role.LEADER, "nor does the leader stay")
    require(answers == [None], "nor is a read confirmed", answers=answers)
    require(node.core.status().counters.pre_votes == 0, "it does not campaign")


@scenario
def an_api_node_is_nobodys_heir() -> None:
    """Row 21: however far it is, it neither leads nor helps anybody to."""
    world = healthy()
    leader, others = leader_of(world), followers_of(world)
    node = newcomer(world)
    member = replace(learner(node), api=True)
    changed(world, leader.core.configuration.configuration.put(member))
    write(world, leader, 5)
    world.run_for(0.3)
    require(node.state == leader.state, "it learns")
    held = node.core.configuration.configuration.find(node.name)
    require(held == member, "it knows what it is", held=held)
    asked: list[bool] = []
    leader.do(lambda: asked.append(leader.core.transfer_leadership(node.name)))
    for other in others:
        isolate(world, other)
    world.run_for(0.1)
    leader.do(lambda: asked.append(leader.core.transfer_leadership(None)))
    world.run_for(2.0)
    require(asked[0] is False, "leadership is not handed to it", asked=asked)
    require(node.core.role is not Role.LEADER, "nor does it take it")
    require(world.leader() is None, "two of four are a majority of no voters")
    world.network.heal()
    world.run_until(world._one_leader_followed, within_s=4.0, promise="voters lead")
    require(leader_of(world) is not node, "and no other")


@scenario
def a_node_joins_learns_and_votes() -> None:
    """Row 21: by a snapshot, since the log is compacted; then the majority is three of four."""
    world = healthy()
    world.keep_entries = 5
    leader = leader_of(world)
    write(world, leader, 150, size=300, gap_s=0.005)
    world.run_for(0.5)
    node = newcomer(world)
    configuration = leader.core.configuration.configuration.put(learner(node))
    changed(world, configuration)
    world.run_until(world._all_equal, within_s=3.0, promise="it catches up")
    require(world.stats["snapshots installed"] == 1, "by a snapshot")
    world.run_for(0.2)  # and says that it holds it
    changed(world, configuration.put(voter(node)))
    world.run_for(0.2)
    one, *rest = followers_of(world)
    for gone in (one, next(other for other in rest if other is not node)):
        isolate(world, gone)
    acked = world.checks.acked
    write(world, leader, 1)
    world.run_for(0.3)
    require(world.checks.acked == acked, "two of four are no majority")
    give_up(world)
    world.network.heal()
    world.run_until(world._one_leader_followed, within_s=4.0, promise="all follow")


@scenario
def a_node_whose_promotion_is_under_way_may_decide_an_election() -> None:
    """Row 21: the candidate goes by its own log; whoever has the entry wins, or it goes."""
    for seed in range(8):
        world = healthy(seed)
        leader, (one, other) = leader_of(world), followers_of(world)
        node = newcomer(world)
        configuration = leader.core.configuration.configuration.put(learner(node))
        changed(world, configuration)
        world.run_for(0.2)
        knows = (one, node) if seed % 2 else (node,)
        for each in (one, other):
            if each not in knows:
                isolate(world, each, from_=[leader])
        require(refusal(leader, configuration.put(voter(node))) == "", "it begins")
        leader.do(leader.core.tick)
        world.run_for(0.05)
        require(node.core.configuration.configuration.find(node.name) == voter(node), "it votes")
        leader.kill(power=bool(seed % 3))
        world.network.heal()
        # Three of four voters are alive, and so are two of the three that it was before.
        new = elected_besides(world, leader)
        new.propose(b"x")
        world.run_for(0.5)
        leader.start()
        world.run_until(world._one_leader_followed, within_s=4.0, promise="all follow")
        world.run_until(world._all_equal, within_s=3.0, promise="all are equal")


# ------------------------------------------------------------------------------------ leaving


@scenario
def a_leader_that_removes_itself_hands_over() -> None:
    """Row 21: once that is committed; no election timeout passes, and it never campaigns."""
    for seed in range(6):
        world = healthy(seed, size=3 + seed % 2 * 2)
        old = leader_of(world)
        term = old.core.term
        write(world, old, 5)
        changed(world, old.core.configuration.configuration.without(old.name))
        took = world.run_until(
            lambda w=world, o=old: any(
                node.core.role is Role.LEADER for node in w.nodes.values() if node is not o
            ),
            within_s=1.0,
            promise="another leads",
        )
        require(took < 0.1, "without a timeout", took=took)
        require(old.core.role is not Role.LEADER, "it has stepped down")
        new = leader_of(world)
        require(new.core.term == term + 1, "in one election", term=new.core.term)
        write(world, new, 3)
        steady(world, 5.0, "it does no harm")
        require(world._one_leader_followed(), "the others follow")


@scenario
def a_leader_that_removes_itself_does_not_count_itself() -> None:
    """Row 21: two are left, so both must have the entry."""
    world = healthy()
    old, (one, other) = leader_of(world), followers_of(world)
    isolate(world, other)
    world.run_for(0.1)
    require(refusal(old, old.core.configuration.configuration.without(old.name)) == "", "begins")
    index = old.core.configuration.index
    old.do(old.core.tick)
    world.run_for(0.3)
    require(one.journal.flushed_index >= index, "one has it")
    require(old.core.commit_index < index, "that is not enough", commit=old.core.commit_index)
    world.network.heal()
    world.run_until(lambda: follows(world, one.name, other.name), within_s=4.0, promise="they lead")
    world.run_until(
        lambda: one.core.committed_configuration.index >= index,
        within_s=2.0,
        promise="the removal is committed in the end",
    )


@scenario
def a_removal_that_nobody_has_heard_of_blocks_nobody() -> None:
    """Row 21: only the removed leader's log has it, and the longest log must win."""
    world = healthy(size=2)
    old, (other,) = leader_of(world), followers_of(world)
    isolate(world, other)
    require(refusal(old, old.core.configuration.configuration.without(old.name)) == "", "begins")
    old.do(old.core.tick)
    world.run_for(0.05)
    old.kill(power=False)
    world.network.heal()
    old.start()
    require(old.core.configuration.configuration.voters == (other.name,), "its log says so")
    world.run_until(
        lambda: (
            other.core.role is Role.LEADER
            and other.core.committed_configuration.configuration.voters == (other.name,)
        ),
        within_s=5.0,
        promise="it is elected once more, commits its removal, and hands over",
    )
    world.run_for(1.0)
    require(old.core.role is Role.FOLLOWER, "and is gone")


@scenario
def a_removed_node_is_told_and_disturbs_nobody() -> None:
    """Row 21: it hears of its removal, is connected to nobody, and raises no term."""
    world = healthy()
    leader, (gone, _other) = leader_of(world), followers_of(world)
    changed(world, leader.core.configuration.configuration.without(gone.name))
    world.run_for(0.2)
    require(gone.core.committed_configuration.configuration.find(gone.name) is None, "it is told")
    world.run_for(1.0)
    require(not world.network.is_connected(gone.name, leader.name), "it is left alone")
    gone.kill(power=True)
    gone.start()
    steady(world, 5.0, "it raises no term")
    require(gone.core.status().counters.pre_votes == 0, "nor does it try")


@scenario
def a_node_that_missed_its_removal_disturbs_nobody() -> None:
    """Row 21: it campaigns by what it knows; nobody takes its call, and it raises no term."""
    for seed in range(4):
        world = healthy(seed, size=3 + seed % 2)
        leader, (gone, *_others) = leader_of(world), followers_of(world)
        if seed < 2:
            gone.kill(power=True)
        else:
            isolate(world, gone)
        changed(world, leader.core.configuration.configuration.without(gone.name))
        write(world, leader, 5)
        world.run_for(1.5)
        if seed < 2:
            gone.start()
        give_up(world)
        world.network.heal()
        term = leader.core.term
        write(world, leader, 5)
        world.run_for(6.0)
        require(gone.core.configuration.configuration.find(gone.name) is not None, "it missed it")
        require(leader.core.role is Role.LEADER and leader.core.term == term, "the leader stays")
        require(gone.core.term <= term, "its term stays as well", term=gone.core.term)
        require(not world.network.is_connected(gone.name, leader.name), "nobody takes its call")


@scenario
def three_become_five_and_three_again_under_load() -> None:
    """Row 21: the first three are all replaced, the leader too; every write is kept."""
    world = healthy()
    world.keep_entries = 20
    workload = Workload(world)
    configuration = recorded(world)
    first = list(world.nodes.values())
    for _ in range(2):
        node = newcomer(world)
        for member in (learner(node), voter(node)):
            configuration = configuration.put(member)
            changed(world, configuration)
            world.run_for(0.3)
    for gone in first[:2]:
        configuration = configuration.without(gone.name)
        changed(world, configuration)
        world.run_until(
            world._one_leader_followed, within_s=3.0, promise="the others have a leader"
        )
        world.run_for(0.3)
    workload.stopped = True
    world.run_for(0.5)
    require(len(configuration.voters) == 3, "three again", voters=configuration.voters)
    require(world.checks.acked > 50, "writes went on", acked=world.checks.acked)
    require(world._one_leader_followed() and world._all_equal(), "and all are equal")


@scenario
def who_has_learnt_nothing_is_not_made_a_voter() -> None:
    """Row 21: it would vote for nobody, and the leader could not be elected again without it."""
    world = healthy(size=1)
    configuration = recorded(world)
    leader = leader_of(world)
    node = newcomer(world)
    node.kill(power=True)
    configuration = configuration.put(learner(node))
    changed(world, configuration)
    world.run_for(0.2)
    problem = refusal(leader, configuration.put(voter(node)))
    require("must learn before it votes" in problem, "an empty node is no voter", problem=problem)
    node.start()
    world.run_until(world._all_equal, within_s=3.0, promise="it catches up")
    world.run_for(0.2)
    changed(world, configuration.put(voter(node)))
    world.run_until(world._all_equal, within_s=3.0, promise="both go on")
    leader.kill(power=True)
    leader.start()
    world.run_until(lambda: world.leader() is not None, within_s=6.0, promise="a leader is found")


@scenario
def a_cluster_shrinks_to_one_and_grows_again() -> None:
    """Rows 2, 21: majorities follow, down to a node that is its own."""
    world = healthy()
    configuration = recorded(world)
    leader = leader_of(world)
    others = followers_of(world)
    for gone in others:
        configuration = configuration.without(gone.name)
        changed(world, configuration)
        world.run_for(1.0)
    for gone in others:
        gone.kill(power=True)
    leader.propose(b"alone")
    world.run_for(0.1)
    require(world.checks.acked == 1, "it commits alone", acked=world.checks.acked)
    leader.kill(power=True)
    leader.start()
    world.run_until(lambda: world.leader() is leader, within_s=0.1, promise="it waits for nobody")
    world.run_for(0.1)
    back = others[0]
    back.start()
    for member in (learner(back), voter(back)):
        configuration = configuration.put(member)
        changed(world, configuration)
        world.run_until(world._all_equal, within_s=3.0, promise="it catches up")
        world.run_for(0.2)
    back.kill(power=True)
    acked = world.checks.acked
    leader.propose(b"x")
    world.run_for(0.3)
    require(world.checks.acked == acked, "two are needed again")


# ------------------------------------------------------------------------------------ strangers


@scenario
def a_stranger_disturbs_nobody_who_is_led() -> None:
    """Row 21: neither its calls for an election nor its terms count, on any node."""
    world = healthy()
    leader, term = leader_of(world), leader_of(world).core.term
    last = {"last_log_index": 1 << 40, "last_log_term": 1 << 20}
    answer = {"success": True, "next_node_idx": 1, "received": 0, "rejected": 0, "hint_term": 0}
    messages = [
        {"type": "request_vote", "term": 99} | last,
        {"type": "pre_vote", "term": 99} | last,
        {"type": "pre_vote_reply", "term": 99, "asked_term": 99, "granted": True},
        {"type": "next_node_idx", "term": 99, "round": 0} | answer,
        {"type": "timeout_now", "term": term},
    ]
    for node in world.nodes.values():
        for message in messages:
            node.do(lambda n=node, m=message: n.transport._onMessageReceived(RaftNode("x"), m))
    steady(world, 2.0, "no term is taken from it")
    require(leader.core.role is Role.LEADER and leader.core.term == term, "the leader stays")


@scenario
def a_voter_that_is_behind_may_decide_the_election_of_one_it_does_not_know() -> None:
    """Row 21: three of four are alive, but only the newcomer's log is long enough to win."""
    world = healthy()
    leader, (other, behind) = leader_of(world), followers_of(world)
    isolate(world, behind)
    give_up(world)
    node = newcomer(world)
    for member in (learner(node), voter(node)):
        held = leader.core.configuration.configuration
        changed(world, held.put(member))
        world.run_for(0.3)
    isolate(world, other, from_=[leader, node])
    write(world, leader, 1)
    world.run_for(0.2)
    require(node.journal.last_index > other.journal.last_index, "the newcomer has more")
    require(behind.core.configuration.configuration.find(node.name) is None, "it is not known")
    leader.kill(power=True)
    give_up(world)
    world.network.heal()
    world.run_until(lambda: node.core.role is Role.LEADER, within_s=6.0, promise="it is elected")
    world.run_until(world._all_equal, within_s=3.0, promise="and all have what it has")


# --------------------------------------------------------------------------- what is remembered


@scenario
def a_snapshot_brings_the_members() -> None:
    """Rows 9, 21: the entry that says so is compacted; a restart remembers it too."""
    world = healthy()
    world.keep_entries = 5
    leader, (away, other) = leader_of(world), followers_of(world)
    away.kill(power=True)
    node = newcomer(world)
    configuration = leader.core.configuration.configuration.put(learner(node))
    changed(world, configuration)
    write(world, leader, 150, size=300, gap_s=0.01)
    world.run_for(0.5)
    index = leader.core.configuration.index
    require(leader.journal.prev_index > index, "its entry is compacted")
    away.start()
    world.run_until(lambda: away.state == leader.state, within_s=3.0, promise="it catches up")
    world.run_for(0.1)
    require(away.core.configuration == leader.core.configuration, "the snapshot brought it")
    for each in (away, other, leader):
        each.kill(power=True)
        each.start()
        held = each.core.configuration
        require(held.index == index, "it is remembered", node=each.name, index=held.index)
        require(held.configuration == configuration, "as it was", node=each.name)


@scenario
def the_members_are_written_down_before_the_store_stands_for_the_log() -> None:
    """Rows 9, 21: the process dies between installing a snapshot and telling the log."""
    world = healthy()
    world.keep_entries = 5
    leader, (away, _other) = leader_of(world), followers_of(world)
    away.kill(power=True)
    configuration = leader.core.configuration.configuration.put(learner(newcomer(world)))
    changed(world, configuration)
    write(world, leader, 150, size=300, gap_s=0.01)
    world.run_for(0.5)
    install = away._install

    def install_and_die(copy: object) -> None:
        install(copy)
        away.kill(power=True)

    away._install = install_and_die  # type: ignore[method-assign]
    away.start()
    world.run_until(lambda: not away.alive, within_s=3.0, promise="it dies meanwhile")
    away._install = install  # type: ignore[method-assign]
    away.start()
    held = away.core.configuration.configuration
    require(held == configuration, "it knows the members", voters=held.voters)
    world.run_until(world._all_equal, within_s=3.0, promise="it goes on")


@scenario
def a_node_that_was_away_while_all_others_were_replaced_is_found() -> None:
    """Row 21: it knows none of them; they know it, and tell it more than it knows."""
    world = healthy()
    configuration = recorded(world)
    leader, (away, other) = leader_of(world), followers_of(world)
    away.kill(power=True)
    for _ in range(2):
        node = newcomer(world)
        for member in (learner(node), voter(node)):
            configuration = configuration.put(member)
            changed(world, configuration)
            world.run_for(0.3)
    for gone in (other, leader):
        configuration = configuration.without(gone.name)
        changed(world, configuration)
        world.run_for(1.0)
        gone.kill(power=True)
    new = leader_of(world)
    write(world, new, 5)
    away.start()
    world.run_until(world._all_equal, within_s=3.0, promise="it follows those who replaced them")
    require(away.core.configuration == new.core.configuration, "and knows them")


# -------------------------------------------------------------------------------------- disks


@scenario
def a_voter_without_its_disk_counts_nowhere() -> None:
    """Row 20: neither its acknowledgements nor its vote; it forgot what it had promised."""
    for known in (True, False):  # by the configuration, or by having been seen
        world = healthy()
        if known:
            recorded(world)
        leader, (lost, other) = leader_of(world), followers_of(world)
        lost.kill(power=True)
        lost.replace_disk(world.birth)
        isolate(world, other)
        lost.start()
        commit = leader.core.commit_index
        write(world, leader, 1)
        world.run_for(0.5)
        require(leader.core.commit_index == commit, "one of three is no majority", known=known)
        world.run_for(1.0)
        require(leader.core.role is not Role.LEADER, "nor enough to lead", known=known)
        world.run_for(3.0)
        require(world.leader() is None, "nor to be elected", known=known)
        world.network.heal()
        world.run_until(world._one_leader_followed, within_s=4.0, promise="two of three lead")


@scenario
def a_voter_without_its_disk_learns_anew_and_votes_again() -> None:
    """Row 20: as a new incarnation."""
    world = healthy()
    configuration = recorded(world)
    leader, (lost, other) = leader_of(world), followers_of(world)
    write(world, leader, 20)
    world.run_for(0.3)
    lost.kill(power=True)
    lost.replace_disk(world.birth)
    lost.start()
    world.run_for(0.5)
    problem = refusal(leader, configuration.put(voter(lost)))
    require("one at a time" in problem, "another disk is another voter", problem=problem)
    for member in (learner(lost), voter(lost)):
        configuration = configuration.put(member)
        changed(world, configuration)
        world.run_until(world._all_equal, within_s=3.0, promise="it catches up")
    other.kill(power=True)
    acked = world.checks.acked
    leader.propose(b"x")
    world.run_for(0.2)
    require(world.checks.acked == acked + 1, "it counts again")


@scenario
def a_node_whose_own_disk_is_another_does_not_campaign() -> None:
    """Row 20: even when it is the only one that is left."""
    world = healthy()
    recorded(world)
    leader, (lost, other) = leader_of(world), followers_of(world)
    lost.kill(power=True)
    lost.replace_disk(world.birth)
    lost.start()
    world.run_until(lambda: lost.state == leader.state, within_s=3.0, promise="it gets the log")
    for node in (leader, other):
        node.kill(power=True)
    steady(world, 5.0, "it raises no term")
    require(lost.core.status().counters.pre_votes == 0, "it does not even ask")


@scenario
def who_waits_to_join_helps_nobody_to_begin_a_cluster() -> None:
    """Row 20: an empty node that believes in the peers of long ago asks those who are empty too."""
    world = World(1, options=Options(nodes=3))
    first, *others = world.nodes.values()
    for node in others:
        node.birth = world.birth.without(node.name)
    world.start()
    world.run_for(4.0)
    require(first.core.status().counters.pre_votes > 0, "it asks")
    require(world.leader() is None, "nobody helps it")
