"""Checks workflow code against histories that were written before it, decision by decision.

Every decision of a history is made once more by the code of today: at the event that it was made
at, with the steps that it began and the markers that it recorded. The code must begin those steps
and no others, cancel the same ones and end the run where the history ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from raftflow_sdk.errors import NondeterminismError
from raftflow_sdk.payloads import Decode
from raftflow_sdk.replay.core import told
from raftflow_sdk.replay.decision import Workflow, WorkflowCode, decide
from raftflow_sdk.replay.events import CLOSING, STARTING, Event, task_at
from raftflow_sdk.replay.history_file import History, read_history

_KINDS = {
    "schedule_activity": "ACTIVITY",
    "start_timer": "TIMER",
    "await_signal": "SIGNAL",
    "record_marker": "MARKER",
    "start_child_workflow": "CHILD",
}


@dataclass(frozen=True, slots=True)
class Replayed:
    """A history with which the code agrees."""

    workflow_id: str
    run_id: str
    workflow_type: str
    decisions: int
    warning: str = ""
    """What of the file could not be checked: it breaks off within an event."""


class Registered(Protocol):
    """A `Worker`: what is registered with it, by workflow type."""

    @property
    def workflows(self) -> Mapping[str, WorkflowCode]: ...


class Replayer:
    """`Replayer(worker).check("order-42.history")`.

    A mapping such as `{"Order": order}` does as well as a worker, which connects to nothing. Inputs
    are read as the code was registered, unless `decode` says otherwise.
    """

    def __init__(
        self, code: Registered | Mapping[str, Workflow], *, decode: Decode | None = None
    ) -> None:
        found = code if isinstance(code, Mapping) else code.workflows
        self._workflows = {name: WorkflowCode.of(each, decode) for name, each in found.items()}

    def check(self, history: str | Path | Mapping[str, Any]) -> Replayed:
        """Replay a history: a file, as exported (JSON or binary), or the answer of
        `Client.history`. Raises `NondeterminismError` naming the step that differs."""
        read = read_history(history)
        started = read.events[0]
        workflow_type = started["workflow_type"]
        code = self._workflows.get(workflow_type)
        if code is None:
            raise LookupError(f"no workflow code for the type {workflow_type!r}")
        decisions = _Check(code, read).run()
        return Replayed(
            started["workflow_id"], started["run_id"], workflow_type, decisions, read.torn
        )


class _Check:
    """One history. Its decisions are runs of steps begun and cancelled, without an event between
    them that came from elsewhere."""

    def __init__(self, code: WorkflowCode, history: History) -> None:
        self._code = code
        self._events = history.events
        self._torn = bool(history.torn)
        self._begun = 0  # steps that the decisions checked so far began
        self._decisions = 0

    def run(self) -> int:
        index = 0
        while index < len(self._events):
            if self._events[index]["type"] in _MADE:
                index = self._check_batch(index)
            else:
                index += 1
        self._check_end()
        return self._decisions

    def _check_batch(self, first: int) -> int:
        """Check the decisions that wrote from here on without a break; the index after them."""
        waits: set[int] = set()
        made: list[Event] = []
        after = first
        sure: int | None = None
        for event in self._events[first:]:
            # A signal may be there before its wait: what follows may be of the next decision.
            found = event["type"] == "SignalConsumed" and event["sequence"] in waits
            if found and sure is None:
                sure = len(made)
            if not found and event["type"] not in _MADE:
                break
            if event["type"] == "SignalAwaited":
                waits.add(event["sequence"])
            if not found:
                made.append(event)
            after += 1
        sure = len(made) if sure is None else sure
        cut = self._torn and after == len(self._events)  # there may have been more of it
        while made:
            left = self._check_decision(made, sure, cut)
            if left and sure == len(made):
                self._fail(made[0], f"the code left out what the history has: {_shown(left[0])}")
            made, sure = left, 0
        return after

    def _check_decision(self, made: list[Event], sure: int, cut: bool) -> list[Event]:
        """Make the decision that wrote `made`, or the first of those that did; what is left. At
        least the first `sure` events are of it."""
        length = made[0]["event_id"] - 1
        starts = [event for event in made if event["type"] in STARTING]
        count = sum(event["type"] in STARTING for event in made[:sure])
        while new := _first_step(commands := self._decide(length, self._begun + count)):
            expected = starts[count] if count < len(starts) else None
            if expected is None and cut:
                break
            if expected is None or not _same_step(new, expected):
                has = "nothing there" if expected is None else _shown(expected)
                self._fail(made[0], f"the code issued {_issued(new)}, the history has {has}")
            count += 1
        self._begun += count
        ends = next((c for c in commands if c["type"] in CLOSING.values()), None)
        if ends and self._events[-1]["type"] not in _ENDINGS and not cut:
            self._fail(made[0], f"the code {told(ends)}, in the history the run goes on")
        cancels = [c["sequence"] for c in commands if c["type"] == "cancel_step"]
        left: list[Event] = []
        for event in made:
            if event["type"] in STARTING and count:
                count -= 1
            elif event["type"] == "StepCancelled" and event["sequence"] in cancels:
                cancels.remove(event["sequence"])
            elif event["type"] != "SearchAttributesUpserted":  # told by its marker
                left.append(event)
        if cancels and not cut:
            self._fail(made[0], f"the code cancelled sequence {cancels[0]}, the history did not")
        if len(left) == len(made):
            did = f"the code {told(ends)} and " if ends else "the code "
            self._fail(made[0], f"{did}left out what the history has: {_shown(left[0])}")
        return left

    def _check_end(self) -> None:
        """The run ends as the history does, and not before."""
        last = self._events[-1]
        ended_by_code = CLOSING.get(last["type"])
        closed = last["type"] in _ENDINGS
        commands = self._decide(len(self._events) - closed, self._begun)
        closing = [c for c in commands if c["type"] in CLOSING.values()]
        if last["type"] == "WorkflowCancelled" and not closing:
            return  # from outside, at once
        if ended_by_code is not None and [c["type"] for c in closing] != [ended_by_code]:
            did = told(closing[0]) if closing else "goes on"
            self._fail(last, f"the code {did}, the history has {last['type']}")
        if ended_by_code is not None and (extra := _first_step(commands)):
            self._fail(last, f"the code issued {_issued(extra)}, the history has {last['type']}")

    def _decide(self, length: int, begun: int) -> list[dict[str, Any]]:
        self._decisions += 1
        task = task_at(self._events, length, begun)
        body = decide(self._code.run, task, decode=self._code.decode)
        error = body.get("replay_error")
        if error and self._events[-1].get("error") != error:  # it failed the run then, too
            raise NondeterminismError(f"{error} (the decision after event {length})")
        commands: list[dict[str, Any]] = body["commands"]
        return commands

    def _fail(self, event: Event, what: str) -> NoReturn:
        raise NondeterminismError(
            f"nondeterministic workflow code: {what} (the decision of event {event['event_id']})"
        )


_MADE = frozenset({*STARTING, "StepCancelled", "SearchAttributesUpserted"})
_ENDINGS = frozenset({*CLOSING, "WorkflowTerminated", "WorkflowTimedOut"})


def _first_step(commands: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((command for command in commands if command["type"] in _KINDS), None)


def _same_step(command: Mapping[str, Any], event: Event) -> bool:
    return (
        _KINDS[command["type"]] == STARTING[event["type"]]
        and command["step_name"] == event["step_name"]
        and command.get("marker", "") == event.get("marker", "")
    )


def _issued(command: Mapping[str, Any]) -> str:
    kind = _KINDS[command["type"]]
    return f"{kind} {command['step_name']!r} (sequence {command['sequence']})"


def _shown(event: Event) -> str:
    if event["type"] == "StepCancelled":
        return f"sequence {event['sequence']} cancelled"
    return f"{STARTING[event['type']]} {event['step_name']!r} (sequence {event['sequence']})"
