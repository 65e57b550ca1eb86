"""A run as the server keeps it, small enough to play with: decisions in, events out.

It follows PROTOCOL rules that replay depends on: dense event ids and sequences, one decision on
the newest history, buffered signals, cancelled steps and the cancel marker.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from raftflow_sdk.replay import decide
from raftflow_sdk.replay.events import task_at

BEGINS = {
    "schedule_activity": "StepScheduled",
    "start_timer": "TimerStarted",
    "await_signal": "SignalAwaited",
    "record_marker": "MarkerRecorded",
    "start_child_workflow": "ChildStarted",
}
CLOSES = {"complete_workflow", "fail_workflow", "continue_as_new"}


class RunModel:
    def __init__(self, code: Callable[..., object], *, text: str = "", limit: int = 0) -> None:
        self.code = code
        self.limit = limit
        self.events: list[dict[str, Any]] = []
        self.decisions: list[tuple[int, list[dict[str, Any]]]] = []
        self.cancel_requested = False
        self._open: dict[int, str] = {}  # sequence: the event that began it
        self._waits: dict[int, str] = {}
        self._signals: list[tuple[str, int]] = []
        self.add("WorkflowStarted", workflow_id="w", run_id="r", workflow_type="T", input=text)

    def add(self, kind: str, **fields: Any) -> int:
        event_id = len(self.events) + 1
        minutes, seconds = divmod(event_id, 60)
        moment = f"2026-01-01T00:{minutes:02}:{seconds:02}.000000Z"
        self.events.append({"event_id": event_id, "type": kind, "time": moment, **fields})
        return event_id

    # ---- decisions -------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self.events[-1]["type"] in (
            "WorkflowCompleted",
            "WorkflowFailed",
            "WorkflowCancelled",
            "WorkflowContinuedAsNew",
        )

    def task(self, length: int | None = None) -> dict[str, Any]:
        task = task_at(self.events, len(self.events) if length is None else length)
        task["suggest_continue_as_new_at"] = self.limit
        return task

    def decide(self) -> list[dict[str, Any]]:
        """One decision on the whole history, applied."""
        length = len(self.events)
        body = decide(self.code, self.task())
        assert "replay_error" not in body, body["replay_error"]
        commands: list[dict[str, Any]] = body["commands"]
        self.decisions.append((length, commands))
        for position, command in enumerate(commands):
            cancelled_here = {
                c["sequence"] for c in commands[position:] if c["type"] == "cancel_step"
            }
            self._apply(command, cancelled_here)
        assert self.closed or self._open or len(self.events) > length + len(commands), (
            "nothing would wake the run"
        )
        return commands

    def _apply(self, command: dict[str, Any], cancelled_here: set[int]) -> None:
        kind = command["type"]
        if kind in BEGINS:
            begun = [e for e in self.events if e["type"] in BEGINS.values()]
            assert command["sequence"] == len(begun) + 1, "sequences are dense"
            self.add(BEGINS[kind], **{k: v for k, v in command.items() if k != "type"})
            if kind != "record_marker":
                self._open[command["sequence"]] = BEGINS[kind]
            if kind == "await_signal":
                self._waits[command["sequence"]] = command["signal_name"]
                if command["sequence"] not in cancelled_here:  # else it takes none
                    self._match_signals([command["sequence"]])
        elif kind == "cancel_step":
            if command["sequence"] in self._open:
                self._close(command["sequence"])
                reason = command.get("reason", "")
                self.add("StepCancelled", sequence=command["sequence"], reason=reason)
        elif kind == "upsert_search_attributes":
            self.add("SearchAttributesUpserted", attributes=command["attributes"])
        elif kind == "complete_workflow":
            self.add("WorkflowCompleted", output=command.get("output", ""))
        elif kind == "continue_as_new":
            self.add("WorkflowContinuedAsNew", input=command.get("input", ""))
        elif command.get("cancelled"):
            assert self.cancel_requested
            self.add("WorkflowCancelled", reason=command["error"])
        else:
            self.add("WorkflowFailed", error=command["error"], error_type=command["error_type"])

    def _close(self, sequence: int) -> None:
        self._open.pop(sequence)
        self._waits.pop(sequence, None)

    # ---- what happens outside --------------------------------------------------------------------

    def open(self) -> list[int]:
        """Steps in flight that something but a signal resolves."""
        return [sequence for sequence in self._open if sequence not in self._waits]

    def resolve(self, sequence: int, output: str = "", *, error: str = "") -> None:
        begun = self._open[sequence]
        self._close(sequence)
        if begun == "TimerStarted":
            self.add("TimerFired", sequence=sequence)
        elif begun == "StepScheduled":
            if error:
                self.add("StepFailed", sequence=sequence, error=error, error_type="E", attempt=1)
            else:
                self.add("StepCompleted", sequence=sequence, output=output, attempt=1)
        elif error:
            self.add("ChildFailed", sequence=sequence, error=error, error_type="E", run_id="c")
        else:
            self.add("ChildCompleted", sequence=sequence, output=output, run_id="c")

    def signal(self, name: str, payload: str = "") -> None:
        self._signals.append((name, self.add("SignalReceived", name=name, payload=payload)))
        self._match_signals(sorted(self._waits))

    def _match_signals(self, waits: list[int]) -> None:
        for name, event_id in list(self._signals):
            for sequence in waits:
                if self._waits.get(sequence) == name:
                    self._signals.remove((name, event_id))
                    self._close(sequence)
                    self.add("SignalConsumed", sequence=sequence, signal_event_id=event_id)
                    break

    def request_cancel(self, reason: str = "stop") -> None:
        self.cancel_requested = True
        self.add("WorkflowCancelRequested", reason=reason)

    # ---- a whole life ----------------------------------------------------------------------------

    def play(self, chance: random.Random, *, signals: bool = True, cancel: bool = False) -> None:
        """Decide and let things happen, in some order, until the run has closed."""
        self.decide()
        while not self.closed:
            self._happen(chance, signals=signals, cancel=cancel)
            while self.open() and chance.random() < 0.6:
                self._happen(chance, signals=signals, cancel=cancel)
            self.decide()

    def _happen(self, chance: random.Random, *, signals: bool, cancel: bool) -> None:
        if cancel and not self.cancel_requested and chance.random() < 0.15:
            self.request_cancel()
        elif (self._waits and not self.open()) or (signals and chance.random() < 0.2):
            names = sorted(set(self._waits.values())) or ["go"]
            self.signal(chance.choice(names), str(chance.randrange(10)))
        elif sequences := self.open():
            error = "failed" if chance.random() < 0.2 else ""
            self.resolve(chance.choice(sequences), str(chance.randrange(10)), error=error)
        else:
            self.signal("go", "x")
