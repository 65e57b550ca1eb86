"""The watchdog names what blocks, once, and nothing else."""

import threading
import time

import pytest

from raftflow_sdk.watchdog import Watchdog


def test_a_replay_that_blocks_is_named_with_its_line(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()
    watchdog = Watchdog(limit=0.05)
    watchdog.start()

    def blocks_for_ever() -> None:
        with watchdog.watching("order-1"):
            release.wait(5)

    thread = threading.Thread(target=blocks_for_ever)
    thread.start()
    deadline = time.monotonic() + 5
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)  # two more looks, which must stay silent
    release.set()
    thread.join()
    watchdog.stop()
    (record,) = caplog.records
    assert "workflow order-1: the code has blocked" in record.getMessage()
    assert "in blocks_for_ever" in record.getMessage()


def test_a_replay_that_ends_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(limit=0.05)
    watchdog.start()
    for _ in range(20):
        with watchdog.watching("order-1"):
            time.sleep(0.005)
    watchdog.stop()
    assert not caplog.records
