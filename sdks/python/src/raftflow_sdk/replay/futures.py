"""Futures: what workflow code waits for.

A future is settled once: with a value, or with what waiting for it raises. Steps are settled in
the order in which the history has their results, so that whatever is built on them (races,
coroutines) sees one order at every replay.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar, cast

from raftflow_sdk import payloads
from raftflow_sdk.errors import (
    ActivityFailure,
    CancelledFailure,
    ChildFailure,
    PayloadError,
)
from raftflow_sdk.payloads import Decode

T = TypeVar("T")
Recorded = Mapping[str, Any]


class Replayed(Protocol):
    """What futures need of the replay they belong to."""

    def wait(self, future: Future[Any]) -> None: ...

    def cancel_step(self, step: Step, reason: str) -> None: ...

    def next_turn(self) -> int: ...


class Future(Generic[T]):
    """Something that will have a result. `await` it in a coroutine, else call `result()`."""

    def __init__(self, replay: Replayed) -> None:
        self._replay = replay
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []
        self.done = False
        """Whether it is settled, as of the last result that the code was given."""
        self.observed = False
        self.turn = 0

    def __str__(self) -> str:
        return ", ".join(map(str, self.pending_steps())) or "a future"

    if not TYPE_CHECKING:  # type checkers find these mistakes by themselves

        def __getattr__(self, name: str) -> NoReturn:
            hint = "" if name.startswith("_") else f": {self} {payloads.NOT_ITS_RESULT}"
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}")

        def __getitem__(self, _: object) -> NoReturn:
            """Also what unpacking and `for` come to."""
            raise TypeError(f"{self} {payloads.NOT_ITS_RESULT}")

    def result(self) -> T:
        """The value, or the failure raised; waits for it where code can wait without `await`."""
        if not self.done:
            self._replay.wait(self)
        return self.take()

    def cancel(self, reason: str = "") -> None:
        """The result is not wanted any more: waiting for it raises `CancelledFailure`.

        Of a future that is done nothing changes.
        """
        raise NotImplementedError

    def pending_steps(self) -> Iterator[Step]:
        """The steps in flight that it depends on."""
        raise NotImplementedError

    def __await__(self) -> Generator[Future[Any], None, T]:
        if not self.done:
            yield self
        return self.take()

    def take(self) -> T:
        """What a settled future was settled with."""
        self.observed = True
        if self._error is not None:
            raise self._error
        return cast(T, self._value)

    @property
    def failure(self) -> BaseException | None:
        """What waiting for it raises, once it is done."""
        return self._error

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back once settled, at once if it is. Callbacks run in the order they came."""
        self.observed = True
        if self.done:
            callback()
        else:
            self._callbacks.append(callback)

    def settle(self, value: T | None = None, error: BaseException | None = None) -> None:
        assert not self.done, "a future is settled once"
        self.done = True
        self.turn = self._replay.next_turn()
        self._value, self._error = value, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class Step(Future[Any]):
    """A step of the run, whose result is in the history or is still to come."""

    def __init__(
        self,
        replay: Replayed,
        kind: str,
        name: str,
        sequence: int,
        recorded: Recorded | None,
        decode: Decode,
    ) -> None:
        super().__init__(replay)
        self.kind = kind
        self.name = name
        self.sequence = sequence
        self.recorded = recorded
        self._decode = decode

    def __str__(self) -> str:
        return f"step {self.name!r} (sequence {self.sequence})"

    @property
    def status(self) -> str:
        return "SCHEDULED" if self.recorded is None else str(self.recorded["status"])

    @property
    def has_result(self) -> bool:
        return self.status in ("COMPLETED", "FAILED")

    def deliver(self) -> None:
        """Settle it with what the history has."""
        recorded = self.recorded
        assert recorded is not None
        if self.status == "FAILED":
            self.settle(error=self._failure(recorded))
            return
        try:
            value = payloads.decode(payloads.get(recorded, "output"), self._decode)
        except PayloadError as err:
            self.settle(error=err)
        else:
            self.settle(None if self.kind == "TIMER" else value)

    def _failure(self, recorded: Recorded) -> Exception:
        message = recorded.get("error", "")
        error_type = recorded.get("error_type", "")
        if self.kind == "CHILD":
            return ChildFailure(
                message,
                error_type=error_type,
                step_name=self.name,
                workflow_id=recorded.get("workflow_id", ""),
                run_id=recorded.get("run_id", ""),
            )
        return ActivityFailure(
            message,
            error_type=error_type,
            non_retryable=bool(recorded.get("non_retryable")),
            step_name=self.name,
            attempts=int(recorded.get("attempts", 0)),
        )

    def cancel(self, reason: str = "") -> None:
        if self.done:
            return
        if self.has_result:
            # It came before the cancel, though not before what the code was told last. The history
            # keeps it (a signal that a wait took is taken), so that this holds at every replay.
            self.deliver()
        else:
            self._replay.cancel_step(self, reason)
            self.settle(error=CancelledFailure(reason))

    def pending_steps(self) -> Iterator[Step]:
        if not self.done:
            yield self


