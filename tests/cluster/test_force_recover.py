from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from survivor import DISK, LEVEL, born

from raftflow.cluster import damage, force_recover
from raftflow.cluster.config import ID_PATTERN
from raftflow.cluster.consensus import outcast
from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.identity import (
    DirectoryLock,
    Identity,
    IdentityError,
    claim_directory,
)
from raftflow.cluster.consensus.membership import Configuration, Member, decode
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.damage import Part
from raftflow.cluster.force_recover import Refused, another_id, recover, survey
from raftflow.raftlog import abstaining
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry


def decree(directory: Path) -> LogEntry:
    with closing(Journal.open(str(directory / "raft"), disk=DISK)) as journal:
        return journal.entry(journal.last_index)


def test_the_survivor_is_told_what_it_is(tmp_path: Path) -> None:
    configuration = born(tmp_path)
    survivor = survey(tmp_path)
    assert survivor.configuration == configuration, "the newest in its log"
    assert survivor.others == ["n2", "n3"]
    assert (survivor.last_index, survivor.last_term, survivor.term) == (9, 2, 3)
    assert survivor.applied.index == 6
    assert not survivor.lost_end
    assert survey(tmp_path) == survivor, "to look changes nothing"


def test_it_becomes_the_only_voter_by_an_entry_after_all_it_has(tmp_path: Path) -> None:
    born(tmp_path)
    abstaining.mark(DISK, str(tmp_path / "raft"), "the end was lost")
    survivor = survey(tmp_path)
    assert survivor.lost_end
    old = survivor.identity
    kept = recover(survivor, "shop-r1")
    claim = claim_directory(str(tmp_path), cluster_id="shop-r1", node_id="n1")
    claim.lock.release()
    assert claim.identity.incarnation != old.incarnation
    entry = decree(tmp_path)
    assert (entry.index, entry.term) == (10, 4), "in a term that no other can have led"
    only = Configuration((Member("n1", "a:1", True, claim.identity.incarnation),), LEVEL)
    assert decode(entry.payload[1:]) == only
    assert MembershipFile.open(str(tmp_path / "raft"), DISK).held == Held(10, only)
    state = HardState.open(str(tmp_path / "raft"), DISK)
    assert (state.term, state.voted_for) == (4, "n1")
    assert not abstaining.marked(DISK, str(tmp_path / "raft"))
    assert not (tmp_path / "peers.json").exists()
    names = {"node.json", "peers.json", "membership", "hardstate", "abstaining"}
    assert {path.name for path in kept.iterdir()} == names


def test_a_state_that_is_ahead_of_the_log_counts(tmp_path: Path) -> None:
    born(tmp_path, entries=5, applied=8)
    survivor = survey(tmp_path)
    assert (survivor.last_index, survivor.last_term) == (8, 2)
    recover(survivor, "shop-r1")
    assert decree(tmp_path).index == 9


def test_interrupted_it_counts_in_nothing_and_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    born(tmp_path)

    def dies(_directory: str, _identity: object) -> None:
        raise KeyboardInterrupt

    survivor = survey(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(force_recover, "write_identity", dies)
        with pytest.raises(KeyboardInterrupt):
            recover(survivor, "shop-r1")
    claim = claim_directory(str(tmp_path), cluster_id="shop", node_id="n1")
    claim.lock.release()
    held = MembershipFile.open(str(tmp_path / "raft"), DISK).held
    assert held is not None
    assert "its disk is another" in outcast.no_vote(
        held.configuration, "n1", claim.identity.incarnation
    )
    recover(survey(tmp_path), "shop-r1")
    claim = claim_directory(str(tmp_path), cluster_id="shop-r1", node_id="n1")
    claim.lock.release()
    held = MembershipFile.open(str(tmp_path / "raft"), DISK).held
    assert held is not None
    assert outcast.no_vote(held.configuration, "n1", claim.identity.incarnation) == ""


def test_what_cannot_go_on_alone_is_refused(tmp_path: Path) -> None:
    removed, damaged, lacking = (tmp_path / name for name in ("removed", "damaged", "lacking"))
    born(removed)
    (removed / "raft" / "removed").write_text("by entry 9")
    born(damaged)
    damage.note(damaged, Part.STATE, "page 7 has rotted")
    born(lacking, prev=6, applied=5)
    for directory, said in (
        (removed, "n1 was removed from its cluster"),
        (damaged, "page 7 has rotted"),
        (lacking, "lacks state or log: entries before 7"),
    ):
        with pytest.raises(Refused, match=said):
            survey(directory)
    (lacking / "state.db").unlink()
    with pytest.raises(Refused, match=r"state.db is missing"):
        survey(lacking)


def test_not_where_a_node_runs_and_not_after_it_ran(tmp_path: Path) -> None:
    born(tmp_path)
    survivor = survey(tmp_path)
    lock = DirectoryLock(str(tmp_path))
    with pytest.raises(IdentityError, match="in use by process"):
        survey(tmp_path)
    lock.release()
    claim_directory(str(tmp_path), cluster_id="shop", node_id="n1").lock.release()
    with pytest.raises(Refused, match="has changed meanwhile"):
        recover(survivor, "shop-r1")
    with pytest.raises(IdentityError, match="no directory"):
        survey(tmp_path / "nothing")


def test_each_recovery_has_an_id_of_its_own() -> None:
    def named(cluster_id: str, disk: str = "a") -> str:
        return another_id(Identity(format=1, cluster_id=cluster_id, node_id="n1", incarnation=disk))

    a, b = "ca9781", "3e23e8"
    assert named("shop") == f"shop-r1.{a}"
    assert named(f"shop-r1.{b}") == named("shop-r1") == f"shop-r2.{a}"
    assert named("shop-r9") == f"shop-r10.{a}"
    assert named("shop-rx") == f"shop-rx-r1.{a}"
    assert named("shop", "b") == f"shop-r1.{b}", "two survivors never meet under one name"
    assert ID_PATTERN.fullmatch(named("s" * 64)), "what a node would not start with"
