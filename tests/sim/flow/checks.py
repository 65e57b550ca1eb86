"""What must hold of the engine after every entry, whichever node applied it first; and at the end.

Nodes are compared by their digests (tests/sim/checkers.py). Here stands what is true of any of
them: a memory of all histories and results, kept beside the engine and from its changes alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raftflow.engine import commands as cmd
from raftflow.engine import effects as ef
from raftflow.engine import events as ev
from raftflow.engine.apply import Applied
from raftflow.engine.ids import RunKey, parse_token
from raftflow.engine.invariants import problems
from raftflow.engine.rejections import Answer, Done, Granted, Started
from raftflow.engine.state import Run, Step, StepStatus
from tests.sim.checkers import require

if TYPE_CHECKING:
    from tests.sim.flow.node import FlowNode

RESULTS = (
    ev.StepCompleted,
    ev.StepFailed,
    ev.StepCancelled,
    ev.TimerFired,
    ev.SignalConsumed,
    ev.ChildCompleted,
    ev.ChildFailed,
)
BEGINNINGS = (
    ev.StepScheduled,
    ev.TimerStarted,
    ev.SignalAwaited,
    ev.MarkerRecorded,
    ev.ChildStarted,
)
ENDINGS = (
    ev.WorkflowCompleted,
    ev.WorkflowFailed,
    ev.WorkflowTerminated,
    ev.WorkflowCancelled,
    ev.WorkflowTimedOut,
    ev.WorkflowContinuedAsNew,
)
DECIDED = (*BEGINNINGS, *ENDINGS, ev.StepCancelled, ev.SearchAttributesUpserted)
BEGIN = (
    cmd.ScheduleActivity,
    cmd.StartTimer,
    cmd.AwaitSignal,
    cmd.RecordMarker,
    cmd.StartChildWorkflow,
)
_STATUS = {
    ev.StepCompleted: StepStatus.COMPLETED,
    ev.TimerFired: StepStatus.COMPLETED,
    ev.SignalConsumed: StepStatus.COMPLETED,
    ev.ChildCompleted: StepStatus.COMPLETED,
    ev.MarkerRecorded: StepStatus.COMPLETED,
    ev.StepFailed: StepStatus.FAILED,
    ev.ChildFailed: StepStatus.FAILED,
    ev.StepCancelled: StepStatus.CANCELLED,
}

Result = tuple[StepStatus, bytes, str, str, int]  # with the event that resolved it


@dataclass(slots=True)
class Life:
    """One run, as its events told it."""

    events: list[ev.Event] = field(default_factory=list)
    begun: dict[int, ev.EventBody] = field(default_factory=dict)  # by sequence
    resolving: dict[int, ev.Event] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict)
    untaken: dict[str, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    timers: dict[tuple[cmd.TimerKind, int], int] = field(default_factory=dict)
    ended: bool = False


class FlowChecks:
    def __init__(self, tolerance_ms: int) -> None:
        self._tolerance_ms = tolerance_ms  # how much log time may be wrong
        self.index = self.time_ms = self.real_ms = 0
        self.hurried = False  # all clocks were set forward, and nodes learn that one by one
        self.lives: dict[RunKey, Life] = {}
        self.past: dict[RunKey, Life] = {}  # of runs that were deleted
        self.blurred = 0  # runs that ended and were deleted in one entry: history never told
        self.stats: Counter[str] = Counter()
        self._held: dict[tuple[RunKey, int], str] = {}
        self._holders: dict[tuple[RunKey, int], list[str]] = {}  # all that a task ever had
        self._dropped: set[str] = set()  # tokens that ended with this entry
        self._leases: dict[str, int] = {}  # token -> log time before which it cannot be missed
        self._granted: dict[str, tuple[int, int]] = {}  # token -> when, for how long
        self._armed: dict[tuple[RunKey, cmd.TimerKind, int], tuple[int, int]] = {}
        self._children: dict[tuple[str, str, int], str] = {}
        self._delivered: set[tuple[RunKey, int]] = set()
        self._completions: dict[str, bytes] = {}
        self._signals: Counter[bytes] = Counter()
        self._acked_starts: list[tuple[str, str]] = []
        self._acked_signals: list[bytes] = []
        self._acked_completions: list[str] = []

    # ---- after each entry ------------------------------------------------------------------------

    def on_applied(self, node: FlowNode, applied: Applied, batch: cmd.Batch) -> None:
        if batch.index <= self.index:
            return  # another node was first; digests say that this one did the same
        require(batch.index == self.index + 1, "entries are applied in order", index=batch.index)
        self.index, self.time_ms = batch.index, batch.time_ms
        self.real_ms = node.world.stamped.get((batch.index, batch.term), self.real_ms)
        changes = applied.changes
        for (_, command), reply in zip(batch.commands, applied.replies, strict=True):
            if isinstance(command, cmd.FireTimer) and isinstance(reply.answer, Done):
                self._fired(command)  # before one is armed in its place
        for key in changes.deleted:
            self._delete(key)
        for key, event in changes.events:
            self._event(key, event, batch)
        for (key, sequence), step in changes.steps.items():
            self._step(key, sequence, step)
        for (key, kind, sequence), timer in changes.timers.items():
            timers = self.lives[key].timers
            if timer is None:
                timers.pop((kind, sequence), None)
            else:
                timers[kind, sequence] = timer.fire_at_ms
                armed = (self.real_ms, timer.fire_at_ms - batch.time_ms)
                self._armed[key, kind, sequence] = armed
        self.stats["held"] += sum(arrival is not None for arrival in changes.arrivals.values())
        self._dropped.clear()
        for effect in applied.effects:
            self._effect(effect, batch)
        for key, run in changes.runs.items():
            self._run(key, run, node)
        for (_, command), reply in zip(batch.commands, applied.replies, strict=True):
            self._reply(command, reply.answer, batch.time_ms)

    def _run(self, key: RunKey, run: Run, node: FlowNode) -> None:
        life = self.lives[key]
        found = problems(run, life.timers)
        require(not found, "a run keeps its invariants", run=key, found=found)
        require(node.replica.hot_run(key) is run, "what changed is hot", run=key)
        require(
            run.history_length == len(life.events),
            "a run counts its events",
            run=key,
            counted=run.history_length,
            told=len(life.events),
        )

    def _delete(self, key: RunKey) -> None:
        life = self.lives.pop(key)
        self.blurred += not life.ended
        self.past[key] = life
        self.stats["deleted"] += 1

    def _event(self, key: RunKey, event: ev.Event, batch: cmd.Batch) -> None:
        life = self.lives.get(key)
        if life is None:
            require(key not in self.past, "a run that was deleted stays so", run=key)
            life = self.lives[key] = Life()
        body = event.body
        number = len(life.events) + 1
        require(event.event_id == number, "histories are dense", run=key, event=event)
        require(not life.ended, "nothing happens after the end", run=key, event=event)
        require(event.time_ms == batch.time_ms, "events have their entry's time", event=event)
        life.events.append(event)
        life.ended = isinstance(body, ENDINGS)
        self.stats[type(body).__name__] += 1
        if isinstance(body, BEGINNINGS):
            sequence = len(life.begun) + 1
            require(body.sequence == sequence, "sequences are dense", run=key, event=event)
            life.begun[sequence] = body
        if isinstance(body, (*RESULTS, ev.MarkerRecorded)):
            require(
                body.sequence not in life.resolving,
                "a step gets one result",
                run=key,
                first=life.resolving.get(body.sequence),
                second=event,
            )
            life.resolving[body.sequence] = event
        self._more_of_event(key, life, event, batch)

    def _more_of_event(self, key: RunKey, life: Life, event: ev.Event, batch: cmd.Batch) -> None:
        match event.body:
            case ev.SignalReceived() as body:
                life.untaken[body.name].append(event.event_id)
                self._signals[body.payload] += 1
            case ev.SignalConsumed() as body:
                wait = life.begun[body.sequence]
                assert isinstance(wait, ev.SignalAwaited), wait
                waiting = life.untaken[wait.signal_name]
                oldest = waiting.popleft() if waiting else 0
                require(
                    body.signal_event_id == oldest,
                    "signals are taken once, the oldest of a name first",
                    run=key,
                    event=event,
                    oldest=oldest,
                )
            case ev.TimerFired() as body:
                timer = life.begun[body.sequence]
                assert isinstance(timer, ev.TimerStarted), timer
                early = timer.fire_at_ms - batch.time_ms
                require(early <= 0, "no timer fires early", run=key, event=event, early=early)
            case ev.WorkflowStarted() as body if (
                body.parent_workflow_id and not body.continued_from_run_id
            ):
                step = (body.namespace, body.parent_run_id, body.parent_sequence)
                first = self._children.setdefault(step, body.run_id)
                require(first == body.run_id, "a child is started once", step=step)

    def _step(self, key: RunKey, sequence: int, step: Step) -> None:
        life, most = self.lives[key], step.retry.max_attempts
        require(
            not most or step.attempts <= most,
            "no attempt too many",
            run=key,
            sequence=sequence,
            attempts=step.attempts,
        )
        known = life.results.get(sequence)
        if step.status is StepStatus.SCHEDULED:
            require(known is None, "a result stays", run=key, sequence=sequence, was=known)
            return
        result = (step.status, step.output, step.error, step.error_type, step.resolved_event_id)
        first = life.results.setdefault(sequence, result)
        require(first == result, "a result stays", run=key, was=first, now=result)
        resolving = life.resolving.get(sequence)
        told = 0 if resolving is None else resolving.event_id
        require(
            step.resolved_event_id == told and (told > 0 or life.ended),
            "a step is resolved by the event that says so",
            run=key,
            step=step,
            event=resolving,
        )
        if resolving is not None:
            body = resolving.body
            output = getattr(body, "output", step.output)
            require(
                step.status is _STATUS[type(body)] and step.output == output,
                "a step came to what history says",
                run=key,
                step=step,
                event=resolving,
            )

    def _effect(self, effect: ef.Effect, batch: cmd.Batch) -> None:
        match effect:
            case ef.HoldLease():
                place = (effect.run, effect.sequence)
                held = self._held.setdefault(place, effect.token)
                require(held == effect.token, "a task has one holder", task=place)
                self._holders.setdefault(place, []).append(effect.token)
                until_ms = batch.time_ms + effect.duration_ms
                self._leases.setdefault(effect.token, until_ms)
                self._granted.setdefault(effect.token, (self.real_ms, effect.duration_ms))
            case ef.DropLease():
                held = self._held.pop((effect.run, effect.sequence), "")
                require(held == effect.token, "what ends was held", effect=effect, held=held)
                self._dropped.add(effect.token)
                self.stats["expired"] += effect.expired

    def _reply(self, command: cmd.Command, answer: Answer, now_ms: int) -> None:
        if isinstance(command, cmd.Attributed):
            self.stats["noted"] += 1
            command = command.command
        self.stats[f"{type(command).__name__} {type(answer).__name__}"] += 1
        match command, answer:
            case cmd.CompleteActivity(failed=False), Done():
                token = command.lease_token
                first = self._completions.setdefault(token, command.output)
                require(first == command.output, "a task is completed once", token=token)
            case cmd.CompleteDecision(), Done():
                self._decided(command)
            case cmd.DeliverMessage(), Done():
                key = RunKey(command.namespace, command.workflow_id, command.run_id)
                row = (key, command.number)
                require(row not in self._delivered, "a message is delivered once", row=row)
                self._delivered.add(row)
            case cmd.ExpireLease(), Done():
                left_ms = self._leases[command.token] - now_ms
                require(left_ms <= 0, "no lease is missed early", command=command, left=left_ms)
                self._not_before("no lease is missed early", self._granted[command.token])
                require(
                    command.token in self._dropped, "a lease that is over ends nothing", c=command
                )
            case cmd.ReturnTask(), Done():
                require(
                    command.token in self._dropped, "a lease that is over ends nothing", c=command
                )
            case ((cmd.GrantActivity() | cmd.GrantDecision()), Granted()):
                token = answer.token
                require(token in self._leases, "what is granted is held", token=token)
            case _:
                pass

    def _fired(self, command: cmd.FireTimer) -> None:
        key = RunKey(command.namespace, command.workflow_id, command.run_id)
        armed = self._armed[key, command.kind, command.sequence]
        self._not_before("no timer fires early", armed)

    def _not_before(self, promise: str, since: tuple[int, int]) -> None:
        """What began then lasts so long, by the simulator's own time."""
        if self.hurried:
            return
        began_ms, lasts_ms = since
        took_ms = self.real_ms - began_ms
        early_ms = lasts_ms - took_ms
        allowed_ms = self._tolerance_ms + took_ms // 20  # clocks run fast, too
        require(early_ms <= allowed_ms, promise, real_ms=took_ms, should_ms=lasts_ms)

    def _decided(self, command: cmd.CompleteDecision) -> None:
        """What the code decided stands right behind the history that it saw."""
        parts = parse_token(command.task_token)
        assert parts is not None
        key = RunKey(command.namespace, command.workflow_id, parts.run_id)
        life = self.lives.get(key)
        if life is None or not any(isinstance(each, BEGIN) for each in command.commands):
            return
        following = life.events[parts.number].body
        require(isinstance(following, DECIDED), "a decision is made on the whole history", run=key)

    # ---- what leaders might believe --------------------------------------------------------------

    def held_leases(self) -> list[tuple[RunKey, str]]:
        return [(run, token) for (run, _sequence), token in self._held.items()]

    def lost_leases(self) -> list[tuple[RunKey, str]]:
        """The first lease of each task that somebody holds again, and has held too long by now."""
        return [
            (place[0], self._holders[place][0])
            for place, token in self._held.items()
            if self._leases[token] <= self.time_ms and self._holders[place][0] != token
        ]

    def armed_timers(self) -> list[tuple[RunKey, cmd.TimerKind, int, int]]:
        return [
            (run, kind, sequence, fire_at_ms)
            for run, life in self.lives.items()
            for (kind, sequence), fire_at_ms in life.timers.items()
        ]

    # ---- what callers were told ------------------------------------------------------------------

    def told(self, command: cmd.Command, answer: Answer) -> None:
        """A caller has its answer."""
        match command, answer:
            case cmd.StartRun(), Started():
                self._acked_starts.append((command.workflow_id, answer.run_id))
                if command.signal_name:
                    self._acked_signals.append(command.signal_payload)
            case cmd.SignalRun(), Done():
                self._acked_signals.append(command.payload)
            case cmd.CompleteActivity(failed=False), Done():
                self._acked_completions.append(command.lease_token)

    # ---- what callers read -----------------------------------------------------------------------

    def sight(self, key: RunKey) -> int:
        """How many events a linearizable read that begins now must show, at least; -1: the run
        need not be there. What any node has applied is committed, and a later read covers it."""
        life = self.lives.get(key)
        return -1 if life is None else len(life.events)

    def on_read(self, key: RunKey, sight: int, length: int | None) -> None:
        """``length`` None: there is no such run."""
        self.stats["reads checked"] += 1
        if length is None:
            require(
                sight < 0 or key in self.past,
                "a read is not stale: what was there before it began is there",
                run=key,
                events=sight,
            )
            return
        known = len((self.lives.get(key) or self.past[key]).events)
        require(
            sight <= length <= known,
            "a read is not stale: what was there before it began is there",
            run=key,
            events=length,
            before=sight,
            now=known,
        )

    def on_history(self, key: RunKey, first: int, events: Sequence[ev.Event]) -> None:
        """What one node tells of a run is what happened to it, as on any other."""
        told = (self.lives.get(key) or self.past[key]).events[first - 1 : first - 1 + len(events)]
        require(list(events) == told, "a history is the same on every node, for ever", run=key)

    # ---- at the end ------------------------------------------------------------------------------

    def finish(self) -> None:
        everything = {**self.past, **self.lives}
        ids = {(key.workflow_id, key.run_id) for key in everything}
        for start in self._acked_starts:
            require(start in ids or self.blurred > 0, "an acknowledged start is kept", start=start)
        for payload, count in self._signals.items():
            require(count == 1, "a signal arrives once", payload=payload, times=count)
        for payload in self._acked_signals:
            arrived = payload in self._signals or self.blurred > 0
            require(arrived, "an acknowledged signal is kept", payload=payload)
        for token in self._acked_completions:
            require(token in self._completions, "an acknowledged result was taken", token=token)
        self._check_completions(everything)
        for key, life in self.lives.items():
            require(life.ended, "every run ends", run=key)
            require(
                life.begun.keys() == life.results.keys(),
                "every step has its result",
                run=key,
                without=life.begun.keys() - life.results.keys(),
            )

    def _check_completions(self, everything: dict[RunKey, Life]) -> None:
        """What a worker completed is the result, unless the code had cancelled the step before it
        saw that."""
        by_run = {(key.namespace, key.run_id): life for key, life in everything.items()}
        for token, output in self._completions.items():
            parts = parse_token(token)
            assert parts is not None
            life = by_run.get((parts.namespace, parts.run_id))
            resolving = None if life is None else life.resolving.get(parts.number)
            if resolving is None and self.blurred:
                continue
            body = None if resolving is None else resolving.body
            if isinstance(body, ev.StepCancelled):
                continue
            kept = isinstance(body, ev.StepCompleted) and body.output == output
            require(kept, "what was completed is the result", token=token, event=resolving)
