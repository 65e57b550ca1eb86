"""Replay: a workflow task in, the next decision out. Pure: no I/O, clock, thread or logging.

Workflow code runs from its first line each time. Every step it asks for is compared with the
history: a step with a result gives it back at once; the first one without suspends the code, and
the steps that the history does not know yet become commands. Steps are futures inside, so that
several can be in flight in one run; the sequential calls of `Context` start one and wait for it.
"""

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from raftflow_sdk import payloads
from raftflow_sdk.errors import (
    ActivityFailure,
    NondeterminismError,
    ReplayError,
    SwallowedSuspension,
    WorkflowFailure,
)
from raftflow_sdk.payloads import Decode
from raftflow_sdk.retry import RetryPolicy, to_ms

Command = dict[str, Any]
Workflow = Callable[["Context"], object]

_PACKAGE = __file__.removesuffix("replay.py")


class Suspended(BaseException):
    """Thrown through workflow code that has to wait; not an `Exception`, so that the
    `except Exception` of workflow code lets it pass."""


class Step:
    """One step of a run: a future whose result is in the history or is still to come."""

    __slots__ = ("_recorded", "_replay", "kind", "name", "sequence")

    def __init__(
        self,
        replay: "Replay",
        kind: str,
        name: str,
        sequence: int,
        recorded: Mapping[str, Any] | None,
    ) -> None:
        self._replay = replay
        self._recorded = recorded
        self.kind = kind
        self.name = name
        self.sequence = sequence

    def __str__(self) -> str:
        return f"step {self.name!r} (sequence {self.sequence})"

    def result(self) -> bytes:
        """The output; raises what the step failed with, suspends while it has no result."""
        recorded = self._recorded
        status = "SCHEDULED" if recorded is None else recorded["status"]
        if recorded is None or status == "SCHEDULED":
            self._replay.suspend(self)
        if status == "COMPLETED":
            return payloads.get(recorded, "output")
        if status == "FAILED":
            raise ActivityFailure(
                recorded.get("error", ""),
                error_type=recorded.get("error_type", ""),
                non_retryable=bool(recorded.get("non_retryable")),
                step_name=self.name,
                attempts=int(recorded.get("attempts", 0)),
            )
        return self._replay.stop(ReplayError(f"{self} has status {status}, unknown to this SDK"))


