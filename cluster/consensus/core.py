"""PySyncObj, made safe: the one subclass.

Each override names the row of the table in DESIGN.md that it keeps. PySyncObj is pinned, and the
sources of the methods that are replaced, or relied on, are compared with what was reviewed.

The class is called `_SyncObj` because Python strips leading underscores when it mangles names:
what is `self.__raftLog` in PySyncObj is `self.__raftLog` here, and a method `__setState` overrides
PySyncObj's own. The surroundings know the class as `Core`.

Nothing here blocks, waits or knows asyncio. Time and chance are PySyncObj's module globals
(`monotonicTime`, `random`), which the simulator replaces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, NoReturn, TypeVar, cast

import structlog
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj import syncobj as engine
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from raftflow.cluster.consensus.configurations import (
    CONFIGURATION,
    REGULAR,
    Configurations,
    Held,
)
from raftflow.cluster.consensus.electorate import Electorate
from raftflow.cluster.consensus.journal_adapter import JournalAdapter, installed
from raftflow.cluster.consensus.membership import (
    Configuration,
    MembershipError,
    decode,
    encode,
    step_problem,
)
from raftflow.cluster.consensus.prevote import Objection, PreVote, objection, would_vote
from raftflow.cluster.consensus.progress import LONG_AGO, Following, Mode, Progress
from raftflow.cluster.consensus.readindex import Done, ForwardedReads, LeaderReads
from raftflow.cluster.consensus.reviewed import check_engine
from raftflow.cluster.consensus.types import (
    Ballot,
    Callbacks,
    ChangeRefused,
    ConsensusBroken,
    ConsensusStatus,
    Counters,
    Election,
    NotLeader,
    PeerStatus,
    Proposed,
    Role,
    SnapshotManifest,
    Timing,
    Votes,
)
from raftflow.cluster.consensus.wire import Message
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry

__all__ = ["Core"]

BATCH_BYTES = 1 << 20
BATCHES_IN_FLIGHT = 2
DELIVER_BYTES = 1 << 20
DELIVER_SECONDS = 0.005
SNAPSHOT_REMINDER_SECONDS = 1.0
ELECTIONS_KEPT = 64
BALLOTS_KEPT = 32
STRANGERS_HEARD_AFTER = 2  # election timeouts without a leader

FOLLOWER, CANDIDATE, LEADER = 0, 1, 2
ROLES = (Role.FOLLOWER, Role.CANDIDATE, Role.LEADER)

log = structlog.get_logger()

Method = TypeVar("Method", bound=Callable[..., Any])


check_engine()


def _fail_stop(method: Method) -> Method:
    """Row 11: whatever goes wrong inside the core ends the process; nothing is retried."""

    @wraps(method)
    def guarded(self: _SyncObj, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except (NotLeader, ChangeRefused):
            raise
        except Exception as error:  # noqa: BLE001
            self.callbacks.fatal(error)

    return cast(Method, guarded)


class _SyncObj(SyncObj):  # type: ignore[misc]
    def __init__(
        self,
        *,
        node_id: str,
        incarnation: str,
        configuration: Configuration,
        configuration_index: int,
        journal: Journal,
        hard_state: HardState,
        transport: Transport,
        applied_index: int,
        applied_term: int,
        callbacks: Callbacks,
        timing: Timing,
        first_seen: Mapping[str, str] | None = None,
        abstaining: bool = False,
        awaiting_copy: bool = False,
    ) -> None:
        """`applied_index` and `applied_term` name the last entry that the store holds durably;
        `configuration` is the newest that is known to be committed, at its index: the log goes on
        from there. This node need not belong to it. `first_seen` tells the incarnation of peers
        for which it records none; it may grow. `abstaining`: what this node acknowledged was lost,
        so it helps nobody to lead; `awaiting_copy`: its log is whole, but begins after the state
        that it has (row 19).
        """
        if not configuration.voters:
            raise ValueError("a cluster has voters")
        self.callbacks = callbacks
        self._id = node_id
        self._incarnation = incarnation
        self._first_seen = {} if first_seen is None else first_seen
        self.abstaining = abstaining
        self.awaiting_copy = awaiting_copy
        self._journal = journal
        self._heartbeat = timing.heartbeat_ms / 1000
        self._election_min = timing.election_min_ms / 1000
        self._election_max = timing.election_max_ms / 1000
        self._know_nothing()
        if not awaiting_copy:
            _align(journal, applied_index, applied_term)
        self._configurations = Configurations(configuration_index, configuration)
        self._leaving_until = LONG_AGO
        self._read_configurations()
        adapter = JournalAdapter(journal, hard_state)
        with installed(adapter):
            super().__init__(
                Node(node_id),
                [],  # Row 21: who belongs to the cluster is ours to know, and changes.
                _settings(timing),
                nodeClass=Node,
                transport=transport,
            )
        # Row 9: what is applied is what the store says; row 8: nothing else counts as committed.
        self.__raftLastApplied = applied_index
        # What stood before a log that awaits a copy was compacted, so committed (row 19).
        settled = journal.prev_index if awaiting_copy else applied_index
        self.__raftCommitIndex = min(settled, journal.last_index)
        if journal.last_term > self.__raftCurrentTerm:
            # A copy of a newer term was installed, and then the process died (row 19). That term
            # has had its leader: should the vote given in it be lost, it is not given again.
            self.__setCurrentTerm(journal.last_term, node_id)
        self._adopt_configuration()
        if self._electorate.agreed(self._itself()):
            self.__raftElectionDeadline = 0.0  # There is nobody to wait for.
        transport._onUtilityMessageCallbacks.clear()
        self._seen: tuple[int, int, str | None] = (FOLLOWER, self.__raftCurrentTerm, None)
        born = self.__raftCurrentTerm == 0 and journal.last_index == 0
        self._reason = "first election" if born else f"{node_id} was started"

    def _know_nothing(self) -> None:
        """Of peers and of leaders, as at every start."""
        self._peers: dict[str, Progress] = {}
        self._pre_vote = PreVote()
        self._voted_for_us: set[str] = set()
        self._leader_contact = LONG_AGO
        self._last_tick = self._led_at = engine.monotonicTime()
        self._no_deadlines_before = LONG_AGO
        self._hurry = False
        self._reason = self._cause = ""  # of what happens next, and of the election under way
        self._elections: deque[Election] = deque(maxlen=ELECTIONS_KEPT)
        self._ballots: deque[Ballot] = deque(maxlen=BALLOTS_KEPT)
        self._counters = Counters()
        self._transfer_to: str | None = None
        self._transfer_until = 0.0
        self._transfer_asked = False
        self._following = Following()
        self._reads = LeaderReads(self._confirmed_round)
        self._forwarded_reads = ForwardedReads(int(engine.random.random() * (1 << 40)))

    # ---------------------------------------------------------------- what the surroundings call

    @_fail_stop
    def tick(self) -> None:
        self.doTick(0.0)

    @property
    def role(self) -> Role:
        return ROLES[self.__raftState]

    @property
    def term(self) -> int:
        return int(self.__raftCurrentTerm)

    @property
    def leader(self) -> str | None:
        leader = self.__raftLeader
        return None if leader is None else str(leader.id)

    @property
    def commit_index(self) -> int:
        return int(self.__raftCommitIndex)

    @property
    def heard_commit_index(self) -> int:
        """What the leader said, be our log that far or not."""
        return max(self.commit_index, self._following.commit)

    @property
    def is_level(self) -> bool:
        """Whether all that the leader said is committed is so here."""
        return self.leader is not None and self.commit_index >= self.heard_commit_index

    @property
    def configuration(self) -> Held:
        """The one in force: the newest in the log."""
        return self._configurations.newest

    @property
    def committed_configuration(self) -> Held:
        return self._configurations.committed

    @_fail_stop
    def propose(self, payload: bytes) -> Proposed:
        """Leadership is checked and the entry appended in one step; tick() sends it."""
        if self.__raftState != LEADER or self._transfer_to is not None:
            raise NotLeader(self.leader if self.__raftState != LEADER else None)
        return self._append_own(REGULAR + bytes(payload))

    @_fail_stop
    def change(self, configuration: Configuration) -> Proposed:
        """Row 21: the next configuration, in force at once. Raises ChangeRefused, NotLeader."""
        if self.__raftState != LEADER:
            raise NotLeader(self.leader)
        newest = self._configurations.newest
        if self._transfer_to is not None:
            raise ChangeRefused("leadership is being handed over")
        if self._configurations.open:
            raise ChangeRefused(f"the configuration of entry {newest.index} is not committed yet")
        if not self._leads_surely():
            # What an older leader began could be committed behind our back otherwise.
            raise ChangeRefused(f"no entry of term {self.term} is committed yet")
        problem = step_problem(newest.configuration, configuration)
        problem = problem or self._electorate.contradiction(configuration)
        problem = problem or self._unfit(newest.index, configuration)
        if problem is not None:
            raise ChangeRefused(problem)
        raw = encode(configuration)
        try:
            decode(raw)
        except MembershipError as error:
            raise ChangeRefused(str(error)) from None
        proposed = self._append_own(CONFIGURATION + raw)
        self._configurations.append([self._journal.entry(proposed.index)])
        self._reconfigure()
        return proposed

    def _unfit(self, newest: int, after: Configuration) -> str | None:
        """Row 21: a new voter holds the entry by which it is a member. One that has learnt nothing
        votes for nobody (`_disowns`), and the others may not be enough without it."""
        for voter in set(after.voters) - self._electorate.voters - {self._id}:
            if self._peer(voter).match_index < newest:
                return f"{voter} does not hold entry {newest} yet: it must learn before it votes"
        return None

    def _append_own(self, payload: bytes) -> Proposed:
        entry = LogEntry(self._journal.last_index + 1, self.__raftCurrentTerm, payload)
        self._journal.append([entry])
        self._counters.entries_proposed += 1
        self.callbacks.wants_flush()
        return Proposed(entry.index, entry.term)

    @_fail_stop
    def read_index(self, done: Done) -> None:
        """Row 15. `done` gets an index to read at, or None when nobody could confirm one."""
        if self.__raftState == LEADER:
            self._reads.add(done)
        elif self.__raftLeader is not None:
            self._forwarded_reads.add(done)
        else:
            done(None)

    @_fail_stop
    def flushed(self, index: int) -> None:
        """The journal is on disk up to `index`; what was truncated meanwhile does not count."""
        assert index >= 0
        if self.__raftState == LEADER:
            self._advance_commit()
            self.__applyLogEntries()
            self._observe()
        elif self._following.round:
            self._following.reply_due = True

    def covers(self, index: int) -> bool:
        """Whether what this leader verified of our log, on our own disk, reaches so far."""
        verified = min(self._following.verified, self._journal.flushed_index)
        return self.__raftLeader is not None and verified >= index

    @_fail_stop
    def snapshot_ready(self, peer: str, manifest: SnapshotManifest) -> None:
        progress = self._peer(peer)
        if (
            self.__raftState == LEADER
            and progress.mode == Mode.SNAPSHOT
            and manifest.index >= self._journal.prev_index
        ):
            # Newer than the snapshot, perhaps; but committed, and its entry may be compacted.
            held = self._configurations.committed
            progress.offer = replace(
                manifest, configuration=held.configuration, configuration_index=held.index
            )
            progress.sent_at = LONG_AGO

    @_fail_stop
    def snapshot_installed(self, index: int, term: int, held: Held | None = None) -> None:
        """The store now holds, durably, everything up to this entry (row 9); `held` is the
        configuration that came with it, on disk already (row 21)."""
        if index <= self.__raftLastApplied:
            return
        self.awaiting_copy = False
        if term > self.__raftCurrentTerm:
            # Row 19: not from our leader, but from whoever had one.
            self._new_term(term, "the copy is of a newer term")
        before = self._configurations.newest
        if _align(self._journal, index, term):
            self._configurations.forget()
        self._settle_configurations(index)
        if held is not None:
            self._configurations.install(held)
        if self._configurations.newest is not before:
            self._reconfigure()
        self.__raftLastApplied = index
        self.__raftCommitIndex = max(self.__raftCommitIndex, index)
        # A snapshot holds committed entries only, and every leader has those.
        self._following.verified = max(self._following.verified, index)
        self._following.offered = None
        self._following.conflict = None
        if self._following.round:
            self._following.reply_due = True

    @_fail_stop
    def compact(self, index: int) -> None:
        """Drop entries up to `index`, but none that is unapplied, unflushed, or waited for."""
        pinned = [
            peer.offer.index for peer in self._peers.values() if peer.offer and peer.connected
        ]
        limit = min(
            index,
            self.__raftLastApplied,
            self.__raftCommitIndex,
            self._journal.flushed_index,
            *pinned,
        )
        if limit > self._journal.prev_index:
            self._journal.compact_to(limit)
            self.callbacks.wants_flush()  # It removes the files.

    @_fail_stop
    def transfer_leadership(self, to: str | None) -> bool:
        """Stop taking proposals, let `to` (or the best follower) catch up, make it campaign."""
        if self.__raftState != LEADER or self._transfer_to is not None:
            return False
        heirs = [
            name for name, peer in self._peers.items() if peer.connected and self._counts(name)
        ]
        if to is None and heirs:
            to = max(heirs, key=lambda name: self._peers[name].match_index)
        if to is None or to not in heirs:
            return False
        self._transfer_to = to
        self._transfer_until = engine.monotonicTime() + self._election_max
        self._transfer_asked = False
        log.info("leadership_transfer_started", node=self._id, to=to)
        return True

    @_fail_stop
    def peer_lost(self, node_id: str) -> None:
        """Row 14: the connection was reset, so the process at the other end has probably died."""
        if node_id != self.leader or self.__raftState == LEADER:
            return
        self._leader_contact = LONG_AGO
        self._reason = f"the connection to {node_id} was lost"
        self._hurry = True
        self.__raftElectionDeadline = min(
            self.__raftElectionDeadline, engine.monotonicTime() + self._jitter()
        )

    def status(self) -> ConsensusStatus:
        now = engine.monotonicTime()
        leads = self.__raftState == LEADER
        peers = {
            name: PeerStatus(
                connected=peer.connected,
                match_index=peer.match_index if leads else 0,
                next_index=peer.next_index if leads else 0,
                last_contact_s=now - peer.last_contact if leads else None,
                mode=peer.mode.value if leads else "",
                voter=name in self._electorate.voters,
            )
            for name, peer in sorted(self._peers.items())
            if peer.member
        }
        heard = leads or self._leader_contact > LONG_AGO
        return ConsensusStatus(
            node_id=self._id,
            role=self.role,
            term=self.term,
            leader=self.leader,
            commit_index=self.commit_index,
            heard_commit_index=self.heard_commit_index,
            delivered_index=int(self.__raftLastApplied),
            first_index=self._journal.first_index,
            last_index=self._journal.last_index,
            flushed_index=self._journal.flushed_index,
            leader_contact_s=(0.0 if leads else now - self._leader_contact) if heard else None,
            peers=peers,
            elections=tuple(self._elections),
            counters=replace(self._counters),
            configuration=self._configurations.newest.configuration,
            configuration_index=self._configurations.newest.index,
            committed_configuration_index=self._configurations.committed.index,
        )

    def votes(self) -> Votes:
        """Of the election that is under way, for whoever asks why nobody leads."""
        asking, granted = 0, frozenset[str]()
        if self._pre_vote.active:
            asking, granted = self.term + 1, self._pre_vote.granted_by
        elif self.__raftState == CANDIDATE:
            asking, granted = self.term, frozenset(self._voted_for_us)
        voted_for = self.__votedForNodeId
        return Votes(
            voted_for=None if voted_for is None else str(voted_for),
            asked_term=asking,
            granted_by=granted,
            ballots=tuple(self._ballots),
        )

    # --------------------------------------------------------------------------------- the tick

    def _onTick(self, timeToWait: float = 0.0) -> None:
        """Rows 2, 9, 11, 14: stock counts unflushed entries, makes dumps, retries failed applies,
        and starts an election before it has looked at its sockets."""
        now = engine.monotonicTime()
        late = now - self._last_tick > 2 * self._heartbeat
        self._last_tick = now
        if self.__raftState == LEADER:
            self._led_at = now
        if late and now - self._no_deadlines_before > self._election_min:
            # The process was paused: what the sockets hold is read before any deadline counts.
            # Not again and again, or a node that is always late would never look at its deadlines.
            self._no_deadlines_before = now + self._heartbeat
        if now >= self._no_deadlines_before:
            self._check_deadlines(now)
        self.__applyLogEntries()
        if self.__raftState == LEADER:
            self._drive_transfer(now)
        if self.__raftState == LEADER:
            self.__sendAppendEntries()
        else:
            self._send_reply(now)
            self._send_reads(now)
        self._observe()

    def _check_deadlines(self, now: float) -> None:
        if self.__raftState == LEADER:
            heard = {
                name
                for name, peer in self._peers.items()
                if now - peer.last_contact <= self._election_max and self._counts(name)
            }
            if not self._electorate.agreed(heard | self._itself()):
                self._step_down("no contact with a majority")
        elif self.__raftElectionDeadline < now:
            if not self._may_campaign():
                self.__raftElectionDeadline = now + self.__generateRaftTimeout()
                self.__transferInProgress = False
                self.__raftLeader = None
            elif self.__transferInProgress:
                self._reason = f"transfer from {self.leader}"
                self._campaign(now)
            else:
                self._ask_first(now)

    def _ask_first(self, now: float) -> None:
        """Row 14: the election deadline passes through a pre-vote."""
        self.__raftElectionDeadline = now + self.__generateRaftTimeout()
        self._reason = self._reason or self._silence(now)
        self.__raftLeader = None
        self._counters.pre_votes += 1
        self._pre_vote.start(self.__raftCurrentTerm + 1, self._itself())
        self._broadcast(
            {
                "type": "pre_vote",
                "term": self.__raftCurrentTerm + 1,
                "last_log_index": self._journal.last_index,
                "last_log_term": self._journal.last_term,
            }
        )
        if self._pre_vote.won(self._electorate):
            self._campaign(now)

    def _silence(self, now: float) -> str:
        if self.leader is None:
            return "no word from a leader"
        return f"no word from {self.leader} for {(now - self._leader_contact) * 1000:.0f} ms"

    def _campaign(self, now: float) -> None:
        self._pre_vote.stop()
        self._counters.elections += 1
        # Two that lost the leader together may split the votes: once, try again soon.
        soon = self._election_min / 4 + self._jitter()
        self.__raftElectionDeadline = now + (soon if self._hurry else self.__generateRaftTimeout())
        self._hurry = False
        self.__transferInProgress = False
        self.__raftLeader = None
        self.__setState(CANDIDATE)
        self.__setCurrentTerm(self.__raftCurrentTerm + 1, self._id)
        self._voted_for_us = self._itself()
        self._broadcast(
            {
                "type": "request_vote",
                "term": self.__raftCurrentTerm,
                "last_log_index": self._journal.last_index,
                "last_log_term": self._journal.last_term,
            }
        )
        if self._electorate.agreed(self._voted_for_us):
            self.__onBecomeLeader()

    def _jitter(self) -> float:
        """Enough to keep two nodes from campaigning at once, a fraction of any timeout."""
        return float(engine.random.random()) * self._election_min / 4

    def _step_down(self, reason: str) -> None:
        self._reason = reason
        self.__raftLeader = None
        self.__setState(FOLLOWER)

    def _new_term(self, term: int, reason: str) -> None:
        """Someone is in a newer term: follow, without a leader yet."""
        self.__setCurrentTerm(term, None)
        self._step_down(reason)

    def _observe(self) -> None:
        """Tell the surroundings when role, term or leader changed."""
        seen = (self.__raftState, self.__raftCurrentTerm, self.leader)
        if seen == self._seen:
            return
        before, self._seen = self._seen, seen
        state, term, leader = seen
        if leader != before[2] or term != before[1]:
            self._forwarded_reads.fail()
        if (state == LEADER) != (before[0] == LEADER) or leader != before[2]:
            # Who wins tells why there was an election, not who lost it on the way.
            self._cause = self._cause or self._reason
            reason = (self._cause or "elected") if leader else (self._reason or "leader unknown")
            if leader:
                self._cause = ""
            election = Election(engine.monotonicTime(), term, leader, reason)
            self._elections.append(election)
            log.info(
                "leader_changed",
                node=self._id,
                role=ROLES[state].value,
                term=term,
                leader=leader,
                reason=reason,
            )
            self._reason = ""
        self.callbacks.on_role(ROLES[state], term, leader)

    # -------------------------------------------------------------------------- who belongs (21)

    def _peer(self, name: str) -> Progress:
        """Whoever speaks to us, a member or not: our log may not know yet, or no longer."""
        if name not in self._peers:
            self._peers[name] = Progress(Node(name))
        return self._peers[name]

    def _counts(self, name: str) -> bool:
        return self._electorate.counts(name, self._peer(name).incarnation)

    def _itself(self) -> set[str]:
        """This node, if it counts: it may be a learner, removed, or back without its disk."""
        return {self._id} if self._electorate.counts(self._id, self._incarnation) else set()

    def _disowns(self, name: str) -> bool:
        """Row 20: a candidate whose disk was another when we met it first. Where a committed entry
        records disks, whoever has a complete log knows whether it may campaign. And who waits to
        join, with nothing learnt yet, does not help an empty node to begin another cluster."""
        known, newest = (
            held.configuration.find(name)
            for held in (self._configurations.committed, self._configurations.newest)
        )
        incarnation = self._peer(name).incarnation
        if (
            self.configuration.index == 0
            and self.configuration.configuration.find(self._id) is None
        ):
            return True
        return (
            known is not None
            and not known.incarnation
            and (newest is None or newest.incarnation != incarnation)
            and self._first_seen.get(name, incarnation) != incarnation
        )

    def _knows(self, name: str) -> bool:
        """Row 21: whether the configuration in force, or the last committed one, names it."""
        held = (self._configurations.newest, self._configurations.committed)
        return any(each.configuration.find(name) is not None for each in held)

    def _heeds(self, name: str) -> bool:
        """Row 21: whose calls for an election count. A stranger may be a voter of whom our log does
        not know yet, and the others may need both of us; but a cluster that is led, or finds a
        leader without it, hears nothing of it."""
        leaderless = engine.monotonicTime() - self._led_at
        return self._knows(name) or leaderless > STRANGERS_HEARD_AFTER * self._election_max

    def _may_campaign(self) -> bool:
        """A voter, or one whose removal may yet be undone: others may need its longer log, which
        has the entry that removes it (Raft dissertation §4.2.2)."""
        if self.abstaining or self.awaiting_copy:
            return False  # Row 19.
        if self._itself():
            return True
        before = self._configurations.committed.configuration
        return self._configurations.open and Electorate(before, self._first_seen).counts(
            self._id, self._incarnation
        )

    def _read_configurations(self) -> None:
        """What the log says after the configuration that it goes on from."""
        journal = self._journal
        start = max(self._configurations.committed.index, journal.prev_index) + 1
        while start <= journal.last_index:
            entries = journal.entries(start, journal.last_index + 1, BATCH_BYTES)
            self._configurations.append(entries)
            start = entries[-1].index + 1

    def _reconfigure(self) -> None:
        """Row 21: an entry brought another configuration, or took one back."""
        self._adopt_configuration()
        newest = self._configurations.newest
        log.info(
            "configuration_adopted",
            node=self._id,
            index=newest.index,
            voters=sorted(self._electorate.voters),
            members=[member.id for member in newest.configuration.members],
        )
        self._reads.confirm()
        self.callbacks.on_configuration(
            newest.index, newest.configuration, not self._configurations.open
        )

    def _adopt_configuration(self) -> None:
        """The newest configuration is in force, committed or not."""
        newest = self._configurations.newest
        self._electorate = Electorate(newest.configuration, self._first_seen)
        now = engine.monotonicTime()
        leads = self.__raftState == LEADER
        members = {member.id for member in newest.configuration.members} - {self._id}
        for name in sorted(members):
            self._peer(name)
        for name, peer in self._peers.items():
            joins, peer.member = name in members and not peer.member, name in members
            peer.leaving = self._removed_by(peer) if leads else 0
            if joins and leads:
                peer.lead(next_index=self._journal.last_index + 1, now=now)
        self._leaving_until = float("inf")

    def _removed_by(self, peer: Progress) -> int:
        """The index of the entry that removes this peer, which is to be told."""
        before = self._configurations.committed.configuration
        if not peer.member and before.find(str(peer.node.id)) is not None:
            return self._configurations.newest.index
        return 0 if peer.member else peer.leaving

    def _is_being_told(self, peer: Progress, now: float) -> bool:
        """A removed member still gets the entry that removes it, and that it is committed."""
        told = min(peer.match_index, peer.sent_commit) >= peer.leaving
        if told or now > self._leaving_until:
            peer.leaving = 0
        return peer.leaving > 0

    def _settle_configurations(self, commit: int) -> None:
        """Row 21: the surroundings write it down before its entry may be compacted."""
        for held in self._configurations.commit(commit):
            self._leaving_until = engine.monotonicTime() + self._election_max
            log.info("configuration_committed", node=self._id, index=held.index)
            self.callbacks.on_configuration(held.index, held.configuration, True)

    def _confirmed_round(self, echoed: Mapping[str, int], own: int) -> int:
        """Row 15: the newest read round that a majority has answered."""
        rounds = {name: round_ for name, round_ in echoed.items() if self._counts(name)}
        return self._electorate.reached(rounds | dict.fromkeys(self._itself(), own))

    # ------------------------------------------------------------------------------ PySyncObj's

    def __setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:
        """Rows 1, 3, 13: what was learnt in an older term ends with it."""
        assert term >= self.__raftCurrentTerm
        if term != self.__raftCurrentTerm:
            self._following = Following()
            self._voted_for_us = set()
            self._leader_contact = LONG_AGO
        super().__setCurrentTerm(term, votedForNodeId)

    def __setState(self, newState: int) -> None:
        """Rows 14, 15, 16: leaving leadership ends its reads and starts a fresh deadline."""
        left = self.__raftState == LEADER and newState != LEADER
        super().__setState(newState)
        if left:
            self._transfer_to = None
            self._leader_contact = LONG_AGO
            self.__raftElectionDeadline = engine.monotonicTime() + self.__generateRaftTimeout()
            self._reads.fail()

    def __onBecomeLeader(self) -> None:
        """Rows 6, 8: progress starts from nothing, and the commit index from what is verified."""
        self._pre_vote.stop()
        self._transfer_to = None
        self._reads = LeaderReads(self._confirmed_round)
        self.__raftCommitIndex = min(self.__raftCommitIndex, self._journal.last_index)
        now = engine.monotonicTime()
        for peer in self._peers.values():
            peer.lead(next_index=self._journal.last_index + 1, now=now)
            peer.leaving = self._removed_by(peer)
        super().__onBecomeLeader()
        self.callbacks.wants_flush()

    def __onNodeConnected(self, node: Node) -> None:
        """Row 6: what was under way is lost. What was acknowledged is only a guess of where to go
        on: the process may have come back with an older disk, or none."""
        super().__onNodeConnected(node)
        peer = self._peer(node.id)
        peer.incarnation = getattr(node, "incarnation", "")
        peer.connected = True
        peer.reconnect()

    @_fail_stop
    def __onNodeDisconnected(self, node: Node) -> None:
        """Row 14: a lost leader is noticed at once."""
        super().__onNodeDisconnected(node)
        peer = self._peer(node.id)
        peer.connected = False
        peer.offer = None
        self.peer_lost(node.id)

    def _refused(self, *_arguments: object) -> NoReturn:
        """Rows 9, 11, 12, 21: what would unpickle, dump, queue or forward is never reached."""
        raise ConsensusBroken("a part of PySyncObj that is switched off was called")

    _applyCommand = _refused
    _checkCommandsToApply = _refused
    __doApplyCommand = _refused
    __parseChangeClusterRequest = _refused
    __doChangeCluster = _refused
    __tryLogCompaction = _refused
    __loadDumpFile = _refused
    __sendNextNodeIdx = _refused

    # --------------------------------------------------------------------------------- messages

    @_fail_stop
    def __onMessageReceived(self, node: Node, message: Message) -> None:
        """Rows 3, 4, 5, 6, 7, 13, 14, 15: every message is checked before PySyncObj sees it."""
        self._counters.messages_received += 1
        _HANDLERS[message["type"]](self, node, message)
        self._observe()

    def _on_vote_request(self, node: Node, message: Message) -> None:
        """Row 20: a candidate that came back without its disk does not know that it must not."""
        if (stranger := self._unheard(node.id)) is not None:
            self._note_ballot(node.id, message, stranger)
            return
        if message["term"] > self.__raftCurrentTerm and self.__raftState == LEADER:
            self._reason = f"{node.id} stands for a newer term"
        if self.abstaining:
            # Row 19: we may have acknowledged what the candidate lacks, and cannot know.
            if message["term"] > self.__raftCurrentTerm:
                self._new_term(message["term"], f"{node.id} stands for a newer term")
            self._note_ballot(node.id, message, Objection.ABSTAINS)
            return
        super().__onMessageReceived(node, message)
        self._note_ballot(node.id, message, self._refused_vote(node.id, message))

    def _refused_vote(self, name: str, message: Message) -> Objection | None:
        """Why PySyncObj has not just voted for it; None when it has."""
        if message["term"] < self.__raftCurrentTerm:
            return Objection.TERM_OVER
        if self.__votedForNodeId == name:
            return None
        behind = _log_of(message) < self._last_entry()
        return Objection.LOG_BEHIND if behind else Objection.VOTED

    def _unheard(self, name: str) -> Objection | None:
        if self._disowns(name):
            return Objection.OTHER_DISK
        return None if self._heeds(name) else Objection.STRANGER

    def _last_entry(self) -> tuple[int, int]:
        return (self._journal.last_term, self._journal.last_index)

    def _note_ballot(
        self, candidate: str, message: Message, against: Objection | None, *, pre: bool = False
    ) -> None:
        self._ballots.append(
            Ballot(
                at_s=engine.monotonicTime(),
                term=message["term"],
                candidate=candidate,
                pre=pre,
                objection=against,
                candidate_log=_log_of(message),
                own_log=self._last_entry(),
            )
        )

    def _on_vote(self, node: Node, message: Message) -> None:
        """Rows 13, 20, 21: a voter counts once a term, on the disk that we know it by."""
        if (
            message["term"] == self.__raftCurrentTerm
            and self.__raftState == CANDIDATE
            and self._counts(node.id)
        ):
            self._voted_for_us.add(node.id)
            if self._electorate.agreed(self._voted_for_us):
                self.__onBecomeLeader()

    def _on_timeout_now(self, node: Node, message: Message) -> None:
        if (
            message["term"] == self.__raftCurrentTerm
            and self.__raftState == FOLLOWER
            and self._may_campaign()
        ):
            super().__onMessageReceived(node, message)

    def _on_pre_vote(self, node: Node, message: Message) -> None:
        now = engine.monotonicTime()
        facts = {
            "asked_term": message["term"],
            "own_term": self.__raftCurrentTerm,
            "candidate_log": _log_of(message),
            "own_log": self._last_entry(),
            "hears_leader": self.__raftState == LEADER
            or now - self._leader_contact < self._election_min,
        }
        against = Objection.ABSTAINS if self.abstaining else self._unheard(node.id)
        if against is None and not would_vote(**facts):
            against = objection(**facts)
        granted = against is None
        self._note_ballot(node.id, message, against, pre=True)
        reply = {
            "type": "pre_vote_reply",
            "term": self.__raftCurrentTerm,
            "asked_term": message["term"],
            "granted": granted,
        }
        self._send(self._peer(node.id), reply)

    def _on_pre_vote_reply(self, node: Node, message: Message) -> None:
        now = engine.monotonicTime()
        if not self._knows(node.id):
            return
        if message["term"] > self.__raftCurrentTerm:
            again = self._pre_vote.active
            self._new_term(message["term"], f"{node.id} is in a newer term")
            if again:
                self._pre_vote.stop()
                self.__raftElectionDeadline = now + self._jitter()
        elif message["granted"] and self._counts(node.id):
            self._pre_vote.granted(node.id, asked_term=message["asked_term"])
            if self._pre_vote.won(self._electorate) and self.__raftState != LEADER:
                self._campaign(now)

    def _on_read_request(self, node: Node, message: Message) -> None:
        peer, request_id = self._peer(node.id), message["id"]

        def reply(index: int | None) -> None:
            answer = {"type": "read_reply", "term": self.term, "id": request_id}
            self._send(peer, answer | {"index": index or 0})

        if self.__raftState == LEADER:
            self._reads.add(reply)
        else:
            reply(None)

    def _on_read_reply(self, _node: Node, message: Message) -> None:
        self._forwarded_reads.answered(message["id"], message["index"] or None)

    # --------------------------------------------------------------------------------- follower

    def _on_append(self, node: Node, message: Message) -> None:
        term = message["term"]
        if term < self.__raftCurrentTerm:
            self._reply(self._peer(node.id))  # Row 13: a stale leader learns the newer term.
            return
        if term == self.__raftCurrentTerm and self.__raftState == LEADER:
            raise ConsensusBroken(f"{node.id} also leads in term {term}")
        self._follow(node, term)
        self._following.round = max(self._following.round, message["round"])
        if "serialized" in message:
            self._consider_offer(node, message["serialized"])
        else:
            self._append(node, message)

    def _follow(self, node: Node, term: int) -> None:
        now = engine.monotonicTime()
        if term > self.__raftCurrentTerm:
            self.__transferInProgress = False
            self.__setCurrentTerm(term, None)
        if not self.__transferInProgress:
            self.__raftElectionDeadline = now + self.__generateRaftTimeout()
        self._pre_vote.stop()
        self._hurry = False
        if self.leader == node.id:
            self._reason = ""  # whatever it was, it passed
        self.__raftLeader = node
        self.__setState(FOLLOWER)
        self._leader_contact = self._led_at = now

    def _append(self, node: Node, message: Message) -> None:
        prev, prev_term = message["prevLogIdx"], message["prevLogTerm"]
        entries: list[LogEntry] = message["entries"]
        self._following.commit = max(self._following.commit, message["commit_index"])
        # What is committed here is in every leader's log (Raft §5.4.3): no need to compare it.
        settled = min(self.__raftCommitIndex, self._journal.last_index)
        if prev < settled:
            entries = entries[settled - prev :]
            end = max(settled, prev + len(message["entries"]))
        else:
            end = prev + len(entries)
            if self._journal.term(prev) != prev_term:
                self._reject(node, prev, prev_term)
                return
        self._store(entries)
        self._following.conflict = None
        self._following.verified = max(self._following.verified, end)
        # Row 5: nothing is committed here that this leader has not verified.
        if message["commit_index"] > self.__raftCommitIndex:
            self.__raftCommitIndex = max(
                self.__raftCommitIndex, min(message["commit_index"], self._following.verified)
            )
        if message["round"] and self._worth_a_reply(entries):
            self._following.reply_due = True

    def _worth_a_reply(self, entries: list[LogEntry]) -> bool:
        """Row 2: an append is answered at once, except when the answer after its flush is near and
        the leader has heard from us a moment ago."""
        return (
            not entries
            or self._following.verified <= self._journal.flushed_index
            or self._following.round > self._following.replied_round
            or engine.monotonicTime() - self._following.replied_at > self._heartbeat / 2
        )

    def _store(self, entries: list[LogEntry]) -> None:
        """Rows 4, 21: only what conflicts is cut off, and never what is committed; configurations
        come and go with their entries."""
        journal = self._journal
        last = journal.last_index
        configuration = self._configurations.newest
        for position, entry in enumerate(entries):
            if entry.index > last:
                fresh = entries[position:]
                break
            if journal.term(entry.index) != entry.term:
                if entry.index <= self.__raftCommitIndex:
                    raise ConsensusBroken(f"the leader overwrites committed entry {entry.index}")
                log.warning("log_truncated", node=self._id, first=entry.index, last=last)
                journal.truncate_from(entry.index)
                self._configurations.truncate_from(entry.index)
                fresh = entries[position:]
                break
        else:
            return
        journal.append(fresh)
        self._configurations.append(fresh)
        if self._configurations.newest is not configuration:
            self._reconfigure()
        self._counters.entries_received += len(fresh)
        self._counters.payload_bytes_received += sum(len(entry.payload) for entry in fresh)
        self.callbacks.wants_flush()

    def _reject(self, node: Node, prev: int, prev_term: int) -> None:
        """Row 7: name the highest place where the logs may meet."""
        journal = self._journal
        hint = journal.last_index
        if prev <= hint:
            floor = max(self.__raftCommitIndex, journal.prev_index)
            hint = prev - 1
            while hint > floor and (journal.term(hint) or 0) > prev_term:
                hint -= 1
            self._following.conflict = min(prev, self._following.conflict or prev)
        if self._following.conflict is not None:
            hint = min(hint, self._following.conflict - 1)
        self._reply(
            self._peer(node.id),
            next_index=hint + 1,
            rejected=prev,
            hint_term=journal.term(hint) or 0,
        )

    def _consider_offer(self, node: Node, manifest: SnapshotManifest) -> None:
        now = engine.monotonicTime()
        self._following.reply_due = True
        self._following.commit = max(self._following.commit, manifest.index)
        if manifest.index <= self.__raftCommitIndex:
            # Row 10: we are further already; say so instead of rolling back.
            settled = min(self.__raftCommitIndex, self._journal.last_index)
            self._following.verified = max(self._following.verified, settled)
        elif (
            manifest.snapshot_id != self._following.offered
            or now - self._following.offered_at >= SNAPSHOT_REMINDER_SECONDS
        ):
            self._following.offered, self._following.offered_at = manifest.snapshot_id, now
            self.callbacks.on_snapshot_offer(node.id, manifest)

    def _send_reply(self, now: float) -> None:
        """Rows 2, 3: acknowledge what is verified and on our own disk, in this term."""
        if not self._following.reply_due or self.__raftLeader is None:
            return
        durable = min(self._following.verified, self._journal.flushed_index)
        self._reply(
            self._peer(self.__raftLeader.id),
            success=durable >= 0,
            next_index=max(durable, 0) + 1,
            received=max(self._following.verified, 0),
        )
        self._following.replied_at = now
        self._following.reply_due = False

    def _reply(
        self,
        peer: Progress,
        *,
        success: bool = False,
        next_index: int = 1,
        received: int = 0,
        rejected: int = 0,
        hint_term: int = 0,
    ) -> None:
        self._following.replied_round = self._following.round
        reply = {
            "type": "next_node_idx",
            "term": self.__raftCurrentTerm,
            "success": success,
            "next_node_idx": next_index,
            "received": received,
            "rejected": rejected,
            "hint_term": hint_term,
            "round": self._following.round,
        }
        self._send(peer, reply)

    def _send_reads(self, now: float) -> None:
        reads = self._forwarded_reads
        reads.expire(now)
        if not reads.waiting:
            return
        leader = self.__raftLeader
        if leader is None:
            reads.fail()
            return
        request_id = reads.send(deadline_s=now + self._election_max)
        request = {"type": "read_request", "term": self.__raftCurrentTerm, "id": request_id}
        if not self._send(self._peer(leader.id), request):
            reads.answered(request_id, None)

    # ----------------------------------------------------------------------------------- leader

    def _on_append_reply(self, node: Node, message: Message) -> None:
        """Row 3: an answer counts in the term it was given in, and in no other."""
        if not self._knows(node.id):
            return  # Row 21: it has left meanwhile.
        if message["term"] > self.__raftCurrentTerm:
            self._new_term(message["term"], f"{node.id} is in a newer term")
            return
        if message["term"] < self.__raftCurrentTerm or self.__raftState != LEADER:
            return
        peer = self._peer(node.id)
        peer.last_contact = engine.monotonicTime()
        self._reads.echo(node.id, message["round"])
        if message["success"]:
            self._on_success(peer, message["next_node_idx"] - 1, message["received"])
        elif message["rejected"]:
            self._on_reject(peer, message)

    def _on_success(self, peer: Progress, durable: int, received: int) -> None:
        """Row 6: an ack moves progress forwards only."""
        if received > self._journal.last_index:
            raise ConsensusBroken(f"{peer.node.id} acknowledges what was never sent")
        if peer.mode == Mode.SNAPSHOT:
            if max(durable, received) < self._journal.prev_index:
                return
            peer.probe(received + 1)
        if peer.mode == Mode.PROBING:
            peer.mode = Mode.STREAMING
            peer.next_index = max(peer.match_index + 1, received + 1)
        elif received >= peer.next_index:
            peer.next_index = received + 1
        while peer.inflight and peer.inflight[0] <= durable:
            peer.inflight.popleft()
        if durable > peer.match_index:
            peer.match_index = durable
            if durable > self.__raftCommitIndex:
                self._advance_commit()
                self.__applyLogEntries()

    def _on_reject(self, peer: Progress, message: Message) -> None:
        rejected = message["rejected"]
        if peer.mode == Mode.SNAPSHOT or rejected <= peer.match_index:
            return
        if peer.mode == Mode.PROBING and rejected != peer.next_index - 1:
            return  # An answer to an earlier probe.
        hint = min(message["next_node_idx"], rejected) - 1
        floor = max(peer.match_index, self._journal.prev_index)
        while hint > floor and (self._journal.term(hint) or 0) > message["hint_term"]:
            hint -= 1
        peer.probe(max(hint, peer.match_index) + 1)

    def _advance_commit(self) -> None:
        """Rows 2, 8, 20, 21: what a majority of the newest configuration has on disk, ourselves
        included if we vote, in this term (§5.4.2)."""
        durable = {
            name: peer.match_index for name, peer in self._peers.items() if self._counts(name)
        }
        durable |= dict.fromkeys(self._itself(), self._journal.flushed_index)
        index = self._electorate.reached(durable)
        if index > self.__raftCommitIndex and self._journal.term(index) == self.__raftCurrentTerm:
            self.__raftCommitIndex = index

    def __applyLogEntries(self) -> bool:
        """Row 11: committed entries are handed over, in slices, and cannot fail."""
        commit = self.__raftCommitIndex
        self._settle_configurations(commit)
        if commit <= self.__raftLastApplied or self.awaiting_copy:
            return False
        until = engine.monotonicTime() + DELIVER_SECONDS
        while self.__raftLastApplied < commit:
            entries = self._journal.entries(self.__raftLastApplied + 1, commit + 1, DELIVER_BYTES)
            self.__raftLastApplied = entries[-1].index
            self.callbacks.on_commit(
                [
                    LogEntry(
                        entry.index,
                        entry.term,
                        entry.payload[1:] if entry.payload[:1] == REGULAR else b"",
                    )
                    for entry in entries
                ]
            )
            if engine.monotonicTime() > until:
                break
        return True

    def __sendAppendEntries(self) -> None:
        """Rows 6, 9, 12: bounded batches, two in flight, whole entries, snapshots by manifest."""
        if self._reads.waiting and self._leads_surely():
            self._reads.open_round(self.__raftCommitIndex)
        now = engine.monotonicTime()
        for peer in self._peers.values():
            if peer.connected and (peer.member or self._is_being_told(peer, now)):
                self._send_to(peer, now)

    def _leads_surely(self) -> bool:
        """An entry of this term is committed, so the commit index is not behind (§6.4)."""
        return self._journal.term(self.__raftCommitIndex) == self.term

    def _send_to(self, peer: Progress, now: float) -> None:
        journal = self._journal
        if peer.mode != Mode.SNAPSHOT and peer.next_index <= journal.prev_index:
            peer.probe(journal.prev_index + 1)
            peer.mode = Mode.SNAPSHOT
        if peer.mode == Mode.SNAPSHOT:
            self._send_offer(peer, now)
        elif peer.mode == Mode.PROBING and not peer.probe_sent:
            peer.probe_sent = self._send_append(peer, now, self._batch(peer))
        elif peer.mode == Mode.STREAMING and self._stream(peer, now):
            pass
        elif now - peer.sent_at >= self._heartbeat or peer.sent_round < self._reads.round:
            self._send_append(peer, now, [])
        elif peer.mode == Mode.STREAMING and peer.sent_commit < self.__raftCommitIndex:
            self._send_append(peer, now, [], answer=False)

    def _stream(self, peer: Progress, now: float) -> bool:
        """Row 6: at most two batches that are not yet on the follower's disk."""
        sent = False
        while len(peer.inflight) < BATCHES_IN_FLIGHT and (batch := self._batch(peer)):
            if not self._send_append(peer, now, batch):
                return True  # The transport is full; so is every other message.
            peer.inflight.append(batch[-1].index)
            peer.next_index = batch[-1].index + 1
            sent = True
        return sent

    def _batch(self, peer: Progress) -> list[LogEntry]:
        last = self._journal.last_index
        if peer.next_index > last:
            return []
        return self._journal.entries(peer.next_index, last + 1, BATCH_BYTES)

    def _send_append(
        self, peer: Progress, now: float, entries: list[LogEntry], *, answer: bool = True
    ) -> bool:
        prev = peer.next_index - 1
        message = {
            "type": "append_entries",
            "term": self.__raftCurrentTerm,
            "prevLogIdx": prev,
            "prevLogTerm": self._journal.term(prev),
            "commit_index": self.__raftCommitIndex,
            "round": self._reads.round if answer else 0,
            "entries": entries,
        }
        if not self._send(peer, message):
            return False
        peer.sent_commit = self.__raftCommitIndex
        if answer:
            peer.sent_at, peer.sent_round = now, self._reads.round
        for entry in entries:
            self._counters.payload_bytes_sent += len(entry.payload)
        return True

    def _send_offer(self, peer: Progress, now: float) -> None:
        """Row 9: the manifest goes with the heartbeat; until there is one, a plain heartbeat."""
        journal = self._journal
        if peer.offer is not None and peer.offer.index < journal.prev_index:
            peer.offer = None
        if peer.offer is None and now - peer.asked_at >= SNAPSHOT_REMINDER_SECONDS:
            peer.asked_at = now
            self.callbacks.on_snapshot_needed(str(peer.node.id))
        if now - peer.sent_at < self._heartbeat and peer.sent_round == self._reads.round:
            return
        if peer.offer is None:
            peer.next_index = journal.prev_index + 1
            self._send_append(peer, now, [])
            return
        offer = {
            "type": "append_entries",
            "term": self.__raftCurrentTerm,
            "serialized": peer.offer,
            "round": self._reads.round,
        }
        if self._send(peer, offer):
            peer.sent_at, peer.sent_round = now, self._reads.round

    def _drive_transfer(self, now: float) -> None:
        # Row 21: a leader that its own change removed makes the best voter campaign, and goes.
        removed = not self._configurations.open and not self._itself()
        if removed and self._transfer_to is None:
            self.transfer_leadership(None)
        if removed and (self._transfer_to is None or self._transfer_asked):
            self._step_down("no voter any more")
        if self._transfer_to is None:
            return
        peer = self._peer(self._transfer_to)
        if now >= self._transfer_until or not peer.connected:
            log.info("leadership_transfer_abandoned", node=self._id, to=self._transfer_to)
            self._transfer_to = None
            if removed:
                self._step_down("no voter any more")
        elif peer.match_index == self._journal.last_index and not self._transfer_asked:
            message = {"type": "timeout_now", "term": self.__raftCurrentTerm}
            self._transfer_asked = self._send(peer, message)

    # ---------------------------------------------------------------------------------- sending

    def _send(self, peer: Progress, message: Message) -> bool:
        sent = bool(self.__transport.send(peer.node, message))
        self._counters.messages_sent += sent
        return sent

    def _broadcast(self, message: Message) -> None:
        """To whoever may vote."""
        for name in sorted(self._electorate.voters - {self._id}):
            self._send(self._peer(name), message)


