"""Activities: outcomes, what they know of themselves, and how async code is told to stop."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from raftflow_sdk import ActivityFailure, ActivityInfo
from raftflow_sdk.activity import ActivityCode
from raftflow_sdk.payloads import Decode

TASK: dict[str, Any] = {
    "workflow_id": "w",
    "run_id": "r",
    "workflow_type": "Order",
    "step_name": "work",
    "sequence": 3,
    "attempt": 2,
    "input": "tea",
    "start_to_close_timeout_ms": 1500,
    "traceparent": "00-a-b-01",
}


def info(task: dict[str, Any] = TASK) -> ActivityInfo:
    return ActivityInfo(task, lambda _: None)


def run(code: Callable[..., object], decode: Decode = "text") -> dict[str, Any]:
    return ActivityCode.of(code, decode, "activity 'work'").execute(TASK, info())


def test_code_may_ask_for_its_circumstances() -> None:
    def work(text: str, info: ActivityInfo) -> object:
        return [text, info.attempt, info.sequence, info.workflow_type, info.idempotency_key]

    assert run(work) == {"output": '["tea",2,3,"Order","r/3"]'}
    assert info().start_to_close_timeout == 1.5
    assert info({**TASK, "start_to_close_timeout_ms": 0}).start_to_close_timeout is None
    assert info().traceparent == "00-a-b-01"


def test_a_failure_says_whether_and_when_to_try_again() -> None:
    def declined(_: str) -> None:
        raise ActivityFailure("no", error_type="Declined", non_retryable=True)

    def busy(_: str) -> None:
        raise ActivityFailure("later", next_retry_delay=2.5)

    assert run(declined) == {"error": "no", "error_type": "Declined", "non_retryable": True}
    assert run(busy) == {
        "error": "later",
        "error_type": "ActivityFailure",
        "next_retry_delay_ms": 2500,
    }


def test_async_code_runs_to_its_end() -> None:
    async def work(text: str, info: ActivityInfo) -> str:
        await asyncio.sleep(0)
        return f"{text} {info.attempt}"

    async def broken(_: str) -> None:
        raise KeyError("sku")

    assert run(work) == {"output": "tea 2"}
    assert run(broken) == {"error": "KeyError: 'sku'", "error_type": "KeyError"}


@pytest.mark.parametrize("before", [True, False])
def test_async_code_is_cancelled_when_its_lease_is_lost(
    before: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cleaned, started = [], threading.Event()

    async def work(_: str) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    told = info()
    if before:
        told.lose(cancelled=True)
    else:
        threading.Thread(target=lambda: (started.wait(), told.lose(cancelled=True))).start()
    outcome = ActivityCode.of(work, "text", "activity").execute(TASK, told)
    assert outcome["error_type"] == "CancelledError"
    assert told.cancelled.is_set()
    assert cleaned == [True]
    assert not caplog.records, "nobody wants to know how it ended"


def test_a_lease_that_is_lost_later_disturbs_nobody() -> None:
    told = info()

    async def work(_: str) -> str:
        return "done"

    assert ActivityCode.of(work, "text", "activity").execute(TASK, told) == {"output": "done"}
    told.lose(cancelled=False)
    assert told.lease_lost.is_set()
    assert not told.cancelled.is_set()


def test_an_input_that_cannot_be_read_is_not_tried_again() -> None:
    outcome = run(lambda value: value, decode="json")
    assert (outcome["error_type"], outcome["non_retryable"]) == ("PayloadError", True)
