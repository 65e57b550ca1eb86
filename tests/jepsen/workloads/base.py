"""What all workloads share: the protocol, clients and workers by name, reads after the heal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tests.jepsen import api
from tests.jepsen.api import Request
from tests.jepsen.checker.chains import chain_of
from tests.jepsen.checker.liveness import check_manners
from tests.jepsen.checker.verdict import Verdict, joined
from tests.jepsen.client import Channels, Client
from tests.jepsen.context import Run
from tests.jepsen.history import INFO, INVOKE, OK, Call, Op, calls, of_workload
from tests.jepsen.outcomes import BROKEN, Outcome

POLL_MS = 1_500
NEMESIS = "nemesis"
QUIET = "quiet"  # what the nemesis calls the time between its faults
SETUP_TRIES = 60
FINAL_TRIES = 40


class Workload(Protocol):
    """`check` sees the whole history, and nothing else."""

    name: str

    def setup(self, run: Run) -> None: ...

    def threads(self, run: Run) -> list[Callable[[], None]]:
        """Each loops until the run is stopping."""
        ...

    def final(self, run: Run) -> None:
        """After the last heal: reads from every node."""
        ...

    def check(self, history: Sequence[Op]) -> Verdict: ...


@dataclass
class Base:
    """The usual parts. `share` of the run's rate is this workload's; `self.clients` are its own."""

    name: str = ""
    types: tuple[str, ...] = ()
    _channels: Channels | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def queue(self) -> str:
        """Workers of one workload see no task of another."""
        return f"jepsen-{self.name}"

    def client(self, run: Run, process: str) -> Client:
        with self._lock:
            if self._channels is None:
                self._channels = Channels(run.cluster)
        return Client(
            run.cluster,
            run.history,
            self._channels,
            process=f"{self.name}/{process}",
            rng=run.rng(f"{self.name}/{process}"),
        )

    def setup(self, run: Run) -> None:
        if self.types:
            until_ok(run, self.client(run, "setup"), "register", api.register(self.types))

    def final(self, run: Run) -> None:
        """Nothing to read."""

    def mine(self, history: Sequence[Op]) -> list[Call]:
        return calls(of_workload(history, self.name))

    def storyteller(
        self, run: Run, name: str, per_second: float, story: Callable[[str, Client], None]
    ) -> Callable[[], None]:
        """A thread whose client plays one story after the other, each about a key of its own."""
        client = self.client(run, name)
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            story(f"{self.name}/{run.seed}/{name.removeprefix('client')}/{turns}", client)
            self.pace(run, client, per_second)

        return loop(run, turn)

    def pace(self, run: Run, client: Client, per_second: float) -> bool:
        """Wait for the next turn of a loop with so many turns a second; False: the run ends."""
        rate = per_second * run.rate
        return run.rest(client.rng.uniform(0.5, 1.5) / rate)

    def with_manners(self, history: Sequence[Op], *verdicts: Verdict) -> Verdict:
        return joined(*verdicts, check_manners(self.mine(history)))


def until_ok(
    run: Run,
    client: Client,
    f: str,
    request: Request,
    *,
    tries: int = SETUP_TRIES,
    **options: Any,
) -> Outcome:
    """The same call again and again, each written down; for set-up and final reads."""
    outcome = client.call(f, request, **options)
    for _ in range(tries):
        if outcome.ok:
            break
        client.pause()
        outcome = client.call(f, request, **options)
    return outcome


class Taken(NamedTuple):
    task: dict[str, Any]
    begun_ns: int


def taken(
    run: Run, client: Client, f: str, request: Request, *, seen: Callable[[Any], Any] | None = None
) -> Taken | None:
    """Poll once; only polls that gave a task are written down, as they began and ended. `seen`
    makes what the history keeps. Returns the task and when the poll began."""
    node = client.rng.choice(client.cluster.ids())
    which = client.rng.choice((api.JSON, api.GRPC))
    begun = time.monotonic_ns()
    outcome = client.perform(request, node=node, api=which)
    if not outcome.ok or not outcome.body:
        if outcome.error.startswith(BROKEN):
            client.note(INVOKE, f, time_ns=begun, node=node)
            client.note(INFO, f, error=outcome.error, node=node)
        if not outcome.ok:
            run.rest(0.1)
        return None
    client.note(INVOKE, f, time_ns=begun, node=node)
    client.note(OK, f, value=seen(outcome.body) if seen else outcome.body, node=node)
    return Taken(outcome.body, begun)


def read_everywhere(run: Run, client: Client, keys: Iterable[str]) -> None:
    """The whole history of each run from every node, and the events from one of them."""
    for key in keys:
        nodes = run.cluster.ids()
        for node in nodes:
            until_ok(
                run,
                client,
                "history",
                api.history(key),
                tries=FINAL_TRIES,
                key=key,
                node=node,
                keep=kept_history,
            )
        until_ok(
            run,
            client,
            "events",
            api.history(key),
            tries=FINAL_TRIES,
            key=key,
            keep=lambda records: [api.event_of(record) for record in records],
        )


def kept_history(records: list[bytes]) -> dict[str, Any]:
    ids = [api.event_of(record)["id"] for record in records]
    return {"chain": chain_of(records), "dense": ids == list(range(1, len(ids) + 1))}


def healed_ns(history: Sequence[Op]) -> float:
    """When the last fault was over."""
    faults = (op for op in history if op.process.startswith(NEMESIS) and op.f != QUIET)
    return max((op.time_ns for op in faults), default=0)


def loop(run: Run, turn: Callable[[], None]) -> Callable[[], None]:
    """A thread that takes turns until the run ends. Turns handle whatever a cluster under fire may
    answer; what they raise is a bug of the suite, and fails the run."""

    def body() -> None:
        while not run.stopping.is_set():
            turn()

    return body
