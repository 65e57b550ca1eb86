"""Which fault strikes when: windows of a changing mix with quiet periods between, from one seed.

A window has one family of faults that take nodes down and one of what is wrong around them, each
in a thread of its own. Every family has its turn before any has a second one, and so has every
fault of a family. In a quiet period all is whole and the cluster must be, too: `judge` looks.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tests.jepsen.context import Run
from tests.jepsen.history import FAIL, INVOKE, OK, Op
from tests.jepsen.nemesis.families import doable, faults_of, takes_nodes_down
from tests.jepsen.nemesis.fault import Fault, NotNow

NOT_NOW = "not now: "
QUIET = "quiet"
REVIVE = "revive"
RESTART_S = 60.0
TRIES = 3  # of a fault whose time it may not be

Item = TypeVar("Item")
Span = tuple[float, float]


class Deck(Generic[Item]):
    """Cards drawn in an order of chance, all of them before any comes again."""

    def __init__(self, cards: Iterable[Item], chance: random.Random) -> None:
        self._cards = list(cards)
        self._chance = chance
        self._left: list[Item] = []

    def draw(self) -> Item:
        if not self._left:
            self._left = self._chance.sample(self._cards, len(self._cards))
        return self._left.pop()

    def __bool__(self) -> bool:
        return bool(self._cards)


@dataclass(frozen=True, slots=True)
class Pace:
    """In seconds. `longest_s` caps how long any fault lasts."""

    window_s: Span = (30.0, 60.0)
    quiet_s: Span = (8.0, 12.0)
    between_s: Span = (0.3, 3.0)
    longest_s: float = 45.0


class Conductor:
    def __init__(self, run: Run, families: Sequence[str], pace: Pace) -> None:
        self._run = run
        self._pace = pace
        self._chance = run.rng("nemesis")
        self._decks: dict[str, Deck[type[Fault]]] = {
            name: Deck(doable(name, run.cluster.capabilities), run.rng(f"nemesis/{name}"))
            for name in families
        }
        self._lanes = {
            lane: Deck([f for f in families if takes_nodes_down(f) == process], self._chance)
            for lane, process in (("process", True), ("around", False))
        }

    def run(self, seconds: float) -> None:
        """Windows and quiet periods until the time is over; all is healed at the end."""
        until = time.monotonic() + seconds
        for window in itertools.count():
            if time.monotonic() >= until or self._run.stopping.is_set():
                return
            end = min(until, time.monotonic() + self._chance.uniform(*self._pace.window_s))
            lanes = [
                threading.Thread(
                    target=self._lane, args=(lane, deck.draw(), window, end), daemon=True
                )
                for lane, deck in self._lanes.items()
                if deck
            ]
            for thread in lanes:
                thread.start()
            for thread in lanes:
                thread.join()
            self._revive()
            if time.monotonic() < until:
                with quiet(self._run):
                    self._run.rest(self._chance.uniform(*self._pace.quiet_s))

    def _lane(self, lane: str, family: str, window: int, until: float) -> None:
        chance = self._run.rng(f"nemesis/{lane}/{window}")
        process = f"nemesis/{lane}"
        while time.monotonic() < until and self._run.rest(chance.uniform(*self._pace.between_s)):
            fault = self._draw(family)
            try:
                strike(self._run, process, fault, chance, self._pace.longest_s)
            except Exception:  # noqa: BLE001 - it fails the run, but must not end it
                note(self._run, process, fault.name, INVOKE)
                note(self._run, process, fault.name, FAIL, error=traceback.format_exc())

    def _draw(self, family: str) -> type[Fault]:
        return self._decks[family].draw()

    def _revive(self) -> None:
        """A node that ended by itself or stays away is a violation, which `judge` finds; the run
        goes on."""
        with self._run.node_lives:
            for node in self._run.cluster.ids():
                if not self._run.cluster.alive(node):
                    self._run.cluster.start(node)
            try:
                self._run.cluster.wait_serving(RESTART_S)
            except AssertionError as error:
                note(self._run, "nemesis/rest", REVIVE, INVOKE)
                note(self._run, "nemesis/rest", REVIVE, FAIL, error=str(error))


@contextlib.contextmanager
def quiet(run: Run) -> Iterator[None]:
    """A time without faults, told to the history. Nobody takes a node down meanwhile."""
    with run.node_lives:
        note(run, "nemesis/rest", QUIET, INVOKE)
        yield
        note(run, "nemesis/rest", QUIET, OK)


def in_turn(run: Run, names: Sequence[str], *, longest_s: float) -> None:
    """Each of these faults once, in this order, the cluster whole between them."""
    chance = run.rng("in-turn")
    for fault in itertools.chain.from_iterable(map(faults_of, names)):
        for _ in range(TRIES):
            if strike(run, "nemesis/in-turn", fault, chance, longest_s):
                break
        run.cluster.wait_serving(RESTART_S)
        run.rest(chance.uniform(0.2, 1.0))


def note(run: Run, process: str, f: str, type: str, **rest: Any) -> None:
    run.history.record(Op(process=process, f=f, type=type, **rest))


def strike(
    run: Run, process: str, kind: type[Fault], chance: random.Random, longest_s: float
) -> bool:
    """One fault from beginning to end, told to the history. Whether it was its time at all."""
    fault = kind(run, chance)
    alone = takes_nodes_down(kind.name) or fault.excludes()
    with run.node_lives if alone else contextlib.nullcontext():
        return _strike(run, process, fault, longest_s)


def _strike(run: Run, process: str, fault: Fault, longest_s: float) -> bool:
    kind, chance = type(fault), fault.chance
    shortest, longest = kind.lasts_s
    lasts = chance.uniform(shortest, min(longest, max(shortest, longest_s)))
    begun = time.monotonic_ns()
    try:
        words = fault.inject()
    except NotNow as reason:
        note(run, process, kind.name, INVOKE, time_ns=begun)
        note(run, process, kind.name, FAIL, error=f"{NOT_NOW}{reason}")
        return False
    told = {"did": words, "nodes": fault.victims, "ends_nodes": kind.ends_nodes}
    note(run, process, kind.name, INVOKE, time_ns=begun, value=told)
    problem = effect = ""
    try:
        run.rest(lasts)
        effect = fault.effect()
        problem = "" if effect else "took no effect"
    except AssertionError as error:
        problem = str(error)
    finally:
        try:
            fault.heal()
        except AssertionError as error:
            problem = problem or str(error)
    end = FAIL if problem else OK
    note(run, process, kind.name, end, value=effect or None, error=problem)
    return True
