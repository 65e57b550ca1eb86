"""What the simulated workflows do: replayed from the beginning for each decision, as an SDK does.

A run's input says which program it runs, so that each replay decides alike. A program ends whatever
its steps come to; what it waits for is told to it by workers, timers, clients and other runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from raftflow.engine import commands as cmd
from raftflow.engine.describe import DecisionTask, OpenStep
from raftflow.engine.retry import NO_RETRY, RetryPolicy
from raftflow.engine.state import Step, StepKind, StepStatus

TYPES = ("Order", "Child")
SIGNALS = ("go", "more")
ACTIVITIES = ("charge", "ship", "undo")

_RETRIES = (
    NO_RETRY,
    RetryPolicy(max_attempts=3, initial_backoff_ms=50, jitter_milli=300, jitter_seed=7),
    RetryPolicy(max_attempts=0, initial_backoff_ms=20, max_backoff_ms=400),
    RetryPolicy(max_attempts=4, initial_backoff_ms=0, non_retryable_error_types=("Fatal",)),
)
_LINKS = 3  # the longest chain of continue-as-new
_GENERATIONS = 2  # children of children, and no further


class Nondeterminism(Exception):
    """History has another step where the code begins one: a bug of the engine or of this file."""


class _Blocked(Exception):
    """Nothing more can be decided now."""


class _Cancelled(Exception):
    """The code was told to cancel."""


class Replay:
    """One decision in the making."""

    def __init__(self, task: DecisionTask) -> None:
        self._task = task
        self._position = 0
        self.commands: list[cmd.WorkflowCommand] = []

    @property
    def _next(self) -> int:
        self._position += 1
        return self._position

    def step(self, sequence: int) -> Step | OpenStep | None:
        """None: this very decision begins it."""
        return self._task.steps[sequence - 1] if sequence <= len(self._task.steps) else None

    def _begin(self, kind: StepKind, name: str, make: Callable[[int], cmd.WorkflowCommand]) -> int:
        sequence = self._next
        known = self.step(sequence)
        if known is None:
            self.commands.append(make(sequence))
        elif (known.kind, known.name) != (kind, name):
            raise Nondeterminism(
                f"step {sequence} is {known.kind.name} {known.name!r}, not {kind.name} {name!r}"
            )
        return sequence

    # ---- steps -----------------------------------------------------------------------------------

    def activity(self, rng: random.Random, name: str) -> int:
        retry = rng.choice(_RETRIES)
        start_to_close = rng.choice((0, 0, 0, 900))
        schedule_to_close = rng.choice((0, 0, 0, 0, 4_000))
        schedule_to_start = rng.choice((0, 0, 0, 0, 3_000))
        priority = rng.randrange(1, 6)

        def make(sequence: int) -> cmd.WorkflowCommand:
            return cmd.ScheduleActivity(
                step_name=name,
                sequence=sequence,
                input=b"%d" % sequence,
                retry=retry,
                task_queue="",
                start_to_close_timeout_ms=start_to_close,
                schedule_to_close_timeout_ms=schedule_to_close,
                schedule_to_start_timeout_ms=schedule_to_start,
                priority=priority,
            )

        return self._begin(StepKind.ACTIVITY, name, make)

    def timer(self, delay_ms: int) -> int:
        return self._begin(
            StepKind.TIMER,
            "pause",
            lambda n: cmd.StartTimer(step_name="pause", sequence=n, delay_ms=delay_ms),
        )

    def signal(self, name: str) -> int:
        return self._begin(
            StepKind.SIGNAL,
            f"wait {name}",
            lambda n: cmd.AwaitSignal(step_name=f"wait {name}", sequence=n, signal_name=name),
        )

    def marker(self, marker: str) -> int:
        return self._begin(
            StepKind.MARKER,
            marker,
            lambda n: cmd.RecordMarker(step_name=marker, sequence=n, marker=marker, data=b"1"),
        )

    def child(
        self,
        policy: cmd.ParentClosePolicy,
        workflow_id: str,
        input: bytes,
    ) -> int:
        return self._begin(
            StepKind.CHILD,
            "child",
            lambda n: cmd.StartChildWorkflow(
                step_name="child",
                sequence=n,
                workflow_type="Child",
                workflow_id=workflow_id,
                input=input,
                task_queue="",
                parent_close_policy=policy,
            ),
        )

    def cancel(self, sequences: Iterable[int]) -> None:
        """Those of the steps that have no result yet."""
        begun = {
            each.sequence: each.step_name
            for each in self.commands
            if hasattr(each, "sequence") and not isinstance(each, cmd.CancelStep)
        }
        for sequence in sequences:
            known = self.step(sequence)
            if known is None:
                self.commands.append(cmd.CancelStep(step_name=begun[sequence], sequence=sequence))
            elif known.status is StepStatus.SCHEDULED:
                self.commands.append(
                    cmd.CancelStep(step_name=known.name, sequence=sequence, reason="lost")
                )

    # ---- waiting ---------------------------------------------------------------------------------

    def resolved(self, sequence: int) -> int:
        """The event that resolved it; 0 when none did."""
        known = self.step(sequence)
        return 0 if known is None else known.resolved_event_id

    def all(self, sequences: Iterable[int]) -> None:
        self._look_for_cancel()
        if not all(self.resolved(each) for each in sequences):
            self._block()

    def first(self, sequences: Iterable[int]) -> int:
        """The one that was resolved first."""
        self._look_for_cancel()
        done = [(self.resolved(each), each) for each in sequences if self.resolved(each)]
        if not done:
            self._block()
        return min(done)[1]

    def _look_for_cancel(self) -> None:
        """Where the code was told, it is told in each replay."""
        following = self.step(self._position + 1)
        if following is not None and following.marker == "cancel":
            raise _Cancelled

    def _block(self) -> None:
        told = any(step.marker == "cancel" for step in self._task.steps)
        if self._task.cancel_requested_event_id and not told:
            raise _Cancelled
        raise _Blocked

    # ---- the code --------------------------------------------------------------------------------

    def run(self) -> tuple[cmd.WorkflowCommand, ...]:
        kind, seed, links, generation = self._task.input.split(b" ")[:4]
        rng = random.Random(int(seed))
        try:
            self._body(rng, kind.decode(), int(links), int(generation))
        except _Cancelled:
            self._compensate()
        except _Blocked:
            pass
        return tuple(self.commands)

    def _compensate(self) -> None:
        before = self._position
        self.marker("cancel")
        self.cancel([each for each in range(1, before + 1) if not self._is_marker(each)])
        undo = self._begin(
            StepKind.ACTIVITY,
            "undo",
            lambda n: cmd.ScheduleActivity(
                step_name="undo", sequence=n, input=b"", retry=_RETRIES[2], task_queue=""
            ),
        )
        if self.resolved(undo):
            self.commands.append(cmd.FailWorkflow(error="cancelled as asked", cancelled=True))

    def _is_marker(self, sequence: int) -> bool:
        known = self.step(sequence)
        if known is not None:
            return known.kind is StepKind.MARKER
        return any(
            isinstance(each, cmd.RecordMarker) and each.sequence == sequence
            for each in self.commands
        )

    def _body(self, rng: random.Random, kind: str, links: int, generation: int) -> None:
        if kind == "wide":
            self._wide(rng)
        elif kind == "drain":
            self._drain(rng)
        else:
            for _ in range(rng.randrange(1, 5)):
                rng.choice(_STAGES)(self, rng, generation)
        if links and rng.random() < 0.8:
            following = b"%s %d %d %d" % (kind.encode(), rng.getrandbits(30), links - 1, generation)
            self.commands.append(cmd.ContinueAsNew(input=following))
        elif rng.random() < 0.1:
            self.commands.append(cmd.FailWorkflow(error="no", error_type="Refused"))
        else:
            self.commands.append(cmd.CompleteWorkflow(output=b"done"))

    def _wide(self, rng: random.Random) -> None:
        """So many things in flight that decisions get stale, and facts have to wait."""
        begun = [self.activity(rng, "charge") for _ in range(rng.randrange(6, 14))]
        begun += [self.timer(40 * n) for n in range(rng.randrange(3, 8))]
        waits = [self.signal("go"), self.signal("more"), self.timer(3_000)]
        self.all(begun)
        self.first(waits)
        self.cancel(waits)

    def _drain(self, rng: random.Random) -> None:
        """One after the other as they come; with each, the code may lose interest in another."""
        left = [self.activity(rng, "charge") for _ in range(rng.randrange(8, 20))]
        left += [self.timer(60 * n) for n in range(rng.randrange(4, 10))]
        left += [self.signal(name) for name in SIGNALS]
        while left:
            left.remove(self.first(left))
            if left and rng.random() < 0.3:
                self.cancel([left.pop(rng.randrange(len(left)))])

    def _few(self, rng: random.Random, _generation: int) -> None:
        self.all(
            [self.activity(rng, rng.choice(ACTIVITIES[:2])) for _ in range(rng.randrange(1, 4))]
        )

    def _pause(self, rng: random.Random, _generation: int) -> None:
        self.all([self.timer(rng.choice((0, 30, 300, 1_500, 7_000)))])

    def _wait(self, rng: random.Random, _generation: int) -> None:
        """For a signal, but not for ever."""
        name = rng.choice(SIGNALS)
        race = [self.signal(name), self.timer(rng.choice((400, 2_500)))]
        self.first(race)
        self.cancel(race)

    def _wait_long(self, rng: random.Random, _generation: int) -> None:
        self.all([self.signal(rng.choice(SIGNALS)) for _ in range(rng.randrange(1, 3))])

    def _race(self, rng: random.Random, _generation: int) -> None:
        race = [self.activity(rng, "ship"), self.activity(rng, "charge"), self.timer(500)]
        self.first(race)
        self.cancel(race)

    def _note(self, rng: random.Random, _generation: int) -> None:
        position = self.marker(rng.choice(("version", "side_effect")))
        text = f'"{rng.randrange(9)}"'
        if self.step(position) is None:
            self.commands.append(cmd.UpsertSearchAttributes(attributes=(("stage", text),)))
        self.all([self.timer(10)])

    def _have_child(self, rng: random.Random, generation: int) -> None:
        if generation >= _GENERATIONS:
            return
        policy = rng.choice(tuple(cmd.ParentClosePolicy))
        # Names that others take, too: a child that cannot be started is an outcome.
        workflow_id = rng.choice(("", "", "", f"kid{rng.randrange(12)}"))
        links = rng.choice((0, 0, 1))
        text = b"plain %d %d %d" % (rng.getrandbits(30), links, generation + 1)
        child = self.child(policy, workflow_id, text)
        fate = rng.random()
        if fate < 0.5:
            self.all([child])
        elif fate < 0.8:
            race = [child, self.timer(rng.choice((0, 200, 1_000)))]
            self.first(race)
            self.cancel(race)
        # Else its policy says what becomes of it when this run ends.


_STAGES: tuple[Callable[[Replay, random.Random, int], None], ...] = (
    Replay._few,
    Replay._few,
    Replay._few,
    Replay._pause,
    Replay._wait,
    Replay._wait_long,
    Replay._race,
    Replay._note,
    Replay._have_child,
    Replay._have_child,
)


def program(rng: random.Random) -> bytes:
    """The input of a new run."""
    kind = rng.choice((b"plain", b"plain", b"plain", b"wide", b"drain", b"drain"))
    links = rng.choice((0, 0, 0, 1, _LINKS))
    return b"%s %d %d %d" % (kind, rng.getrandbits(30), links, 0)
