"""A workflow task in, the decision out: runs the code and says what becomes of the run."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raftflow_sdk import payloads
from raftflow_sdk.errors import (
    ActivityFailure,
    CancelledFailure,
    ChildFailure,
    ReplayError,
    WorkflowFailure,
)
from raftflow_sdk.payloads import Decode
from raftflow_sdk.replay.async_context import AsyncContext
from raftflow_sdk.replay.context import Context
from raftflow_sdk.replay.core import Command, Replay, Suspended
from raftflow_sdk.replay.driver import Driver
from raftflow_sdk.replay.run import ContinueAsNew

Workflow = Callable[[Any], object]
"""`def code(ctx: Context)` or `async def code(ctx: AsyncContext)`."""


@dataclass(frozen=True, slots=True)
class WorkflowCode:
    """Workflow code, with how it wants its input read."""

    run: Workflow
    decode: Decode

    @classmethod
    def of(cls, code: "Workflow | WorkflowCode", decode: Decode | None = None) -> "WorkflowCode":
        """`decode`, when given, overrules what the code itself wants."""
        if isinstance(code, WorkflowCode):
            return cls(code.run, decode or code.decode)
        return cls(code, decode or payloads.noted_decode(code))


_PACKAGE = str(Path(__file__).parents[1])


def is_async(code: Callable[..., object]) -> bool:
    """Whether calling it gives a coroutine; also of an object with `async def __call__`."""
    called = getattr(code, "__call__", None)  # noqa: B004 - the method itself is looked at
    return inspect.iscoroutinefunction(code) or inspect.iscoroutinefunction(called)


def decide(
    workflow: Workflow, task: Mapping[str, Any], *, decode: Decode | None = None
) -> dict[str, Any]:
    """Replay a workflow task; the body of its `POST /api/workflow-tasks/complete`.

    Without `decode` the input is read as the decorator of the code said, else as text.
    """
    decode = decode or payloads.noted_decode(workflow)
    replay = Replay(task)
    body = {"workflow_id": task["workflow_id"], "task_token": task["task_token"]}
    try:
        return body | {"commands": replay.finish(_run(workflow, replay, decode))}
    except ReplayError as err:
        error = {"commands": [], "replay_error": str(err)}
        return body | error | ({"replay_error_kind": "nondeterminism"} if err.parks else {})


def _run(workflow: Workflow, replay: Replay, decode: Decode) -> Command | None:
    """Run the code: the command that closes the run, or None when it was left."""
    try:
        closing: Command = {"type": "complete_workflow"}
        payloads.put(closing, "output", _call(workflow, replay, decode))
        return closing
    except Suspended:
        return None
    except (KeyboardInterrupt, ReplayError):
        raise
    except ContinueAsNew as goes_on:
        return goes_on.command
    except CancelledFailure as err:
        failed = _failed(str(err), err.error_type)
        asked = replay.cancellation.known_at(replay.clock.position)
        return failed | {"cancelled": True} if asked else failed
    except WorkflowFailure as err:
        return _failed(str(err), err.error_type)
    except ActivityFailure as err:
        where = f"activity {err.step_name!r} failed: " if err.step_name else ""
        return _failed(f"{where}{err}", err.error_type)
    except ChildFailure as err:
        return _failed(f"child {err.step_name!r} failed: {err}", err.error_type)
    except BaseException as err:  # noqa: BLE001 - whatever user code throws, SystemExit too
        return _failed(f"{type(err).__name__}: {err}{_place(err)}", type(err).__name__)


def _call(workflow: Workflow, replay: Replay, decode: Decode) -> object:
    if not is_async(workflow):
        return workflow(Context(replay, decode))
    replay.blocking = False
    driver = Driver(replay)
    coroutine: Any = workflow(AsyncContext(replay, decode, driver))
    return driver.run(coroutine)


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
