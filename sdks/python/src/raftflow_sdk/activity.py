"""Activities: the code that may do anything, and what it may know of its own execution."""

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from raftflow_sdk import payloads
from raftflow_sdk.errors import ActivityFailure, PayloadError
from raftflow_sdk.payloads import Decode
from raftflow_sdk.retry import to_ms

logger = logging.getLogger("raftflow_sdk")

_LONGEST_ERROR = 8192


class ActivityInfo:
    """What an activity may know of its own execution; the optional second argument of its code.

    `lease_lost` is set once the result can no longer count: another worker may run the step.
    `cancelled` is set as well when the run does not want the work any more. Code of an
    `async def` is cancelled then, as asyncio does it.
    """

    def __init__(self, task: dict[str, Any], hasten: Callable[["ActivityInfo"], None]) -> None:
        self.workflow_id: str = task["workflow_id"]
        self.run_id: str = task["run_id"]
        self.workflow_type: str = task.get("workflow_type", "")
        self.step_name: str = task["step_name"]
        self.sequence: int = task["sequence"]
        self.attempt: int = task["attempt"]
        self.heartbeat_details: bytes = payloads.get(task, "heartbeat_details")
        self.start_to_close_timeout: float | None = _seconds(task, "start_to_close_timeout_ms")
        self.traceparent: str = task.get("traceparent", "")
        self.tracestate: str = task.get("tracestate", "")
        self.lease_lost = threading.Event()
        self.cancelled = threading.Event()
        self._hasten = hasten
        self._details: bytes | None = None
        self._when_lost: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this step and for no other: for the calls it makes."""
        return f"{self.run_id}/{self.sequence}"

    def heartbeat(self, details: object) -> None:
        """Report progress: the next attempt finds it in `heartbeat_details`.

        The worker keeps the lease by itself; code needs this for the details only.
        """
        encoded = payloads.encode(details)
        with self._lock:
            self._details = encoded
        self._hasten(self)

    def take_details(self) -> bytes | None:
        """What was reported since the last beat."""
        with self._lock:
            details, self._details = self._details, None
        return details

    def put_back_details(self, details: bytes | None) -> None:
        """The beat did not arrive; what was reported meanwhile is newer."""
        with self._lock:
            if self._details is None:
                self._details = details

    def lose(self, *, cancelled: bool) -> None:
        """The lease is gone: tell the code. Called by the worker."""
        if cancelled:
            self.cancelled.set()
        with self._lock:
            self.lease_lost.set()
            callbacks, self._when_lost = self._when_lost, []
        for callback in callbacks:
            callback()

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call back, from some thread, once the lease is lost; at once if it is."""
        with self._lock:
            if not self.lease_lost.is_set():
                self._when_lost.append(callback)
                return
        callback()


@dataclass(frozen=True, slots=True)
class ActivityCode:
    """Registered code, with how it wants to be called."""

    run: Callable[..., object]
    decode: Decode
    wants_info: bool

    @classmethod
    def of(cls, code: Callable[..., object], decode: Decode, what: str) -> "ActivityCode":
        wants_info = _takes_info(code)
        check_code(code, what, "input", *(["info"] if wants_info else []))
        return cls(code, decode, wants_info)

    def execute(self, task: dict[str, Any], info: ActivityInfo) -> dict[str, Any]:
        """Run it: the outcome fields of a completion."""
        outcome: dict[str, Any] = {}
        try:
            value = payloads.decode(payloads.get(task, "input"), self.decode)
            result = self.run(value, info) if self.wants_info else self.run(value)
            if inspect.iscoroutine(result):
                result = asyncio.run(_until_lost(result, info))
            payloads.put(outcome, "output", result)
            return outcome
        except ActivityFailure as err:
            logger.info("activity %s attempt %d failed: %s", info.step_name, info.attempt, err)
            return _failed(err)
        except PayloadError as err:
            return failure(str(err), "PayloadError", non_retryable=True)
        except BaseException as err:
            name = type(err).__name__
            if not info.lease_lost.is_set():  # else it was told to stop, and nobody will know
                what = (info.step_name, info.attempt, info.workflow_id)
                logger.warning("activity %s attempt %d raised, workflow %s", *what, exc_info=True)
            # str(KeyError("sku")) alone would tell nobody what went wrong.
            return failure(f"{name}: {err}" if str(err) else name, name, non_retryable=False)


async def _until_lost(coroutine: Coroutine[Any, Any, object], info: ActivityInfo) -> object:
    """Its result; it is cancelled when the lease is lost."""
    loop, running = asyncio.get_running_loop(), asyncio.current_task()
    assert running is not None
    ended = False

    def cancel() -> None:
        if not ended:
            running.cancel("the lease is lost")

    def from_any_thread() -> None:
        try:
            loop.call_soon_threadsafe(cancel)
        except RuntimeError:
            pass  # the loop is closed: the code has just ended

    info.when_lost(from_any_thread)
    try:
        return await coroutine
    finally:
        ended = True


def failure(error: str, error_type: str, *, non_retryable: bool) -> dict[str, Any]:
    text = error.encode(errors="replace").decode()[:_LONGEST_ERROR] or error_type
    fields: dict[str, Any] = {"error": text, "error_type": error_type}
    if non_retryable:
        fields["non_retryable"] = True
    return fields


def _failed(err: ActivityFailure) -> dict[str, Any]:
    fields = failure(str(err), err.error_type, non_retryable=err.non_retryable)
    if err.next_retry_delay is not None:
        fields["next_retry_delay_ms"] = max(0, to_ms("next_retry_delay", err.next_retry_delay))
    return fields


def check_code(code: Callable[..., object], what: str, *arguments: str) -> None:
    """Refuse, when it is registered, what could not be called."""
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise TypeError(f"{what} must be a plain function, `def` or `async def`, without `yield`")
    try:
        inspect.signature(code).bind(*arguments)
    except TypeError as err:
        raise TypeError(f"{what} is called with ({', '.join(arguments)}): {err}") from None


def _takes_info(code: Callable[..., object]) -> bool:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(code).parameters.values()
    # One with a default is the code's own: `lambda text, name=name: ...`.
    required = [each for each in parameters if each.default is inspect.Parameter.empty]
    return sum(each.kind in positional for each in required) >= 2


def _seconds(task: dict[str, Any], field: str) -> float | None:
    ms = task.get(field)
    return None if not ms else ms / 1000
