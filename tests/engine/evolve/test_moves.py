from __future__ import annotations

from typing import get_args

from raftflow.engine.events import EventBody
from raftflow.engine.evolve.moves import OF_NONE, OF_RUN
from raftflow.engine.transitions import Transition


def test_every_move_can_be_made() -> None:
    assert {*OF_RUN, *OF_NONE} == {*get_args(EventBody), *get_args(Transition)}
    assert not OF_RUN.keys() & OF_NONE.keys()
