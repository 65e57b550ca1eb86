"""A "no" of the sieve is certain for as long as an id is remembered."""

from hypothesis import given, settings
from hypothesis import strategies as st

from raftflow.cluster.sieve import Sieve, bits_of
from raftflow.engine.dedup import REQUEST_TTL_MS


def key(number: int) -> tuple[str, str]:
    return ("default", f"q{number}")


def test_before_it_is_filled_every_id_may_be_known() -> None:
    sieve = Sieve()
    assert sieve.may_know(key(1))
    sieve.fill(bits_of([key(2)]))
    assert not sieve.may_know(key(1))
    assert sieve.may_know(key(2))


def test_what_was_added_before_the_filling_stays() -> None:
    sieve = Sieve()
    sieve.add(key(1), REQUEST_TTL_MS)
    sieve.fill(bits_of([]))
    assert sieve.may_know(key(1))


@settings(max_examples=30)
@given(st.lists(st.integers(min_value=0, max_value=REQUEST_TTL_MS), max_size=12))
def test_no_id_is_forgotten_before_it_expires(steps: list[int]) -> None:
    sieve = Sieve()
    sieve.fill(bits_of([key(-1)]))
    now_ms, expiry = 0, {-1: REQUEST_TTL_MS}
    for number, step_ms in enumerate(steps):
        now_ms += step_ms
        for known, expires_ms in expiry.items():
            assert sieve.may_know(key(known)) or expires_ms <= now_ms
        expiry[number] = now_ms + REQUEST_TTL_MS
        sieve.add(key(number), expiry[number])
        assert sieve.may_know(key(number))


def test_ids_leave_in_the_end_and_few_strangers_pass() -> None:
    sieve = Sieve()
    sieve.fill(bits_of([]))
    for number in range(10_000):
        sieve.add(key(number), REQUEST_TTL_MS)
    strangers = sum(sieve.may_know(key(number)) for number in range(10_000, 20_000))
    assert strangers < 20
    for turn in (3, 5):
        sieve.add(("default", f"late{turn}"), turn * REQUEST_TTL_MS)
    assert sum(sieve.may_know(key(number)) for number in range(10_000)) < 20
