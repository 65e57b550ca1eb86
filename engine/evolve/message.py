"""The outbox of a run: a row goes in with what caused it, and out with what it does."""

from __future__ import annotations

from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.outbox import sending
from raftflow.engine.state import Message, Run
from raftflow.engine.transitions import MessageDelivered, MessageKept


def send(rec: Recorder, run: Run, message: Message) -> None:
    run.messages_sent += 1
    number = run.messages_sent
    run.outbox[number] = message
    rec.run(run)
    rec.outbox(run, number, message)
    rec.effects.append(sending(run.key, number, message))


def take_back(rec: Recorder, run: Run, number: int) -> None:
    """Nobody needs to hear it any more, or it was heard."""
    del run.outbox[number]
    rec.outbox(run, number, None)


def delivered(rec: Recorder, run: Run, move: MessageDelivered) -> None:
    take_back(rec, run, move.number)


def kept(rec: Recorder, run: Run, move: MessageKept) -> None:
    """The row stays; whoever misread it sends it again."""
    rec.effects.append(sending(run.key, move.number, run.outbox[move.number]))
