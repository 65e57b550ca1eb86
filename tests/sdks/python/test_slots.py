"""Slots are reserved before work is asked for; threads do what is submitted, then end."""

import threading

import pytest

from raftflow_sdk.slots import Slots, Threads


def test_a_poll_takes_half_of_what_is_free() -> None:
    slots = Slots(8)
    assert [slots.wait() for _ in range(4)] == [4, 2, 1, 1]
    assert slots.reserve(3) == 0
    slots.release(3)
    assert slots.reserve(2) == 2
    assert slots.reserve(2) == 1


def test_nothing_less_than_nothing_is_reserved() -> None:
    slots = Slots(2)
    assert slots.reserve(-1) == 0
    slots.release(0)
    assert slots.reserve(5) == 2


def test_a_slot_that_becomes_free_is_waited_for() -> None:
    slots = Slots(1)
    assert slots.wait() == 1
    taken: list[int] = []
    waiting = threading.Thread(target=lambda: taken.append(slots.wait()))
    waiting.start()
    slots.release()
    waiting.join(5)
    assert taken == [1]


def test_once_closed_nobody_waits() -> None:
    slots = Slots(1)
    slots.wait()
    slots.close()
    assert slots.wait() == 0


def test_threads_do_what_was_submitted_before_they_end(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []
    threads = Threads(2, "slot", lambda: done.append("end"))

    def fail() -> None:
        raise KeyError("a bug of ours")

    for _ in range(3):
        assert threads.submit(fail)
    assert threads.submit(lambda: done.append("work"))
    threads.close()
    assert not threads.submit(fail)
    threads.start()
    for thread in threads.threads:
        thread.join(5)
    assert sorted(done) == ["end", "end", "work"]
    assert caplog.text.count("could not be handled") == 3
