"""The bookkeeping of one replay: which steps the code asked for, what the history has of them, and
what is new. Pure: no I/O, clock, thread or logging.

Workflow code runs from its first line each time. Every step it asks for is compared with the
history; those that the history does not know yet become commands. Results are given to the code
one by one, in the order of their events, and none before the code waits. That makes everything
the code can see a function of the events up to the last one it was given, whatever the history
has beyond, and so the same at every replay.
"""

import heapq
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from raftflow_sdk import payloads
from raftflow_sdk.errors import (
    ForeignAwait,
    NondeterminismError,
    ReplayError,
    SwallowedSuspension,
)
from raftflow_sdk.payloads import Decode
from raftflow_sdk.replay.cancellation import Cancellation
from raftflow_sdk.replay.clock import Clock
from raftflow_sdk.replay.futures import Future, Step

Command = dict[str, Any]

_STATUSES = frozenset({"SCHEDULED", "COMPLETED", "FAILED", "CANCELLED"})


class Suspended(BaseException):
    """Thrown through workflow code that has to wait; not an `Exception`, so that the
    `except Exception` of workflow code lets it pass."""


def told(closing: Command) -> str:
    """How the code ended; by which failure, if it is one."""
    error = closing.get("error")
    return f"issued {closing['type']}" + (f" ({error})" if error else "")