_HANDLERS: dict[str, Callable[[_SyncObj, Node, Message], None]] = {
    "append_entries": _SyncObj._on_append,
    "next_node_idx": _SyncObj._on_append_reply,
    "request_vote": _SyncObj._on_vote_request,
    "response_vote": _SyncObj._on_vote,
    "pre_vote": _SyncObj._on_pre_vote,
    "pre_vote_reply": _SyncObj._on_pre_vote_reply,
    "timeout_now": _SyncObj._on_timeout_now,
    "read_request": _SyncObj._on_read_request,
    "read_reply": _SyncObj._on_read_reply,
}


def _log_of(message: Message) -> tuple[int, int]:
    """The end of a candidate's log: its term and index."""
    return (message["last_log_term"], message["last_log_index"])


def _settings(timing: Timing) -> SyncObjConf:
    return SyncObjConf(
        autoTick=False,
        appendEntriesUseBatch=False,
        appendEntriesPeriod=timing.heartbeat_ms / 1000,
        raftMinTimeout=timing.election_min_ms / 1000,
        raftMaxTimeout=timing.election_max_ms / 1000,
        leaderFallbackTimeout=timing.election_max_ms / 1000,
        connectionTimeout=timing.election_max_ms / 500,
        commandsWaitLeader=False,
        dynamicMembershipChange=False,
        useFork=False,
        journalFile=None,
        fullDumpFile=None,
        pollerType="select",  # costs no descriptor; nothing subscribes to it
    )


_FETCH_ALL = (
    "Put back what was there last. If it is gone, run `raftflow node rebuild` on the data "
    "directory and, while all other nodes run, start the node again: it fetches what they have. A "
    "backup is no way back: it does not know the votes given since"
)


def _align(journal: Journal, index: int, term: int) -> bool:
    """Rows 9, 10: make the log meet the store, which holds everything up to this entry.

    A log that holds the entry keeps its suffix. One that ends before it, or has another entry there
    (the process died between installing a snapshot and this), begins anew after it: True.
    """
    if index < journal.prev_index:
        raise ConsensusBroken(
            f"{journal.directory} begins after entry {journal.prev_index}, but state.db ends at "
            f"{index}: it was lost or replaced. {_FETCH_ALL}"
        )
    if index == journal.prev_index and term != journal.prev_term:
        raise ConsensusBroken(
            f"state.db has entry {index} of term {term}, but {journal.directory} has it of term "
            f"{journal.prev_term}: they do not belong together. {_FETCH_ALL}"
        )
    anew = index > journal.last_index or journal.term(index) != term
    if anew:
        journal.reset(index, term)
    return anew


Core = _SyncObj
