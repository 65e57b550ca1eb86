"""Every member of the engine's unions has its message."""

from __future__ import annotations

import typing

from raftflow.cluster.codec import commands, events
from raftflow.cluster.codec.values import ANSWERS
from raftflow.engine.commands import Attributed, Command, WorkflowCommand
from raftflow.engine.events import EventBody
from raftflow.engine.rejections import Answer


def test_no_member_of_a_union_is_forgotten() -> None:
    for union, table in (
        (WorkflowCommand, commands._WORKFLOW_COMMANDS),
        (EventBody, events._BODIES),
        (Answer, ANSWERS),
    ):
        assert table.members == set(typing.get_args(union))
    # Who says a command stands beside it.
    assert commands._COMMANDS.members == set(typing.get_args(Command)) - {Attributed}
