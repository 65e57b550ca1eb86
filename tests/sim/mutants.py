"""Bugs put in on purpose: one for every rule of CONSENSUS that the core keeps, at least.

Each is the stock behaviour, or the natural mistake. `python -m tests.sim.run --mutants` shows that
each is caught, by a scenario or by a random seed. Rows 19 to 22 are in `mutants_members.py`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from raftflow.cluster.consensus import core as core_module
from raftflow.cluster.consensus import journal_adapter, readindex
from raftflow.cluster.consensus.core import Core
from raftflow.cluster.consensus.progress import Mode
from raftflow.cluster.consensus.types import Role
from raftflow.raftlog import frame, recovery
from raftflow.raftlog.hardstate import HardState
from tests.sim import mutants_members  # noqa: F401 - they are in the list, too
from tests.sim.mutation import MUTANTS, Mutant, handler, mutant

__all__ = ["MUTANTS", "Mutant"]

P = "_SyncObj__"


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
