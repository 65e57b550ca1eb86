"""Runs that come and go: each is used for a while, then another takes its place, so that no history
grows beyond what its checker can read."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from tests.jepsen import api
from tests.jepsen.client import Client
from tests.jepsen.context import Run
from tests.jepsen.history import INVOKE
from tests.jepsen.workloads.base import POLL_MS, Taken, taken


@dataclass
class Runs:
    """`places` runs at a time, each for `uses` operations."""

    name: str
    workflow_type: str
    queue: str
    places: int
    uses: int
    all_keys: list[str] = field(default_factory=list)
    _open: dict[str, int] = field(default_factory=dict)
    _retired: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def pick(self, run: Run, client: Client) -> str | None:
        """The key of a run for the next operation; one is started when a place is free."""
        with self._lock:
            self._retired |= {key for key, left in self._open.items() if left <= 0}
            self._open = {key: left - 1 for key, left in self._open.items() if left > 0}
            fresh = ""
            if len(self._open) < self.places:
                fresh = f"{self.name}/{run.seed}/{len(self.all_keys)}"
                self.all_keys.append(fresh)
            elif self._open:
                return client.rng.choice([*self._open])
        return fresh if self._start(client, fresh) else None

    def _start(self, client: Client, key: str) -> bool:
        request = api.start(self.workflow_type, key, queue=self.queue, request_id=f"start-{key}")
        started = any(client.call("begin", request, key=key).ok for _ in range(3))
        with self._lock:
            if started:
                self._open[key] = self.uses * self.places
            else:
                self.all_keys.remove(key)
        return started

    def in_use(self, key: str) -> bool:
        """Whether its worker should go on with it."""
        with self._lock:
            return key not in self._retired


@dataclass(frozen=True, slots=True)
class Decider:
    """A workflow worker by hand: polls, and answers with the commands that it is told."""

    run: Run
    client: Client
    workflow_type: str
    queue: str

    def poll(self) -> Taken | None:
        request = api.poll_decision(
            [self.workflow_type], queue=self.queue, worker=self.client.process, wait_ms=POLL_MS
        )
        return taken(self.run, self.client, "poll", request, seen=_seen)

    def decide(self, task: dict[str, Any], commands: list[dict[str, Any]], **said: Any) -> str:
        """`said` stands in the history beside token and length; returns how it ended."""
        value = {"token": task["token"], "seen": task["length"], **said}
        request = api.complete_decision(task["workflow_id"], task["token"], commands)
        return self.client.call("decide", request, key=task["workflow_id"], value=value).kind

    def decide_as(
        self,
        f: str,
        task: dict[str, Any],
        commands: list[dict[str, Any]],
        *,
        since_ns: int,
        value: Any,
    ) -> None:
        """Like `decide`, as an operation that began with the poll."""
        key = task["workflow_id"]
        self.client.note(INVOKE, f, key=key, value=value, time_ns=since_ns)
        request = api.complete_decision(key, task["token"], commands)
        node = self.client.rng.choice(self.client.cluster.ids())
        which = self.client.rng.choice((api.JSON, api.GRPC))
        outcome = self.client.perform(request, node=node, api=which)
        self.client.note(outcome.kind, f, key=key, node=node, error=outcome.error)


def _seen(task: dict[str, Any]) -> dict[str, Any]:
    """Of a task: which timers have fired by now, and not the whole of its steps."""
    fired = [
        number
        for number, (kind, status, _event) in enumerate(task["steps"], start=1)
        if kind == "TIMER" and status == "COMPLETED"
    ]
    return {
        "workflow_id": task["workflow_id"],
        "token": task["token"],
        "length": task["length"],
        "fired": fired,
    }


def open_steps(task: dict[str, Any], kind: str) -> list[int]:
    return [
        number
        for number, (its_kind, status, _event) in enumerate(task["steps"], start=1)
        if its_kind == kind and status == "SCHEDULED"
    ]


def marker(sequence: int, data: str) -> dict[str, Any]:
    return {
        "type": "record_marker",
        "step_name": "note",
        "sequence": sequence,
        "marker": "side_effect",
        "data": data,
    }


def timer(sequence: int, delay_ms: int) -> dict[str, Any]:
    return {
        "type": "start_timer",
        "step_name": "pause",
        "sequence": sequence,
        "delay_ms": delay_ms,
    }


def await_signal(sequence: int, name: str) -> dict[str, Any]:
    return {
        "type": "await_signal",
        "step_name": "wait",
        "sequence": sequence,
        "signal_name": name,
    }


COMPLETE = {"type": "complete_workflow", "output": "done"}


def ended(client: Client, key: str) -> bool:
    """Whether a run is closed, as some node says; not written down."""
    node = client.rng.choice(client.cluster.ids())
    seen = client.perform(api.describe(key), node=node, api=api.JSON)
    return seen.ok and seen.body["status"] not in ("RUNNING", "WAITING")
