"""Delivering what stands in a run's outbox. The row goes with what it does, in one entry: nothing
is lost, and nothing done twice, however often the leader proposes it."""

from __future__ import annotations

from raftflow.engine.commands import DeliverMessage
from raftflow.engine.decide import child
from raftflow.engine.decide.context import DONE, Context, Verdict
from raftflow.engine.decide.lease import dropped
from raftflow.engine.ids import RunKey, id_problem
from raftflow.engine.outbox import sending
from raftflow.engine.state import EndChild, Message, ReportChild, Run, StartChild
from raftflow.engine.transitions import MessageDelivered, MessageKept, Move


def deliver(ctx: Context, command: DeliverMessage) -> Verdict:
    sender = None
    if command.run_id:
        sender = ctx.run(command.namespace, command.workflow_id, command.run_id)
    message = None if sender is None else sender.outbox.get(command.number)
    if sender is None or message is None:
        return dropped("the message is not waiting")
    if problem := _mistaken(ctx, sender, message, command):
        return dropped(problem, sender, MessageKept(command.number))
    done = MessageDelivered(command.number)
    match message:
        case StartChild():
            moves, begun = child.begin(ctx, sender, message, command.target_run_id)
            return Verdict(DONE, sender, (done, *moves), ((None, begun),))
        case ReportChild():
            parent = ctx.state.runs.get(_target(command))
            return _both(sender, done, parent, child.reported(parent, message, sender))
        case EndChild():
            newest = ctx.run(command.namespace, command.target_workflow_id, "")
            return _both(sender, done, newest, child.ended(newest, message, sender))


def _both(
    sender: Run, done: MessageDelivered, target: Run | None, moves: tuple[Move, ...]
) -> Verdict:
    if target is None or not moves:
        return Verdict(DONE, sender, (done,))
    return Verdict(DONE, target, moves, ((sender, (done,)),))


def _mistaken(ctx: Context, sender: Run, message: Message, command: DeliverMessage) -> str | None:
    """What was loaded follows from the command, so it must name what the row does."""
    duty = sending(sender.key, command.number, message)
    if command.target_workflow_id != duty.target_workflow_id:
        return f"the message is for {duty.target_workflow_id!r}"
    if not duty.starts:
        if command.target_run_id != duty.target_run_id:
            return f"the message is for run {duty.target_run_id!r}"
        return None
    if problem := id_problem("target_run_id", command.target_run_id):
        return problem
    if ctx.used(_target(command)):
        return f"run id {command.target_run_id!r} was used before"
    return None


def _target(command: DeliverMessage) -> RunKey:
    return RunKey(command.namespace, command.target_workflow_id, command.target_run_id)
