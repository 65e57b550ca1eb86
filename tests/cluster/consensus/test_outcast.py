from pathlib import Path

from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.consensus.outcast import PATIENCE_S, Standing, no_member, old_copy
from raftflow.raftlog.disk import OsDisk

OTHERS = Configuration((Member("n1", "h:1"), Member("n2", "h:2")))
ALL = OTHERS.put(Member("n4", "h:4", voter=False))


def standing(directory: Path) -> Standing:
    return Standing(
        MembershipFile.open(
            str(directory),
            OsDisk(),
        ),
        str(directory),
        "n4",
        "disk",
    )


def ends(node: Standing, *, as_of: int, led: bool = False) -> bool:
    """Whether it gives up when it is told so again and again."""
    told = [node.surely_removed(as_of=as_of, led=led, now_s=PATIENCE_S * n) for n in range(3)]
    assert not told[0], "never at once"
    return told[-1]


def test_the_way_out_can_be_copied() -> None:
    assert "n2 has seen a later start" in str(old_copy("/data", seen_by="n2"))
    assert "`raftflow node rebuild /data`" in str(old_copy("/data", seen_by="n2"))
    gone = str(no_member("n4", "was removed", directory="/data", address="h:1"))
    assert gone.startswith("n4 was removed. ")
    assert "`raftflow node rebuild /data` and `raftflow node add n4=h:1`" in gone


def test_who_never_was_a_member_waits_whatever_it_has_learnt(tmp_path: Path) -> None:
    node = standing(tmp_path)
    assert not ends(node, as_of=0)
    assert not node.settle(Held(0, OTHERS), OTHERS)
    assert not node.settle(Held(7, OTHERS), OTHERS)
    assert not ends(node, as_of=7)
    assert not ends(node, as_of=20)


def test_one_that_is_behind_cannot_put_a_member_out(tmp_path: Path) -> None:
    node = standing(tmp_path)
    assert not node.settle(Held(7, ALL), ALL)
    assert not ends(node, as_of=6)
    assert ends(node, as_of=8), "it missed its removal"
    assert not ends(node, as_of=8, led=True), "a leader has it: it was added again"


def test_another_disk_than_the_recorded_one_waits_to_be_taken_in(tmp_path: Path) -> None:
    node = standing(tmp_path)
    older = OTHERS.put(Member("n4", "h:4", incarnation="an older disk"))
    node.settle(Held(7, older), older)
    assert not ends(node, as_of=8)


def test_a_removed_node_remembers_it(tmp_path: Path) -> None:
    node = standing(tmp_path)
    node.level = True
    node.settle(Held(7, ALL), ALL)
    assert node.settle(Held(8, OTHERS), OTHERS)
    assert not node.settle(Held(9, OTHERS), OTHERS), "that is told once"
    again = standing(tmp_path)
    assert ends(again, as_of=9)
    assert not ends(again, as_of=9, led=True)
    assert not again.settle(Held(10, ALL), ALL), "it was added again"
    assert not ends(again, as_of=9)
    assert not ends(standing(tmp_path), as_of=9)


def test_a_newcomer_reads_through_the_removal_of_its_namesake(tmp_path: Path) -> None:
    """Added, removed and added again before it ever ran."""
    node = standing(tmp_path)
    node.settle(Held(29, ALL), ALL)
    assert not node.settle(Held(32, OTHERS), OTHERS), "what follows is not here yet"
    node.settle(Held(35, ALL), ALL)
    node.level = True
    assert not ends(node, as_of=32)
    assert node.settle(Held(38, OTHERS), OTHERS), "that is news"


def test_who_is_taken_in_again_by_the_same_words_goes_on(tmp_path: Path) -> None:
    node = standing(tmp_path)
    node.level = True
    node.settle(Held(29, ALL), ALL)
    assert not node.settle(Held(32, OTHERS), ALL)


def test_one_that_was_never_level_ends_when_it_is_refused(tmp_path: Path) -> None:
    node = standing(tmp_path)
    node.settle(Held(7, ALL), ALL)
    assert not node.settle(Held(8, OTHERS), OTHERS)
    assert ends(node, as_of=8)


def test_what_a_copy_outran_removes_nobody(tmp_path: Path) -> None:
    node = standing(tmp_path)
    node.settle(Held(9, ALL), ALL)
    assert not node.settle(Held(7, OTHERS), OTHERS)
    assert node.is_member