class Replay:
    """One replay of one workflow task."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self.task = task
        self.clock = Clock(task)
        self.cancellation = Cancellation(task)
        self.commands: list[Command] = []
        self._history: Sequence[Mapping[str, Any]] = task.get("steps") or []
        self._steps: list[Step | None] = []  # a marker has no future
        self._arrivals: list[tuple[int, int, Step]] = []
        self._turns = 0
        self._suspended_at: Future[Any] | None = None
        self._left = False
        self._leaving = Suspended()
        self._error: ReplayError | None = None
        self._thread = threading.get_ident()
        self.blocking = True
        """Whether code waits by calling (`def`) and not by `await`."""

    # ---- what the code asks for ------------------------------------------------------------------

    def issue(
        self, kind: str, command_type: str, name: str, fields: Command, decode: Decode = "bytes"
    ) -> Step:
        """The next step of the code: found in the history, or a new command."""
        self.check_running()
        recorded = self.next_recorded()
        sequence = len(self._steps) + 1
        if recorded is None:
            self._add(command_type, name, fields)
        elif (recorded["kind"], recorded["step_name"]) != (kind, name):
            self._diverged(f"issued {kind} {name!r}", recorded)
        step = Step(self, kind, name, sequence, recorded, decode)
        self._steps.append(step)
        if step.status not in _STATUSES:
            self.stop(ReplayError(f"{step} has status {step.status}, unknown to this SDK"))
        if recorded is not None and step.has_result:
            event_id = int(recorded.get("resolved_event_id") or 0)
            heapq.heappush(self._arrivals, (event_id, sequence, step))
        return step

    def next_recorded(self) -> Mapping[str, Any] | None:
        """What the history has at the place of the next step; None where it ends."""
        issued = len(self._steps)
        return self._history[issued] if issued < len(self._history) else None

    def marker(self, marker: str, name: str) -> bytes | None:
        """The data of that marker, if it is the next step of the history: then the code has
        passed it. The code never waits for a marker, so its event moves no clock."""
        recorded = self.next_recorded()
        if (
            recorded is None
            or recorded["kind"] != "MARKER"
            or (recorded.get("marker"), recorded["step_name"]) != (marker, name)
        ):
            return None
        self._steps.append(None)
        return payloads.get(recorded, "output")

    def record_marker(self, marker: str, name: str, make: Callable[[], object]) -> bytes:
        """A new marker, with the data that `make` makes; the history must end here."""
        recorded = self.next_recorded()
        if recorded is not None:
            self._diverged(f"recorded {marker} marker {name!r}", recorded)
        data = payloads.encode(make())
        fields: Command = {"marker": marker}
        payloads.put(fields, "data", data)
        self._add("record_marker", name, fields)
        self._steps.append(None)
        return data

    def cancel_step(self, step: Step, reason: str) -> None:
        self.check_running()
        if step.status == "CANCELLED":
            return
        command: Command = {
            "type": "cancel_step",
            "step_name": step.name,
            "sequence": step.sequence,
        }
        if reason:
            command["reason"] = reason
        self.commands.append(command)

    def _add(self, command_type: str, name: str, fields: Command) -> None:
        head = {"type": command_type, "step_name": name, "sequence": len(self._steps) + 1}
        self.commands.append({**head, **fields})

    # ---- what the code is told -------------------------------------------------------------------

    def next_turn(self) -> int:
        self._turns += 1
        return self._turns

    def advance(self) -> bool:
        """Give the code the next result in the order of events; False when there is none yet."""
        while self._arrivals and self.cancellation.shows(self._arrivals[0][0]):
            event_id, _, step = heapq.heappop(self._arrivals)
            if step.done:
                continue
            assert step.recorded is not None
            self.clock.reach(event_id, str(step.recorded.get("resolved_at") or ""))
            step.deliver()
            return True
        return False

    def wait(self, future: Future[Any]) -> None:
        """Settle a future, or leave the code: it waits for what has not happened yet."""
        self.check_running()
        if not self.blocking:
            self.stop(
                ForeignAwait(
                    "workflow code called result() of a future that is not done; "
                    "in an `async def` workflow `await` it"
                )
            )
        while not future.done:
            if not self.advance() and not self.cancellation.tell(self, [future]):
                self.suspend(future)

    # ---- leaving the code ------------------------------------------------------------------------

    def suspend(self, future: Future[Any]) -> NoReturn:
        """Leave the workflow code: it waits for this."""
        self._suspended_at = future
        raise self._leaving

    def stop(self, error: ReplayError) -> NoReturn:
        """Leave the workflow code for good; what it makes of that no longer matters."""
        self._error = self._error or error
        raise self._leaving

    def leave(self) -> None:
        """The decision is made: what code does on its way out is none."""
        self._left = True

    def check_running(self) -> None:
        if threading.get_ident() != self._thread:
            self.stop(
                NondeterminismError(
                    "nondeterministic workflow code: ctx was used from another thread; "
                    "workflow code is single-threaded"
                )
            )
        if self._left:
            raise self._leaving
        if self._suspended_at is None and self._error is None:
            return
        if not self._is_leaving():
            self.stop(self._swallowed("another step"))
        # Code that runs on the way out, such as a `finally`, is not a decision. It is left again;
        # the replay that has the result passes here in earnest.
        raise self._leaving

    def _is_leaving(self) -> bool:
        """Whether the suspension is still on its way up through the code."""
        handled = sys.exc_info()[1]
        while handled is not None and handled is not self._leaving:
            handled = handled.__context__
        return handled is not None

    def _swallowed(self, then: str) -> SwallowedSuspension:
        return SwallowedSuspension(
            f"workflow code caught its suspension at {self._where()} and went on to {then}; "
            "around ctx calls use `except Exception`, never a bare `except:`, "
            "`except BaseException` or a `return` in `finally`"
        )

    def _where(self) -> str:
        future = self._suspended_at
        steps: Iterable[Step] = future.pending_steps() if future is not None else ()
        return ", ".join(str(step) for step in steps) or "a coroutine"

    # ---- the decision ----------------------------------------------------------------------------

    def finish(self, closing: Command | None) -> list[Command]:
        """The commands of this decision, once the code was left (None) or has ended."""
        if self._error is not None:
            raise self._error
        if closing is not None and self._suspended_at is not None:
            raise self._swallowed(closing["type"])
        did = told(closing) if closing else f"waits at {self._where()}"
        missing = self.next_recorded()
        if missing is not None:
            raise self._divergence(did, missing)
        for step in self._steps:
            if step is not None and step.status == "CANCELLED" and not step.done:
                raise NondeterminismError(
                    f"nondeterministic workflow code at sequence {step.sequence}: the code {did}, "
                    f"the history has {step.kind} {step.name!r} cancelled by the code"
                )
        if closing is None:
            return self.commands
        if not self.blocking and closing["type"] == "complete_workflow":
            self._warn_of_forgotten()
        return [*self.commands, closing]

    def _warn_of_forgotten(self) -> None:
        """The run ends before a step that no coroutine waited for, and takes it along. A child may
        outlive it."""
        for step in self._steps:
            if step is None or step.observed or step.done or step.has_result:
                continue
            if step.kind != "CHILD":
                warnings.warn(
                    f"a {self.task['workflow_type']} run ended before {step}, which it never "
                    "awaited: is an `await` missing?",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def _diverged(self, did: str, recorded: Mapping[str, Any]) -> NoReturn:
        self.stop(self._divergence(did, recorded))

    def _divergence(self, did: str, recorded: Mapping[str, Any]) -> NondeterminismError:
        kind = recorded["kind"]
        if kind == "MARKER":
            kind = f"{recorded.get('marker')} marker"
        return NondeterminismError(
            f"nondeterministic workflow code at sequence {len(self._steps) + 1}: the code {did}, "
            f"the history has {kind} {recorded['step_name']!r}"
        )
