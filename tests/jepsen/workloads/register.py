"""A register per run: a signal writes, describe reads, a decision is a conditional update.

A decision is taken only when it was made on the present history (or what it did not see counts as
later), so that its marker replaces the value that its task saw and no other.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.jepsen import api
from tests.jepsen.checker import linearizable
from tests.jepsen.checker.linearizable import CAS, READ, WRITE, Event
from tests.jepsen.checker.verdict import Verdict, substance, verdict
from tests.jepsen.context import Run
from tests.jepsen.history import FAIL, OK, Call, Op, named
from tests.jepsen.workloads.base import Base, loop
from tests.jepsen.workloads.runs import COMPLETE, Decider, Runs, marker, timer

TYPE = "JepsenRegister"
THREADS = 3
PER_SECOND = 3.0
PLACES, USES = 2, 120


@dataclass
class Register(Base):
    name: str = "register"
    types: tuple[str, ...] = (TYPE,)
    _values: Any = field(default_factory=lambda: count(1))

    def threads(self, run: Run) -> list[Callable[[], None]]:
        runs = Runs(self.name, TYPE, self.queue, places=PLACES, uses=USES)
        clients = [self._client_thread(run, runs, number) for number in range(THREADS)]
        return [*clients, self._updater_thread(run, runs)]

    def _client_thread(self, run: Run, runs: Runs, number: int) -> Callable[[], None]:
        client = self.client(run, f"client{number}")

        def turn() -> None:
            key = runs.pick(run, client)
            if key is not None and client.rng.random() < 0.35:
                value = f"w{next(self._values)}"
                request = api.signal(key, "set", value, request_id=f"{key}/{value}")
                client.call(WRITE, request, key=key, value=value)
            elif key is not None:
                client.call(READ, api.describe(key), key=key, keep=value_of)
            self.pace(run, client, PER_SECOND)

        return loop(run, turn)

    def _updater_thread(self, run: Run, runs: Runs) -> Callable[[], None]:
        client = self.client(run, "updater")
        decider = Decider(run, client, TYPE, self.queue)

        def turn() -> None:
            polled = decider.poll()
            if polled is None:
                return
            task = polled.task
            key, sequence = task["workflow_id"], len(task["steps"]) + 1
            if not runs.in_use(key):
                decider.decide(task, [COMPLETE])
                return
            delay_ms = client.rng.randrange(50, 800)
            if sequence == 1:
                decider.decide(task, [timer(1, delay_ms)])
                return
            look = client.call("look", api.describe(key), key=key, keep=lambda _body: None)
            if not look.ok or look.body["length"] != task["length"]:
                decider.decide(task, [timer(sequence, delay_ms)])
                return
            new = f"c{next(self._values)}"
            decider.decide_as(
                CAS,
                task,
                [marker(sequence, new), timer(sequence + 1, delay_ms)],
                since_ns=polled.begun_ns,
                value={"seen": value_of(look.body, held=False), "new": new},
            )

        return loop(run, turn)

    def check(self, history: Sequence[Op]) -> Verdict:
        made = self.mine(history)
        least = {READ: 30, WRITE: 15, CAS: 3}
        return self.with_manners(history, check_registers(made), substance(made, least))


def value_of(body: dict[str, Any], *, held: bool = True) -> str | None:
    """The newest of signals and markers. A signal without an event id waits for the decision that
    is out, and comes after all else."""
    written = [(event_id or math.inf, value) for event_id, value in body["signals"]]
    if not held:
        written = [pair for pair in written if pair[0] != math.inf]
    written += [
        (event_id, output)
        for _sequence, kind, _status, _attempts, event_id, output in body["steps"]
        if kind == "MARKER"
    ]
    newest: tuple[float, str | None] = (0, None)
    for event_id, value in written:
        if event_id >= newest[0]:
            newest = (event_id, value)
    return newest[1]


def check_registers(calls: Sequence[Call]) -> Verdict:
    by_key: dict[str, list[Call]] = defaultdict(list)
    for call in named(calls, READ, WRITE, CAS):
        if call.kind != FAIL and not (call.f == READ and call.kind != OK):
            by_key[call.key].append(call)
    errors: list[str] = []
    steps = longest = skipped = 0
    for key, made in by_key.items():
        events = [_event(call) for call in made]
        longest = max(longest, len(events))
        found = linearizable.search(events)
        steps += found.steps
        if found.linearizable is None:
            skipped += 1
        elif not found.linearizable:
            errors.append(f"{key} is not linearizable: no order explains {found.stuck}")
    if skipped:
        errors.append(f"vacuous: the search gave up on {skipped} of {len(by_key)} registers")
    return verdict(errors, registers=len(by_key), longest=longest, search_steps=steps)


def _event(call: Call) -> Event:
    seen = None
    value = call.result if call.f == READ else call.arguments
    if call.f == CAS:
        seen, value = call.arguments["seen"], call.arguments["new"]
    return Event(call.f, value, call.start_ns, call.end_ns, call.ok, seen)
