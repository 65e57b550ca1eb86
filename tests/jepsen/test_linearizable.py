"""A reference set: small histories of a register whose verdict is known, tricky ones among them."""

from __future__ import annotations

import itertools
import random
import time

import pytest

from tests.jepsen.checker.linearizable import CAS, READ, WRITE, Event, search
from tests.jepsen.history import NEVER


def w(value: str, start: float, end: float, *, surely: bool = True) -> Event:
    return Event(WRITE, value, start, end if surely else NEVER, surely)


def r(value: str | None, start: float, end: float) -> Event:
    return Event(READ, value, start, end)


def c(seen: str | None, new: str, start: float, end: float, *, surely: bool = True) -> Event:
    return Event(CAS, new, start, end if surely else NEVER, surely, seen)


GOOD = {
    "nothing": [],
    "one after the other": [w("a", 0, 1), r("a", 2, 3), w("b", 4, 5), r("b", 6, 7)],
    "reads of the beginning": [r(None, 0, 1), w("a", 2, 3)],
    "a read beside a write sees either": [w("a", 0, 10), r(None, 1, 2), r("a", 3, 4)],
    "two writes at once in either order": [w("a", 0, 10), w("b", 0, 10), r("a", 11, 12)],
    "new, then still new, within the write": [w("a", 0, 10), r("a", 1, 2), r("a", 3, 4)],
    "an unknown write that happened later": [w("a", 0, 1), w("x", 2, 0, surely=False)]
    + [r("a", 3, 4), r("x", 5, 6), r("x", 7, 8)],
    "an unknown write that never happened": [w("a", 0, 1), w("x", 2, 0, surely=False)]
    + [r("a", 3, 4), r("a", 50, 60)],
    "a conditional update": [w("a", 0, 1), c("a", "b", 2, 3), r("b", 4, 5)],
    "an update of the beginning": [c(None, "a", 0, 1), r("a", 2, 3)],
    "an update just before a write that it did not see": [w("a", 0, 1), c("a", "b", 2, 9)]
    + [w("n", 3, 4), r("n", 5, 6), r("n", 10, 11)],
    "an unknown update that a later one saw": [w("a", 0, 1), c("a", "b", 2, 0, surely=False)]
    + [c("b", "d", 5, 6), r("d", 7, 8)],
    "overlapping readers agree on the order": [w("a", 0, 10), w("b", 1, 11)]
    + [r("a", 2, 3), r("b", 4, 5), r("b", 6, 7)],
}

BAD = {
    "a stale read": [w("a", 0, 1), w("b", 2, 3), r("a", 4, 5)],
    "a lost write": [w("a", 0, 1), r(None, 2, 3)],
    "a value that nobody wrote": [w("a", 0, 1), r("z", 2, 3)],
    "read before it was written": [r("a", 0, 1), w("a", 2, 3)],
    "new, then old again (within the write)": [w("a", 0, 10), r("a", 1, 2), r(None, 3, 4)],
    "readers disagree on the order": [w("a", 0, 1), w("b", 0, 1)] + [r("a", 2, 3), r("b", 4, 5)],
    "to and fro": [w("a", 0, 20), w("b", 0, 20)] + [r("a", 1, 2), r("b", 3, 4), r("a", 5, 6)],
    "an unknown write that went away again": [w("a", 0, 1), w("x", 2, 0, surely=False)]
    + [r("x", 3, 4), r("a", 5, 6)],
    "an unknown write seen before it was asked": [w("a", 0, 1), r("x", 2, 3)]
    + [w("x", 4, 0, surely=False)],
    "an update of what was replaced": [w("a", 0, 1), w("b", 2, 3), c("a", "d", 4, 5)],
    "two updates of one value": [w("a", 0, 1), c("a", "b", 2, 3), c("a", "d", 2, 3)],
    "an update after a write that a read proves": [w("a", 0, 1), w("n", 2, 3), r("n", 4, 5)]
    + [c("a", "b", 6, 9)],
    "an unknown update cannot repair a stale one": [w("a", 0, 1), w("b", 2, 3)]
    + [c("a", "x", 4, 0, surely=False), r("x", 6, 7)],
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_is_linearizable(name: str) -> None:
    assert search(GOOD[name]).linearizable is True


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_not(name: str) -> None:
    found = search(BAD[name])
    assert found.linearizable is False
    assert found.stuck, "it must say which operations no order explains"


def executed(chance: random.Random, operations: int, *, unknown: float) -> list[Event]:
    """What a correct register could have answered: each operation takes effect somewhere within
    its interval; some outcomes are unknown, and of those half never happen."""
    moments = sorted(chance.uniform(0, operations) for _ in range(operations))
    state: str | None = None
    events = []
    for number, moment in enumerate(moments):
        start, end = moment - chance.expovariate(0.5), moment + chance.expovariate(0.5)
        lost = chance.random() < unknown
        happens = not lost or chance.random() < 0.5
        kind = chance.choice((READ, READ, WRITE, CAS))
        if kind == READ:
            events.append(r(state, start, end))
        elif kind == WRITE:
            events.append(w(f"v{number}", start, end, surely=not lost))
        else:
            events.append(c(state, f"v{number}", start, end, surely=not lost))
        if kind != READ and happens:
            state = f"v{number}"
    return events


@pytest.mark.parametrize("seed", range(12))
def test_what_a_correct_register_answers_is_linearizable(seed: int) -> None:
    chance = random.Random(seed)
    events = executed(chance, 300, unknown=0.1)
    chance.shuffle(events)
    begun = time.monotonic()
    assert search(events).linearizable is True
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("seed", range(12))
def test_one_read_of_the_past_among_many_is_found(seed: int) -> None:
    chance = random.Random(1_000 + seed)
    events = executed(chance, 200, unknown=0.1)
    surely = sorted((e for e in events if e.surely and e.f == WRITE), key=lambda e: e.end_ns)
    after = max(e.end_ns for e in events if e.surely) + 1
    events.append(r(surely[0].value, after, after + 1))
    assert search(events).linearizable is False


def slow(events: list[Event]) -> bool:
    """The definition: some order of the sure ones and some of the others respects time and
    values."""
    sure = [e for e in events if e.surely]
    maybe = [e for e in events if not e.surely]
    for many in range(len(maybe) + 1):
        for some in itertools.combinations(maybe, many):
            for order in itertools.permutations([*sure, *some]):
                if _explains(order):
                    return True
    return False


def _explains(order: tuple[Event, ...]) -> bool:
    state: str | None = None
    for place, event in enumerate(order):
        if any(later.end_ns < event.start_ns for later in order[place + 1 :]):
            return False
        possible, state = event.apply(state)
        if not possible:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(150))
def test_the_search_agrees_with_the_definition(seed: int) -> None:
    chance = random.Random(seed)
    events = executed(chance, chance.randrange(2, 7), unknown=0.3)
    if chance.random() < 0.6:  # spoil one of them
        place = chance.randrange(len(events))
        other = chance.choice([None, *(e.value for e in events)])
        event = events[place]
        if event.f == READ:
            events[place] = r(other, event.start_ns, event.end_ns)
    assert search(events).linearizable is slow(events)
