"""The context of an `async def` workflow: the same calls, whose futures are awaited."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from raftflow_sdk.payloads import Decode
from raftflow_sdk.replay.core import Replay
from raftflow_sdk.replay.driver import Driver
from raftflow_sdk.replay.futures import All, First, Future, SignalOrTimeout, Step
from raftflow_sdk.replay.run import Run

T = TypeVar("T")


class AsyncContext(Run):
    """What an `async def` workflow gets. A call starts its step; `await` waits for the result."""

    def __init__(self, replay: Replay, decode: Decode, driver: Driver) -> None:
        super().__init__(replay, decode)
        self._driver = driver

    # What waits in a `def` workflow starts here, and is awaited when the code wants the result.
    activity = Run.start_activity
    sleep = Run.start_timer
    sleep_until = Run.start_timer_until
    child = Run.start_child

    def wait_for_signal(
        self,
        name: str,
        signal_name: str,
        *,
        timeout: float | None = None,
        decode: Decode = "text",
    ) -> Future[Any]:
        """The oldest signal of that name which no earlier wait took; its payload.

        With `timeout` (seconds), `TimeoutError` when none came; a signal is never lost by that.
        """
        signal = self.start_signal_wait(name, signal_name, decode=decode)
        if timeout is None:
            return signal
        timer = self.start_timer(f"{name}.timeout", timeout)
        assert isinstance(signal, Step)
        assert isinstance(timer, Step)
        return SignalOrTimeout(self._replay, signal, timer)

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine beside this one; it begins when this one waits.

        Its failure is raised where it is awaited. One that nobody awaited fails the run when the
        main coroutine returns; coroutines that still run then are left.
        """
        self._replay.check_running()
        return self._driver.spawn(coroutine)

    def gather(
        self, *awaited: Future[Any] | Coroutine[Any, Any, Any], return_exceptions: bool = False
    ) -> Future[list[Any]]:
        """All results, in this order; coroutines are spawned.

        The failure that comes first is raised at once, while the others go on; with
        `return_exceptions` failures stand among the results instead.
        """
        return All(self._replay, self._futures(awaited), return_exceptions=return_exceptions)

    def race(
        self, *awaited: Future[Any] | Coroutine[Any, Any, Any], cancel_rest: bool = False
    ) -> Future[Future[Any]]:
        """The first, in the order of the history, to succeed or fail; coroutines are spawned.

        `cancel_rest` cancels the others. When the first was cancelled, `CancelledFailure` is
        raised.
        """
        return First(self._replay, self._futures(awaited), cancel_rest=cancel_rest)

    def _futures(
        self, awaited: tuple[Future[Any] | Coroutine[Any, Any, Any], ...]
    ) -> list[Future[Any]]:
        return [each if isinstance(each, Future) else self.spawn(each) for each in awaited]
