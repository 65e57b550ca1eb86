"""Bugs put in on purpose: one for every rule of CONSENSUS that the core keeps, at least.

Each is the stock behaviour, or the natural mistake. `python -m tests.sim.run --mutants` shows that
each is caught, by a scenario or by a random seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from raftflow.cluster.codec import commands as codec
from raftflow.cluster.consensus import core as core_module
from raftflow.cluster.consensus import journal_adapter, proof, readindex, repair
from raftflow.cluster.consensus.configurations import Configurations
from raftflow.cluster.consensus.core import Core
from raftflow.cluster.consensus.electorate import Electorate
from raftflow.cluster.consensus.membership import Configuration
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.consensus.progress import Mode
from raftflow.cluster.consensus.types import Role
from raftflow.engine.commands import FEATURE_LEVEL
from raftflow.engine.evolve.recorder import Recorder
from raftflow.raftlog import abstaining, frame, recovery
from raftflow.raftlog.hardstate import HardState

P = "_SyncObj__"


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    row: int
    target: Any
    attribute: str
    replacement: Any
    test: str = ""  # of another layer, which catches what no simulated run shows
    layer: str = "consensus"

    @contextmanager
    def applied(self) -> Iterator[None]:
        with patch.object(self.target, self.attribute, self.replacement):
            yield


MUTANTS: list[Mutant] = []


def mutant(row: int, target: Any, attribute: str, *, test: str = "") -> Callable[[Any], Any]:
    def register(replacement: Any) -> Any:
        name = getattr(replacement, "fget", replacement).__name__
        MUTANTS.append(Mutant(name, row, target, attribute, replacement, test))
        return replacement

    return register


def handler(row: int, kind: str) -> Callable[[Any], Any]:
    """Like `mutant`, for one entry of the table of message handlers."""

    def register(replacement: Any) -> Any:
        table = {**core_module._HANDLERS, kind: replacement}
        name = replacement.__name__
        MUTANTS.append(Mutant(name, row, core_module, "_HANDLERS", table))
        return replacement

    return register


# -- row 19: repair


@mutant(19, proof, "highest_common")
def whatever_a_peer_has_there_is_taken(mine: Any, peer: Any) -> Any:
    last = peer.runs[-1] if peer.runs else None
    return proof.Point(last.last, last.term) if last else original_highest_common(mine, peer)


original_highest_common = proof.highest_common


@mutant(19, Core, "__init__")
def an_abstaining_node_votes(self: Any, **settings: Any) -> None:
    original_init(self, **{**settings, "abstaining": False})


original_init = Core.__init__


@mutant(19, Core, "_may_campaign")
def a_node_without_its_state_leads(self: Any) -> bool:
    before, self.awaiting_copy = self.awaiting_copy, False
    may = original_may_campaign(self)
    self.awaiting_copy = before
    return bool(may)


original_may_campaign = Core._may_campaign


@mutant(19, abstaining, "mark")
def the_end_of_a_log_is_cut_in_silence(disk: Any, directory: str, reason: str) -> None:
    pass


# -- row 1: term and vote


@mutant(1, HardState, "store")
def vote_kept_in_memory(self: Any, term: int, voted_for: str | None) -> None:
    self._term, self._voted_for = term, voted_for


@mutant(1, journal_adapter.JournalAdapter, "getVotedForNodeId")
def vote_forgotten_at_start(self: Any) -> None:
    return None


# -- row 2: what is acknowledged is on disk


@mutant(2, Core, "_send_reply")
def follower_acks_before_fsync(self: Any, now: float) -> None:
    following = self._following
    leader = getattr(self, P + "raftLeader")
    if following.reply_due and leader is not None:
        self._reply(
            self._peers[leader.id],
            success=following.verified >= 0,
            next_index=max(following.verified, 0) + 1,
            received=max(following.verified, 0),
        )
        following.reply_due = False


@mutant(2, Core, "_advance_commit")
def leader_counts_itself_before_fsync(self: Any) -> None:
    durable = sorted(
        [peer.match_index for peer in self._peers.values()] + [self._journal.last_index]
    )
    index = durable[-self._electorate.majority]
    if index > self.commit_index and self._journal.term(index) == self.term:
        setattr(self, P + "raftCommitIndex", index)


@mutant(2, Core, "_advance_commit")
def older_terms_are_counted(self: Any) -> None:
    durable = sorted(
        [peer.match_index for peer in self._peers.values()] + [self._journal.flushed_index]
    )
    index = durable[-self._electorate.majority]
    if index > self.commit_index:
        setattr(self, P + "raftCommitIndex", index)


# -- row 3: an ack counts in its term


@handler(3, "next_node_idx")
def acks_of_older_terms_count(self: Any, node: Any, message: Any) -> None:
    if message["term"] < self.term:
        message = {**message, "term": self.term}
    Core._on_append_reply(self, node, message)


@mutant(3, Core, P + "setCurrentTerm")
def verified_survives_the_term(self: Any, term: int, vote: str | None) -> None:
    super(Core, self)._SyncObj__setCurrentTerm(term, vote)
    self._voted_for_us = set()
    self._following.reply_due = False
    self._following.round = self._following.replied_round = 0


# -- row 4: no wrongful truncation


@mutant(4, Core, "_store")
def always_truncates_after_prev(self: Any, entries: list[Any]) -> None:
    if entries:
        if entries[0].index <= self._journal.last_index:
            self._journal.truncate_from(entries[0].index)
        self._journal.append(entries)
        self.callbacks.wants_flush()


# -- row 5: the follower's commit index


@handler(5, "append_entries")
def commits_what_is_not_verified(self: Any, node: Any, message: Any) -> None:
    Core._on_append(self, node, message)
    commit = min(message.get("commit_index", 0), self._journal.last_index)
    if commit > self.commit_index:
        setattr(self, P + "raftCommitIndex", commit)


# -- row 6: flow control


@mutant(6, Core, "_on_success")
def acks_move_next_index_back(self: Any, peer: Any, durable: int, received: int) -> None:
    original_on_success(self, peer, durable, received)
    if peer.mode is Mode.STREAMING:
        peer.next_index = durable + 1
        peer.inflight.clear()


original_on_success = Core._on_success


MUTANTS.append(Mutant("the_pipeline_is_not_bounded", 6, core_module, "BATCHES_IN_FLIGHT", 1 << 30))


# -- row 7: rejects


@mutant(7, Core, "_reject")
def rejects_step_back_one_by_one(self: Any, node: Any, prev: int, prev_term: int) -> None:
    self._reply(self._peers[node.id], next_index=prev, rejected=prev, hint_term=self.term)


# -- row 8: the commit index at the start of a leadership


@mutant(8, Core, P + "onBecomeLeader")
def own_log_counts_as_committed(self: Any) -> None:
    original_on_become_leader(self)
    setattr(self, P + "raftCommitIndex", self._journal.last_index)


original_on_become_leader = getattr(Core, P + "onBecomeLeader")


# -- rows 9 and 10: snapshots


@mutant(9, core_module, "_align")
def snapshot_clears_the_log(journal: Any, index: int, term: int) -> None:
    if index > journal.prev_index:
        journal.reset(index, term)


@mutant(9, core_module, "_align")
def log_is_not_aligned_with_the_store(journal: Any, index: int, term: int) -> None:
    if index > journal.last_index:
        journal.reset(index, term)


@mutant(9, Core, "compact")
def compacts_what_a_snapshot_still_needs(self: Any, index: int) -> None:
    self._journal.compact_to(self._journal.flushed_index)
    self.callbacks.wants_flush()


@mutant(10, Core, "snapshot_installed")
def an_older_snapshot_rolls_back(self: Any, index: int, term: int, held: Any = None) -> None:
    setattr(self, P + "raftLastApplied", index)


# -- row 11: fail-stop


@mutant(11, Core, P + "applyLogEntries")
def a_failed_apply_is_tried_again(self: Any) -> bool:
    with suppress(RuntimeError):
        return bool(original_apply(self))
    return False


original_apply = getattr(Core, P + "applyLogEntries")


# -- row 12: entries travel whole


@mutant(12, Core, "_batch")
def large_entries_do_not_fit(self: Any, peer: Any) -> list[Any]:
    last = self._journal.last_index
    if peer.next_index > last:
        return []
    entries = self._journal.entries(peer.next_index, last + 1, core_module.BATCH_BYTES)
    return [] if sum(len(e.payload) for e in entries) > core_module.BATCH_BYTES else entries


# -- row 13: votes, stale leaders


@handler(13, "response_vote")
def a_voter_counts_twice(self: Any, node: Any, message: Any) -> None:
    if message["term"] == self.term and self.role is Role.CANDIDATE:
        self._voted_for_us |= {node.id, f"{node.id} again"}
        if len(self._voted_for_us) >= self._electorate.majority:
            getattr(self, P + "onBecomeLeader")()


@handler(13, "append_entries")
def stale_leaders_hear_nothing(self: Any, node: Any, message: Any) -> None:
    if message["term"] >= self.term:
        Core._on_append(self, node, message)


# -- row 14: pre-vote, stickiness, stepping down


@mutant(14, Core, "_ask_first")
def no_pre_vote(self: Any, now: float) -> None:
    self._campaign(now)


@mutant(14, core_module, "would_vote")
def pre_vote_without_stickiness(**facts: Any) -> bool:
    return original_would_vote(**{**facts, "hears_leader": False})


original_would_vote = core_module.would_vote


@mutant(14, core_module, "would_vote")
def pre_vote_for_a_shorter_log(**facts: Any) -> bool:
    return original_would_vote(**{**facts, "candidate_log": facts["own_log"]})


@mutant(14, Core, "_check_deadlines")
def the_leader_never_steps_down(self: Any, now: float) -> None:
    if self.role is not Role.LEADER:
        original_check_deadlines(self, now)


original_check_deadlines = Core._check_deadlines


@mutant(14, Core, "peer_lost")
def a_lost_connection_says_nothing(self: Any, node_id: str) -> None:
    pass


@mutant(14, Core, "_onTick")
def deadlines_come_before_the_sockets(self: Any, timeToWait: float = 0.0) -> None:
    self._last_tick = core_module.engine.monotonicTime()
    original_on_tick(self, timeToWait)


original_on_tick = Core._onTick


@mutant(14, Core, "_onTick")
def late_nodes_never_look_at_their_deadlines(self: Any, timeToWait: float = 0.0) -> None:
    self._no_deadlines_before = min(self._no_deadlines_before, self._last_tick) - 1.0
    original_on_tick(self, timeToWait)


# -- row 15: reads


@mutant(15, Core, "read_index")
def reads_are_not_confirmed(self: Any, done: Any) -> None:
    if self.role is Role.LEADER:
        done(self.commit_index)
    else:
        original_read_index(self, done)


original_read_index = Core.read_index


@mutant(15, Core, "_leads_surely")
def reads_before_an_entry_of_this_term(self: Any) -> bool:
    return True


@mutant(15, readindex.LeaderReads, "open_round")
def reads_count_earlier_answers(self: Any, commit_index: int) -> None:
    self._open.append((self.round, commit_index, self._waiting))
    self._waiting = []
    self.confirm()


# -- row 16: what waits learns its outcome


@mutant(16, readindex.LeaderReads, "fail")
def reads_hang_after_stepping_down(self: Any) -> None:
    pass


@mutant(16, Core, "_observe")
def role_changes_are_not_told(self: Any) -> None:
    pass


# -- row 17: disk errors


@mutant(17, Core, "flushed")
def the_flush_says_what_is_on_disk(self: Any, index: int) -> None:
    self._journal._flushed = min(index, self._journal.last_index)
    original_flushed(self, index)


original_flushed = Core.flushed


@mutant(17, HardState, "store")
def vote_errors_are_swallowed(self: Any, term: int, voted_for: str | None) -> None:
    with suppress(Exception):
        original_store(self, term, voted_for)
    self._term, self._voted_for = term, voted_for


original_store = HardState.store


# -- row 18: what is on disk is believed only when it proves itself


@mutant(18, frame, "_checksum", test="tests/raftlog/test_recovery.py")
def torn_frames_are_believed(data: Any, offset: int, _end: int, _seed: int) -> int:
    return int.from_bytes(data[offset + 4 : offset + 8], "little")


@mutant(18, recovery, "judge", test="tests/raftlog/test_recovery.py")
def an_acknowledged_tail_is_cut(_scan: Any, *, last: bool) -> None:
    pass


# -- row 19: repair from peers


@mutant(19, repair, "_abstain", test="tests/cluster/consensus/test_repair.py")
def who_lost_promises_goes_on_voting(_job: Any, _reason: str) -> None:
    pass


# -- row 20: a disk that is lost takes its promises with it


@mutant(20, Electorate, "counts")
def a_voter_counts_on_any_disk(self: Any, member_id: str, incarnation: str) -> bool:
    return member_id in self.voters


@mutant(20, Core, "_may_campaign")
def a_node_without_its_disk_campaigns(self: Any) -> bool:
    return self._id in self._electorate.voters


@mutant(20, Core, "_disowns")
def a_candidate_without_its_disk_gets_votes(self: Any, name: str) -> bool:
    return False


@mutant(20, core_module, "step_problem")
def another_disk_is_no_other_voter(before: Configuration, after: Configuration) -> str | None:
    return original_step_problem(_on_one_disk(before), _on_one_disk(after))


def _on_one_disk(configuration: Configuration) -> Configuration:
    members = tuple(replace(member, incarnation="") for member in configuration.members)
    return replace(configuration, members=members)


original_step_problem = core_module.step_problem


# -- row 21: membership


@mutant(21, core_module, "step_problem")
def two_voters_change_at_once(before: Configuration, after: Configuration) -> str | None:
    return None


@mutant(21, Configurations, "open")
@property
def changes_do_not_wait_for_one_another(self: Any) -> bool:
    return False


@mutant(21, Core, "change")
def a_new_leader_changes_members_at_once(self: Any, configuration: Configuration) -> Any:
    with patch.object(self, "_leads_surely", lambda: True):
        return original_change(self, configuration)


original_change = Core.change


@mutant(21, Configurations, "newest")
@property
def a_configuration_counts_when_committed(self: Any) -> Any:
    return self.committed


@mutant(21, Configurations, "truncate_from")
def a_configuration_outlives_its_entry(self: Any, index: int) -> None:
    pass


@mutant(21, Core, "_read_configurations")
def a_restart_forgets_what_is_not_committed(self: Any) -> None:
    pass


@mutant(21, Electorate, "__init__")
def learners_count(self: Any, configuration: Configuration, first_seen: Any) -> None:
    members = tuple(replace(member, voter=True) for member in configuration.members)
    original_electorate(self, replace(configuration, members=members), first_seen)


original_electorate = Electorate.__init__


@mutant(21, Core, "_itself")
def a_removed_leader_counts_itself(self: Any) -> set[str]:
    return {self._id}


@mutant(21, Core, "_drive_transfer")
def a_removed_leader_goes_on(self: Any, now: float) -> None:
    if self._transfer_to is not None:
        original_drive_transfer(self, now)


original_drive_transfer = Core._drive_transfer


@mutant(21, Core, "_may_campaign")
def whoever_is_removed_campaigns(self: Any) -> bool:
    return True


@mutant(21, Core, "_may_campaign")
def a_removal_silences_before_it_is_committed(self: Any) -> bool:
    return bool(self._itself())


@mutant(21, Core, "_removed_by")
def a_removed_member_is_not_told(self: Any, peer: Any) -> int:
    return 0


@mutant(21, Core, "snapshot_ready")
def snapshots_do_not_name_the_members(self: Any, peer: str, manifest: Any) -> None:
    original_snapshot_ready(self, peer, manifest)
    progress = self._peer(peer)
    if progress.offer is not None:
        progress.offer = replace(progress.offer, configuration=None, configuration_index=0)


original_snapshot_ready = Core.snapshot_ready


@mutant(21, MembershipFile, "store")
def the_members_are_not_written_down(self: Any, held: Any) -> None:
    self._held = held


@mutant(21, Core, "_settle_configurations")
def a_committed_configuration_is_not_told(self: Any, commit: int) -> None:
    self._configurations.commit(commit)


@mutant(21, Core, "_heeds")
def any_stranger_may_call_an_election(self: Any, name: str) -> bool:
    return True


@mutant(21, Core, "_heeds")
def a_stranger_never_gets_a_vote(self: Any, name: str) -> bool:
    return bool(self._knows(name))


@mutant(21, Core, "_knows")
def the_terms_of_strangers_count(self: Any, name: str) -> bool:
    return True


# -- row 22: the log says what its entries mean


MUTANTS.append(
    Mutant(
        "entries_of_a_newer_release_are_applied",
        22,
        codec,
        "FEATURE_LEVEL",
        1 << 30,
        test="tests/cluster/codec/test_commands.py",
    )
)


@mutant(22, Recorder, "__init__", test="tests/engine/decide/test_decision.py")
def new_rules_hold_for_old_entries(self: Any, state: Any, time_ms: int, _level: int) -> None:
    original_recorder(self, state, time_ms, FEATURE_LEVEL)


original_recorder = Recorder.__init__
