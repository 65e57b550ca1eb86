from __future__ import annotations

import asyncio

import pytest
from eventually import eventually

from raftflow.cluster.errors import Unavailable
from raftflow.cluster.progress import Progress
from raftflow.engine.commands import RecordHeartbeat


def said(details: str, token: str = "t") -> RecordHeartbeat:
    return RecordHeartbeat(
        namespace="default", workflow_id="w", lease_token=token, details=details.encode()
    )


class Log:
    def __init__(self) -> None:
        self.written: list[str] = []
        self.fails = 0

    async def write(self, details: RecordHeartbeat) -> None:
        if self.fails:
            self.fails -= 1
            raise Unavailable("no leader")
        self.written.append(details.details.decode())


async def test_the_first_is_written_at_once_and_then_the_newest_in_turn() -> None:
    log = Log()
    progress = Progress(log.write, every_s=0.02)
    await progress.report(said("1"))
    assert log.written == ["1"]
    for number in range(2, 50):
        await progress.report(said(str(number)))
    assert log.written == ["1"]
    await eventually(lambda: len(log.written) > 1, "the next turn")
    assert log.written == ["1", "49"]
    await eventually(lambda: not progress._waiting, "nothing is kept of a quiet task")
    await progress.report(said("50"))
    assert log.written == ["1", "49", "50"]


async def test_an_attempt_that_ended_leaves_its_last_word() -> None:
    log = Log()
    progress = Progress(log.write, every_s=3_600)
    await progress.report(said("1"))
    await progress.report(said("2"))
    await progress.report(said("other", token="u"))
    await progress.settle("t")
    await progress.settle("t")
    await progress.settle("unheard of")
    assert log.written == ["1", "other", "2"]


async def test_what_could_not_be_written_in_its_turn_waits_for_the_next() -> None:
    log = Log()
    progress = Progress(log.write, every_s=0.01)
    await progress.report(said("1"))
    log.fails = 2
    await progress.report(said("2"))
    await eventually(lambda: log.written == ["1", "2"], "a later turn")


async def test_first_details_that_cannot_be_written_are_the_callers_to_repeat() -> None:
    log = Log()
    progress = Progress(log.write, every_s=3_600)
    log.fails = 1
    with pytest.raises(Unavailable):
        await progress.report(said("1"))
    await progress.report(said("1"))
    assert log.written == ["1"]


async def test_those_who_beat_at_once_write_once() -> None:
    log = Log()
    progress = Progress(log.write, every_s=3_600)
    await asyncio.gather(*[progress.report(said(str(number))) for number in range(10)])
    assert log.written == ["0"]
