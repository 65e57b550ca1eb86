"""The context of a `def` workflow: waiting is a call that returns with the result."""

from datetime import datetime
from typing import Any

from raftflow_sdk.payloads import Decode
from raftflow_sdk.replay.futures import All, First, Future, SignalOrTimeout, Step
from raftflow_sdk.replay.run import ParentClosePolicy, Run
from raftflow_sdk.retry import RetryPolicy


class Context(Run):
    """What a `def` workflow gets. Every call that waits is a durable step."""

    def activity(
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
    ) -> Any:
        """Run an activity and wait for its output; see `start_activity`."""
        return self.start_activity(
            name,
            input,
            retry=retry,
            start_to_close_timeout=start_to_close_timeout,
            schedule_to_close_timeout=schedule_to_close_timeout,
            schedule_to_start_timeout=schedule_to_start_timeout,
            task_queue=task_queue,
            priority=priority,
            decode=decode,
        ).result()

    def sleep(self, name: str, seconds: float) -> None:
        """Wait on a durable timer."""
        self.start_timer(name, seconds).result()

    def sleep_until(self, name: str, when: datetime) -> None:
        """Wait until a moment, on a durable timer."""
        self.start_timer_until(name, when).result()

    def wait_for_signal(
        self,
        name: str,
        signal_name: str,
        *,
        timeout: float | None = None,
        decode: Decode = "text",
    ) -> Any:
        """Wait for the oldest signal of that name which no earlier wait took; its payload.

        With `timeout` (seconds), `TimeoutError` when none came; a signal is never lost by that.
        """
        signal = self.start_signal_wait(name, signal_name, decode=decode)
        if timeout is None:
            return signal.result()
        timer = self.start_timer(f"{name}.timeout", timeout)
        assert isinstance(signal, Step)
        assert isinstance(timer, Step)
        return SignalOrTimeout(self._replay, signal, timer).result()

    def child(
        self,
        workflow_type: str,
        input: object = "",
        *,
        name: str | None = None,
        workflow_id: str | None = None,
        task_queue: str | None = None,
        parent_close_policy: ParentClosePolicy | None = None,
        decode: Decode = "text",
    ) -> Any:
        """Run a workflow and wait for its output; see `start_child`."""
        return self.start_child(
            workflow_type,
            input,
            name=name,
            workflow_id=workflow_id,
            task_queue=task_queue,
            parent_close_policy=parent_close_policy,
            decode=decode,
        ).result()

    def gather(self, *futures: Future[Any], return_exceptions: bool = False) -> list[Any]:
        """Wait for all; their results in this order.

        The failure that the history has first is raised at once, while the others go on; with
        `return_exceptions` failures stand among the results instead.
        """
        return All(self._replay, futures, return_exceptions=return_exceptions).result()

    def race(self, *futures: Future[Any], cancel_rest: bool = False) -> Future[Any]:
        """Wait for the first, in the order of the history, to succeed or fail: that future.

        `cancel_rest` cancels the others. When the first was cancelled, `CancelledFailure` is
        raised.
        """
        return First(self._replay, futures, cancel_rest=cancel_rest).result()
