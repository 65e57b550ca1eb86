from __future__ import annotations

from pathlib import Path

import pytest

from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.identity import (
    DirectoryLock,
    Identity,
    IdentityError,
    claim_directory,
)
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.rebuild import Needed, plan_rebuild, rebuild_directory
from raftflow.raftlog.disk import OsDisk


def born(directory: Path, *members: str, recorded: bool = True, index: int = 7) -> Identity:
    """A directory of n1 as a node leaves it."""
    claim = claim_directory(str(directory), cluster_id="shop", node_id="n1")
    claim.lock.release()
    own = claim.identity
    (directory / "state.db").write_bytes(b"state")
    (directory / "raft").mkdir()
    (directory / "raft" / "00001.log").write_bytes(b"entries")
    if members:
        disks = {"n1": own.incarnation} if recorded else {}
        held = Held(
            index,
            Configuration(
                tuple(Member(each, f"{each}:1", True, disks.get(each, "")) for each in members)
            ),
        )
        MembershipFile.open(str(directory / "raft"), OsDisk()).store(held)
    return own


@pytest.mark.parametrize("recorded", [True, False])
def test_the_old_data_is_set_aside_and_the_node_is_a_new_one(
    tmp_path: Path, recorded: bool
) -> None:
    old = born(tmp_path, "n1", "n2", "n3", recorded=recorded)
    plan = plan_rebuild(tmp_path)
    assert plan.others == ("n2", "n3")
    aside = rebuild_directory(plan)
    assert (aside / "state.db").read_bytes() == b"state"
    assert (aside / "raft" / "00001.log").read_bytes() == b"entries"
    claim = claim_directory(str(tmp_path), cluster_id="", node_id="n1", only_at_birth=True)
    claim.lock.release()
    assert (claim.identity.cluster_id, claim.identity.boots) == ("shop", 1)
    assert claim.identity.incarnation != old.incarnation
    held = MembershipFile.open(str(tmp_path / "raft"), OsDisk()).held
    assert held is not None
    own = held.configuration.find("n1")
    assert own is not None
    assert own.incarnation == old.incarnation, "it knows that its promises are gone"


def test_it_can_be_done_again(tmp_path: Path) -> None:
    born(tmp_path, "n1", "n2")
    first = rebuild_directory(plan_rebuild(tmp_path))
    second = rebuild_directory(plan_rebuild(tmp_path))
    assert first != second
    assert (first / "state.db").exists()


def test_the_last_member_is_known_to_be_the_last(tmp_path: Path) -> None:
    born(tmp_path, "n1")
    plan = plan_rebuild(tmp_path)
    assert plan.others == ()
    rebuild_directory(plan)
    assert not (tmp_path / "raft").exists()


def test_a_directory_of_which_little_can_be_read(tmp_path: Path) -> None:
    born(tmp_path)
    (tmp_path / "node.json").write_text("{")
    (tmp_path / "raft" / "membership").write_bytes(b"?")
    plan = plan_rebuild(tmp_path)
    assert (plan.identity, plan.held, plan.others) == (None, None, None)
    aside = rebuild_directory(plan)
    assert {each.name for each in tmp_path.iterdir()} == {"lock", aside.name}


def test_not_beside_a_running_node(tmp_path: Path) -> None:
    born(tmp_path, "n1", "n2")
    plan = plan_rebuild(tmp_path)
    lock = DirectoryLock(str(tmp_path))
    try:
        for step in (lambda: plan_rebuild(tmp_path), lambda: rebuild_directory(plan)):
            with pytest.raises(IdentityError, match="in use by process"):
                step()
    finally:
        lock.release()
    assert (tmp_path / "state.db").exists()


@pytest.mark.parametrize("name", ["", "nothing"])
def test_where_nothing_is_there_is_nothing_to_do(tmp_path: Path, name: str) -> None:
    with pytest.raises(IdentityError, match=r"holds no data|no directory"):
        plan_rebuild(tmp_path / name)


def test_an_interrupted_one_is_repeated(tmp_path: Path) -> None:
    """After every single move: either the node refuses to start, or the rest can be set aside."""
    born(tmp_path, "n1", "n2")
    aside = tmp_path / "damaged-before"
    aside.mkdir()
    (tmp_path / "node.json").rename(aside / "node.json")
    with pytest.raises(IdentityError, match="no node"):
        claim_directory(str(tmp_path), cluster_id="shop", node_id="n1")
    plan = plan_rebuild(tmp_path)
    rebuild_directory(plan)
    claim_directory(str(tmp_path), cluster_id="shop", node_id="n1").lock.release()


def test_not_while_the_others_are_no_majority(tmp_path: Path) -> None:
    born(tmp_path, "n1", "n2", "n3")
    plan_rebuild(tmp_path).require_majority()
    membership = MembershipFile.open(str(tmp_path / "raft"), OsDisk())
    assert membership.held is not None
    configuration = membership.held.configuration
    membership.store(Held(8, configuration.put(Member("n2", "n2:1", voter=False))))
    with pytest.raises(Needed, match="wait until n2 votes"):
        plan_rebuild(tmp_path).require_majority()
    membership.store(Held(9, configuration.without("n2")))
    with pytest.raises(Needed, match="raftflow node add"):
        plan_rebuild(tmp_path).require_majority()
    membership.store(Held(10, configuration.without("n2").without("n3")))
    plan_rebuild(tmp_path).require_majority()  # the last one may: it was asked