class _Several(Future[T]):
    """A future made of others. Cancelled, it cancels them, and is settled when all of them are."""

    def __init__(self, replay: Replayed, members: Sequence[Future[Any]]) -> None:
        super().__init__(replay)
        for member in members:
            if not belongs(member, replay):
                raise TypeError(
                    f"it takes futures of this run, such as ctx.start_activity gives: {member!r}"
                )
        self.members = members
        self._cancelled: CancelledFailure | None = None
        self._open = len(members)
        for member in sorted(members, key=lambda member: member.turn):
            # One that is pending has turn 0; its order does not matter yet.
            member.when_done(lambda member=member: self._member_done(member))  # type: ignore[misc]

    def cancel(self, reason: str = "") -> None:
        if self.done or self._cancelled is not None:
            return
        self._cancelled = CancelledFailure(reason)
        for member in self.members:
            member.cancel(reason)

    def pending_steps(self) -> Iterator[Step]:
        for member in self.members:
            yield from member.pending_steps()

    def _member_done(self, member: Future[Any]) -> None:
        self._open -= 1
        if self.done:
            return
        if self._cancelled is None:
            self._progress(member)
        elif self._open == 0:
            self.settle(error=self._cancelled)

    def _progress(self, member: Future[Any]) -> None:
        raise NotImplementedError


class All(_Several[list[Any]]):
    """All results in the order of the members; the first failure, unless failures are results."""

    def __init__(
        self, replay: Replayed, members: Sequence[Future[Any]], *, return_exceptions: bool
    ) -> None:
        self._return_exceptions = return_exceptions
        super().__init__(replay, members)
        if not members:
            self.settle([])

    def _progress(self, member: Future[Any]) -> None:
        if member.failure is not None and not self._return_exceptions:
            self.settle(error=member.failure)
        elif self._open == 0:
            self.settle([each.failure or each.take() for each in self.members])


class First(_Several[Future[Any]]):
    """The member that was settled first; a failure counts, a cancellation is raised."""

    def __init__(
        self, replay: Replayed, members: Sequence[Future[Any]], *, cancel_rest: bool
    ) -> None:
        if not members:
            raise ValueError("a race of nobody has no winner")
        self._cancel_rest = cancel_rest
        super().__init__(replay, members)

    def _progress(self, member: Future[Any]) -> None:
        if isinstance(member.failure, CancelledFailure):
            self.settle(error=member.failure)
        else:
            self.settle(member)
        if self._cancel_rest:
            for each in self.members:
                each.cancel("lost the race")


class SignalOrTimeout(_Several[Any]):
    """A wait for a signal that a timer ends: then it raises `TimeoutError`."""

    def __init__(self, replay: Replayed, signal: Step, timer: Step) -> None:
        self._signal, self._timer = signal, timer
        self._timed_out = False
        super().__init__(replay, (signal, timer))

    def _progress(self, member: Future[Any]) -> None:
        if member is self._timer:
            self._timed_out = True
            self._signal.cancel("timed out")  # ends up below, with the signal if it was taken
            return
        error = member.failure
        if self._timed_out and isinstance(error, CancelledFailure):
            error = TimeoutError(f"no signal came for {self._signal.name!r} in time")
        if error is None:
            self.settle(member.take())
        else:
            self.settle(error=error)
        self._timer.cancel("the signal came")


def belongs(future: object, replay: Replayed) -> bool:
    """Whether it is a future of this very replay."""
    return isinstance(future, Future) and future._replay is replay
