"""Term and vote survive, and are never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.errors import JournalDamaged
from raftflow.raftlog.hardstate import FILE, HardState
from raftflow.raftlog.journal import Journal, LogEntry


def test_a_new_node_is_at_term_zero(tmp_path: Path) -> None:
    state = HardState.open(str(tmp_path / "raft"), OsDisk())
    assert (state.term, state.voted_for) == (0, None)


@pytest.mark.parametrize("vote", [None, "", "n1", "knoten-ä" * 100])
def test_what_was_stored_is_read_again(tmp_path: Path, vote: str | None) -> None:
    HardState.open(str(tmp_path), OsDisk()).store(1 << 40, vote)
    state = HardState.open(str(tmp_path), OsDisk())
    assert (state.term, state.voted_for) == (1 << 40, vote)


def test_neither_term_nor_vote_is_taken_back(tmp_path: Path) -> None:
    state = HardState.open(str(tmp_path), OsDisk())
    state.store(5, None)
    state.store(5, "n1")
    state.store(5, "n1")
    for term, vote in ((4, "n1"), (5, "n2"), (5, None)):
        with pytest.raises(ValueError, match="term 5 with a vote for n1"):
            state.store(term, vote)
    state.store(6, "n2")
    assert (state.term, state.voted_for) == (6, "n2")


@pytest.mark.slow
def test_every_cut_and_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    HardState.open(str(tmp_path), OsDisk()).store(3, "n1")
    path = tmp_path / FILE
    good = path.read_bytes()
    damaged = [good[:size] for size in range(len(good))]
    for bit in range(len(good) * 8):
        flipped = bytearray(good)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(JournalDamaged) as refused:
            HardState.open(str(tmp_path), OsDisk())
        assert str(path) in str(refused.value)
        assert "never delete this file" in str(refused.value)


def test_a_missing_file_is_refused_by_an_owner_that_knows_of_entries(tmp_path: Path) -> None:
    with pytest.raises(JournalDamaged, match="term and vote are missing"):
        HardState.open(str(tmp_path), OsDisk(), may_be_new=False)


def test_a_missing_file_beside_entries_is_refused(tmp_path: Path) -> None:
    journal = Journal.open(str(tmp_path), disk=OsDisk())
    assert HardState.open(str(tmp_path), OsDisk()).term == 0
    journal.append([LogEntry(1, 1, b"x")])
    journal.flush()
    journal.close()
    with pytest.raises(JournalDamaged, match="the term and vote are missing"):
        HardState.open(str(tmp_path), OsDisk())
