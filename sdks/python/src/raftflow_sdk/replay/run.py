"""What workflow code sees of its run, and what it may do without waiting; `def` or `async def`."""

import random
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, NoReturn

from raftflow_sdk import payloads
from raftflow_sdk.payloads import Decode
from raftflow_sdk.replay.core import Command, Replay
from raftflow_sdk.replay.futures import Future
from raftflow_sdk.replay.markers import Markers
from raftflow_sdk.retry import RetryPolicy, to_ms

ParentClosePolicy = Literal["TERMINATE", "REQUEST_CANCEL", "ABANDON"]


class ContinueAsNew(BaseException):
    """Thrown through workflow code that goes on in a new run; `finally` blocks still count."""

    def __init__(self, command: Command) -> None:
        super().__init__()
        self.command = command


class Run:
    """The part of the context that both kinds of workflow share."""

    def __init__(self, replay: Replay, decode: Decode) -> None:
        self._replay = replay
        self._decode = decode
        self._markers = Markers(replay)

    # ---- who and when ----------------------------------------------------------------------------

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

    @property
    def traceparent(self) -> str:
        """The W3C trace context that the run was started with; "" without one."""
        return str(self._replay.task.get("traceparent") or "")

    def now(self) -> datetime:
        """The cluster's time (UTC) of the last result that the code was given."""
        return self._replay.clock.now()

    def random(self) -> random.Random:
        """The run's own `random.Random`, the same at every replay: `ctx.random().randint(1, 6)`."""
        return self._replay.clock.random()

    def uuid(self) -> str:
        """A new id: the same at every replay."""
        return self._replay.clock.uuid()

    @property
    def cancel_requested(self) -> bool:
        """Whether the code was told that the run shall cancel, or was given a result that is
        younger than the request. Waiting raises `CancelledFailure` once."""
        return self._replay.cancellation.known_at(self._replay.clock.position)

    @property
    def cancel_reason(self) -> str:
        """What the request to cancel said; "" before the code may know of it."""
        return self._replay.cancellation.reason if self.cancel_requested else ""

    # ---- what the history remembers --------------------------------------------------------------

    def version(self, change_id: str, minimum: int, maximum: int) -> int:
        """Which version of a change to the code this run follows.

        `maximum` for a run that comes here first with this code; `DEFAULT_VERSION` for one that
        passed the place before the change existed; the same for ever for any one run.
        """
        return self._markers.version(change_id, minimum, maximum)

    def side_effect(
        self, name: str, function: Callable[[], object], *, decode: Decode = "text"
    ) -> Any:
        """The value of a quick function that may answer differently each time, asked once.

        The history keeps its payload: without `decode="json"` the 5 that it returns is read as "5".
        It runs in the decision, without retries: anything that can fail or wait is an activity.
        """
        return self._markers.side_effect(name, function, decode)

    def upsert_search_attributes(self, attributes: Mapping[str, object]) -> None:
        """Set what the run is found by: strings, numbers, booleans; None removes one."""
        self._markers.upsert_search_attributes(attributes)

    # ---- going on in a new run -------------------------------------------------------------------

    @property
    def continue_as_new_suggested(self) -> bool:
        """Whether the history has become long enough to go on in a new run."""
        return self._markers.continue_as_new_suggested()

    def continue_as_new(
        self,
        input: object = "",
        *,
        workflow_type: str | None = None,
        task_queue: str | None = None,
        execution_timeout: float | None = None,
    ) -> NoReturn:
        """End this run and go on in a fresh one of the same id. Untaken signals are not carried
        over."""
        self._replay.check_running()
        command: Command = {"type": "continue_as_new"}
        payloads.put(command, "input", input)
        if workflow_type is not None:
            command["workflow_type"] = workflow_type
        if task_queue is not None:
            command["task_queue"] = task_queue
        if execution_timeout is not None:
            command["execution_timeout_ms"] = to_ms("execution_timeout", execution_timeout)
        raise ContinueAsNew(command)

    # ---- starting steps --------------------------------------------------------------------------

    def start_activity(
        self,
        name: str,
        input: object = "",
        *,
        retry: RetryPolicy | None = None,
        start_to_close_timeout: float | None = None,
        schedule_to_close_timeout: float | None = None,
        schedule_to_start_timeout: float | None = None,
        task_queue: str | None = None,
        priority: int | None = None,
        decode: Decode = "text",
    ) -> Future[Any]:
        """Run an activity; its output, or `ActivityFailure` once the retry policy is exhausted.

        Timeouts are seconds. Without `retry` the server's configuration for the activity decides,
        which is one attempt unless it says otherwise. `priority` 1 is handed out first, 5 last; 3
        is the usual one.
        """
        fields: Command = {}
        payloads.put(fields, "input", input)
        if retry is not None:
            fields["retry_policy"] = retry.to_wire()
        timeouts = {
            "start_to_close_timeout": start_to_close_timeout,
            "schedule_to_close_timeout": schedule_to_close_timeout,
            "schedule_to_start_timeout": schedule_to_start_timeout,
        }
        for field, seconds in timeouts.items():
            if seconds is not None:
                fields[f"{field}_ms"] = to_ms(field, seconds)
        if task_queue is not None:
            fields["task_queue"] = task_queue
        if priority is not None:
            fields["priority"] = priority
        return self._replay.issue("ACTIVITY", "schedule_activity", name, fields, decode)

    def start_timer(self, name: str, seconds: float) -> Future[None]:
        """A durable timer."""
        delay_ms = to_ms(f"timer {name!r}", seconds)
        if seconds < 0:
            raise ValueError(f"cannot sleep {seconds} seconds")
        return self._replay.issue("TIMER", "start_timer", name, {"delay_ms": delay_ms})

    def start_timer_until(self, name: str, when: datetime) -> Future[None]:
        """A durable timer that fires at a moment, at once if it has passed."""
        if when.tzinfo is None:
            raise ValueError(f"{when} has no time zone: use datetime.now(UTC) or ctx.now()")
        return self.start_timer(name, max(0.0, (when - self.now()).total_seconds()))

    def start_signal_wait(
        self, name: str, signal_name: str, *, decode: Decode = "text"
    ) -> Future[Any]:
        """Wait for the oldest signal of that name which no earlier wait took; its payload."""
        fields = {"signal_name": signal_name}
        return self._replay.issue("SIGNAL", "await_signal", name, fields, decode)

    def start_child(
        self,
        workflow_type: str,
        input: object = "",
        *,
        name: str | None = None,
        workflow_id: str | None = None,
        task_queue: str | None = None,
        parent_close_policy: ParentClosePolicy | None = None,
        decode: Decode = "text",
    ) -> Future[Any]:
        """Start a workflow and wait for its output; `ChildFailure` when it ends otherwise.

        The step is named `name`, or like the type. Without `workflow_id` the id is made of this
        run's and the step's number. What becomes of the child when this run ends first says
        `parent_close_policy`; it is terminated unless told otherwise.
        """
        fields: Command = {"workflow_type": workflow_type}
        payloads.put(fields, "input", input)
        optional = {
            "workflow_id": workflow_id,
            "task_queue": task_queue,
            "parent_close_policy": parent_close_policy,
        }
        fields.update({key: value for key, value in optional.items() if value is not None})
        step_name = name or workflow_type
        return self._replay.issue("CHILD", "start_child_workflow", step_name, fields, decode)