class Replay:
    """The bookkeeping of one replay: which steps the code asked for and what is new."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self.task = task
        self._history: list[dict[str, Any]] = task.get("steps") or []
        self._issued = 0
        self._commands: list[Command] = []
        self._suspended_at: Step | None = None
        self._leaving = Suspended()
        self._error: ReplayError | None = None
        self._thread = threading.get_ident()

    def issue(self, kind: str, command_type: str, name: str, fields: Command) -> Step:
        """The next step of the code: found in the history, or a new command."""
        self._check_running()
        sequence = self._issued + 1
        recorded = self._history[sequence - 1] if sequence <= len(self._history) else None
        if recorded is None:
            self._commands.append(
                {"type": command_type, "step_name": name, "sequence": sequence, **fields}
            )
        elif (recorded["kind"], recorded["step_name"]) != (kind, name):
            self.stop(
                NondeterminismError(
                    f"nondeterministic workflow code at sequence {sequence}: the code issued "
                    f"{kind} {name!r}, the history has {recorded['kind']} "
                    f"{recorded['step_name']!r}"
                )
            )
        self._issued = sequence
        return Step(self, kind, name, sequence, recorded)

    def suspend(self, step: Step) -> NoReturn:
        """Leave the workflow code: it waits for this step."""
        self._check_running()
        self._suspended_at = step
        raise self._leaving

    def stop(self, error: ReplayError) -> NoReturn:
        """Leave the workflow code for good; what it makes of that no longer matters."""
        self._error = self._error or error
        raise self._leaving

    def _check_running(self) -> None:
        if threading.get_ident() != self._thread:
            self.stop(
                NondeterminismError(
                    "nondeterministic workflow code: ctx was used from another thread; "
                    "workflow code is single-threaded"
                )
            )
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
            f"workflow code caught its suspension at {self._suspended_at} and went on to {then}; "
            "around ctx calls use `except Exception`, never a bare `except:`, "
            "`except BaseException` or a `return` in `finally`"
        )

    def finish(self, closing: Command | None) -> list[Command]:
        """The commands of this decision, once the code was left (None) or has ended."""
        if self._error is not None:
            raise self._error
        if closing is not None and self._suspended_at is not None:
            raise self._swallowed(closing["type"])
        if self._issued < len(self._history):
            missing = self._history[self._issued]
            did = f"issued {closing['type']}" if closing else f"waits at {self._suspended_at}"
            raise NondeterminismError(
                f"nondeterministic workflow code at sequence {self._issued + 1}: the code {did}, "
                f"the history has {missing['kind']} {missing['step_name']!r}"
            )
        return self._commands if closing is None else [*self._commands, closing]


class Context:
    """What workflow code sees of its run. Every call is a durable step."""

    def __init__(self, replay: Replay, decode: Decode) -> None:
        self._replay = replay
        self._decode = decode

    @property
    def input(self) -> Any:
        """What the run was started with."""
        return payloads.decode(payloads.get(self._replay.task, "input"), self._decode)

    @property
    def workflow_id(self) -> str:
        return str(self._replay.task["workflow_id"])

    @property
    def run_id(self) -> str:
        return str(self._replay.task["run_id"])

    @property
    def workflow_type(self) -> str:
        return str(self._replay.task["workflow_type"])

    def activity(
        self,
        name: str,
        input: object = "",
        *,
        retry: RetryPolicy | None = None,
        start_to_close_timeout: float | None = None,
        schedule_to_close_timeout: float | None = None,
        schedule_to_start_timeout: float | None = None,
        decode: Decode = "text",
    ) -> Any:
        """Run an activity and wait for its output. Timeouts are seconds.

        Raises `ActivityFailure` once the retry policy is exhausted. Without `retry` the server's
        configuration for the activity decides, which is one attempt unless it says otherwise.
        """
        fields: Command = {}
        payloads.put(fields, "input", input)
        if retry is not None:
            fields["retry_policy"] = retry.to_wire()
        timeouts = {
            "start_to_close_timeout_ms": start_to_close_timeout,
            "schedule_to_close_timeout_ms": schedule_to_close_timeout,
            "schedule_to_start_timeout_ms": schedule_to_start_timeout,
        }
        for field, seconds in timeouts.items():
            if seconds is not None:
                fields[field] = to_ms(seconds)
        step = self._replay.issue("ACTIVITY", "schedule_activity", name, fields)
        return payloads.decode(step.result(), decode)

    def sleep(self, name: str, seconds: float) -> None:
        """Wait on a durable timer."""
        if seconds < 0:
            raise ValueError(f"cannot sleep {seconds} seconds")
        fields = {"delay_ms": to_ms(seconds)}
        self._replay.issue("TIMER", "start_timer", name, fields).result()

    def wait_for_signal(self, name: str, signal_name: str, *, decode: Decode = "text") -> Any:
        """Wait for the oldest signal of that name which no earlier wait took; its payload."""
        fields = {"signal_name": signal_name}
        step = self._replay.issue("SIGNAL", "await_signal", name, fields)
        return payloads.decode(step.result(), decode)


def decide(
    workflow: Workflow, task: Mapping[str, Any], *, decode: Decode = "text"
) -> dict[str, Any]:
    """Replay a workflow task; the body of its `POST /api/workflow-tasks/complete`."""
    replay = Replay(task)
    body = {"workflow_id": task["workflow_id"], "task_token": task["task_token"]}
    try:
        return body | {"commands": replay.finish(_run(workflow, Context(replay, decode)))}
    except NondeterminismError as err:
        return body | {
            "commands": [],
            "replay_error": str(err),
            "replay_error_kind": "nondeterminism",
        }
    except ReplayError as err:
        return body | {"commands": [], "replay_error": str(err)}


def _run(workflow: Workflow, ctx: Context) -> Command | None:
    """Run the code: the command that closes the run, or None when it was left."""
    try:
        closing: Command = {"type": "complete_workflow"}
        payloads.put(closing, "output", workflow(ctx))
        return closing
    except Suspended:
        return None
    except KeyboardInterrupt:
        raise
    except WorkflowFailure as err:
        return _failed(str(err), err.error_type)
    except ActivityFailure as err:
        return _failed(f"activity {err.step_name!r} failed: {err}", err.error_type)
    except BaseException as err:  # noqa: BLE001 - whatever user code throws, SystemExit too
        return _failed(f"{type(err).__name__}: {err}{_place(err)}", type(err).__name__)


def _failed(error: str, error_type: str) -> Command:
    # A message may hold lone surrogates (file names do), which no UTF-8 can carry.
    text = error.encode(errors="replace").decode() or error_type
    return {"type": "fail_workflow", "error": text, "error_type": error_type}


def _place(err: BaseException) -> str:
    """Where an unforeseen exception came from; found without reading source files."""
    place = ""
    traceback = err.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            name = code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
            place = f" ({name}:{traceback.tb_lineno} in {code.co_name})"
        traceback = traceback.tb_next
    return place
