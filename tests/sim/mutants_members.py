"""Bugs put in on purpose in repair, membership and feature levels (rows 19 to 22 of CONSENSUS)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from raftflow.cluster.codec import commands as codec
from raftflow.cluster.consensus import core as core_module
from raftflow.cluster.consensus import proof, repair
from raftflow.cluster.consensus.configurations import Configurations
from raftflow.cluster.consensus.core import Core
from raftflow.cluster.consensus.electorate import Electorate
from raftflow.cluster.consensus.membership import Configuration
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.engine.commands import FEATURE_LEVEL
from raftflow.engine.evolve.recorder import Recorder
from raftflow.raftlog import abstaining
from tests.sim.mutation import MUTANTS, Mutant, mutant

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


@mutant(21, Core, "_unfit")
def one_who_has_learnt_nothing_may_vote(self: Any, newest: int, after: Configuration) -> None:
    return None


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
