"""An event loop on simulated time, one a process: what dies with the process is never run again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from tests.sim.clock import Clock

Later = Callable[[float, Callable[[], None]], None]

_ROUNDS_OF_DYING = 20


class SimLoop(asyncio.AbstractEventLoop):
    """As much of a loop as futures, tasks and timeouts ask of one. `later` runs a function after
    so many simulated seconds, if its process still lives."""

    def __init__(self, clock: Clock, later: Later) -> None:
        self._clock = clock
        self._later = later
        self._ready: deque[asyncio.Handle] = deque()
        self._scheduled = False
        self._dead = False
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in order, and never only weakly held

    def time(self) -> float:
        return self._clock.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._dead

    def is_closed(self) -> bool:
        return self._dead

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        if not self._scheduled:
            self._scheduled = True
            self._later(0.0, self._run_ready)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def due() -> None:
            if not handle.cancelled():
                self.enter(handle._run)

        self._later(max(0.0, when - self.time()), due)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is looked at when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and "handle" in context:
            raise error

    def enter(self, function: Callable[[], Any]) -> None:
        """Run the function as this loop's own. Whoever calls may be on another loop."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            function()
        finally:
            asyncio._set_running_loop(before)

    def _run_ready(self) -> None:
        self._scheduled = False

        def run() -> None:
            for _ in range(len(self._ready)):
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()

        self.enter(run)
        if self._ready and not self._scheduled:
            self._scheduled = True
            self._later(0.0, self._run_ready)

    def die(self) -> None:
        """Cancel everything, and let it run out: nothing is left to be collected later, when
        another process runs. What it still wants from outside must be refused by then."""
        for _ in range(_ROUNDS_OF_DYING):
            for task in list(self._tasks):
                task.cancel()
            with suppress(Exception):  # what killed it may be told once more
                self._run_ready()
            if not self._tasks:
                break
        self._dead = True
        self._ready.clear()
        self._later = _nothing


def _nothing(_delay_s: float, _function: Callable[[], None]) -> None:
    pass


def fatal(error: BaseException) -> NoReturn:
    raise error
