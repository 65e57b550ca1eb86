"""Runs the coroutines of an `async def` workflow without an event loop.

Each coroutine runs until it waits; when all of them wait, the next result of the history is given
to whoever waits for it. The order is that of the history, never that of a scheduler.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from raftflow_sdk.errors import BlockedForever, CancelledFailure, ForeignAwait
from raftflow_sdk.replay.core import Replay, Suspended
from raftflow_sdk.replay.futures import Future, Step, belongs
from raftflow_sdk.replay.run import ContinueAsNew

T = TypeVar("T")

_CURE = (
    "a run has no event loop, its time is that of its history: use ctx.sleep, ctx.gather, ctx.race "
    "and ctx.spawn, and await only what ctx gives"
)


class Task(Future[T]):
    """A coroutine beside others; settled when it ends."""

    def __init__(
        self,
        replay: Replay,
        coroutine: Coroutine[Any, Any, T],
        ready: Callable[["Task[Any]"], None],
    ) -> None:
        super().__init__(replay)
        self._coroutine = coroutine
        self._ready = ready
        self._interrupt: CancelledFailure | None = None
        self._cancelling = False
        self.waiting: Future[Any] | None = None

    def cancel(self, reason: str = "") -> None:
        """Cancel what the coroutine waits for: there it sees `CancelledFailure`."""
        if self.done or self._cancelling:
            return
        if self.waiting is None:
            self._interrupt = CancelledFailure(reason)
            return
        self._cancelling = True  # coroutines that wait for one another are cancelled once
        self.waiting.cancel(reason)
        self._cancelling = False

    def pending_steps(self) -> Iterator[Step]:
        return iter(())  # what its coroutine waits for is that coroutine's wait

    def resume(self) -> object:
        """Run it until it waits: what it waits for. None once it has ended."""
        interrupt, self._interrupt = self._interrupt, None
        try:
            if interrupt is not None:
                return self._coroutine.throw(interrupt)
            return self._coroutine.send(None)
        except StopIteration as end:
            self.settle(end.value)
        except (Suspended, ContinueAsNew, KeyboardInterrupt):
            raise
        except BaseException as err:  # noqa: BLE001 - whatever user code throws is its result
            self.settle(error=err)
        return None

    def wait(self, awaited: Future[Any]) -> None:
        self.waiting = awaited
        awaited.when_done(self._wake)
        if self._interrupt is not None:  # it cancelled itself
            reason, self._interrupt = self._interrupt.reason, None
            self.cancel(reason)

    def _wake(self) -> None:
        self.waiting = None
        self._ready(self)

    def close(self) -> None:
        """Leave the coroutine for this time."""
        try:
            self._coroutine.close()
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - what code does on its way out is no decision
            pass


class Driver:
    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._ready: deque[Task[Any]] = deque()
        self._tasks: list[Task[Any]] = []

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Task[T]:
        if not inspect.iscoroutine(coroutine):
            raise TypeError(f"spawn takes a coroutine, the call of an `async def`: {coroutine!r}")
        task = Task(self._replay, coroutine, self._ready.append)
        self._tasks.append(task)
        self._ready.append(task)
        return task

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of the main coroutine; leaves by `Suspended` while there is none yet."""
        main = self.spawn(coroutine)
        try:
            with _without_event_loop(self._replay):
                while not main.done:
                    self._step(main)
            if main.failure is None:
                self._raise_lost()
            return main.take()
        finally:
            self._replay.leave()
            for task in self._tasks:
                if not task.done:
                    task.close()

    def _raise_lost(self) -> None:
        """A failure at which nobody looked: better a failed run than one that nobody ever sees."""
        for task in self._tasks:
            lost = None if task.observed else task.failure
            if lost is not None and not isinstance(lost, CancelledFailure):
                raise lost

    def _step(self, main: Task[Any]) -> None:
        if self._ready:
            task = self._ready.popleft()
            awaited = task.resume()
            if not task.done:
                task.wait(self._checked(awaited))
            return
        if self._replay.advance():
            return
        waits = [task.waiting for task in self._tasks if task.waiting is not None]
        if self._replay.cancellation.tell(self._replay, waits):
            return
        if not any(True for wait in waits for _ in wait.pending_steps()):
            self._replay.stop(
                BlockedForever("the coroutines of the workflow wait for one another, for no step")
            )
        self._replay.suspend(main if main.waiting is None else main.waiting)

    def _checked(self, awaited: object) -> Future[Any]:
        if isinstance(awaited, Future) and belongs(awaited, self._replay):
            return awaited
        what = "asyncio.sleep(0) or the like" if awaited is None else repr(awaited)
        return self._replay.stop(ForeignAwait(f"workflow code awaited {what}; {_CURE}"))


class _NoLoop:
    """Stands where asyncio looks for the running loop, to say why there is none."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse(f"loop.{name}")

    def __hash__(self) -> int:
        return self._refuse("current_task")

    def _refuse(self, what: str) -> NoReturn:
        self._replay.stop(ForeignAwait(f"workflow code called asyncio ({what}); {_CURE}"))


@contextmanager
def _without_event_loop(replay: Replay) -> Iterator[None]:
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(_NoLoop(replay))  # type: ignore[arg-type]
    try:
        yield
    finally:
        asyncio._set_running_loop(before)
