from pathlib import Path

import pytest
from pysyncobj import syncobj as engine

from raftflow.cluster.consensus.journal_adapter import JournalAdapter, NoSerializer, installed
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal


@pytest.fixture
def adapter(tmp_path: Path) -> JournalAdapter:
    directory = str(tmp_path)
    journal = Journal.open(directory, disk=OsDisk())
    return JournalAdapter(journal, HardState.open(directory, OsDisk()))


def test_the_list_begins_with_the_boundary(adapter: JournalAdapter) -> None:
    assert len(adapter) == 1
    assert adapter[0] == adapter[-1] == (b"", 0, 0)
    adapter.add(b"x", 1, 3)
    assert len(adapter) == 2
    assert adapter[1] == adapter[-1] == (b"x", 1, 3)


def test_the_vote_is_the_hard_state(adapter: JournalAdapter, tmp_path: Path) -> None:
    adapter.setCurrentTerm(4, "b")
    assert (adapter.getCurrentTerm(), adapter.getVotedForNodeId()) == (4, "b")
    again = HardState.open(str(tmp_path), OsDisk())
    assert (again.term, again.voted_for) == (4, "b")


def test_pysyncobj_has_what_is_replaced_and_gets_it_back(adapter: JournalAdapter) -> None:
    before = engine.createJournal, engine.Serializer, engine.PIPE_NOTIFIER_ENABLED
    with installed(adapter):
        assert engine.createJournal("file") is adapter
        assert engine.Serializer is NoSerializer
        assert engine.PIPE_NOTIFIER_ENABLED is False
    assert (engine.createJournal, engine.Serializer, engine.PIPE_NOTIFIER_ENABLED) == before
