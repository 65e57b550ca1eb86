"""What one run has to say to another: rows of its outbox, from the entry in which it has to be said
to the entry in which it is done. The leader derives from a row alone what it proposes."""

from __future__ import annotations

from collections.abc import Iterator

from raftflow.engine.effects import SendMessage
from raftflow.engine.ids import RunKey
from raftflow.engine.state import EndChild, Message, ReportChild, Run, StartChild


def sending(sender: RunKey, number: int, message: Message) -> SendMessage:
    """The duty that an outbox row is."""
    match message:
        case StartChild():
            return SendMessage(sender, number, message.workflow_id, "", starts=True)
        case ReportChild():
            target, run_id = message.parent_workflow_id, message.parent_run_id
            return SendMessage(sender, number, target, run_id, starts=False)
        case EndChild():
            return SendMessage(sender, number, message.workflow_id, "", starts=False)


def pending_starts(run: Run) -> Iterator[tuple[int, int]]:
    """Steps whose child is still to be started, each with the number under which that waits."""
    for number, message in run.outbox.items():
        if isinstance(message, StartChild):
            yield message.sequence, number


def pending_start(run: Run, sequence: int) -> int:
    """The number under which the start of the step's child waits; 0 when it was started."""
    return next((number for step, number in pending_starts(run) if step == sequence), 0)
