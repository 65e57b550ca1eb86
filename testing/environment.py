"""The environment of a test: start runs, let time pass, send signals, look at what happened.

Everything runs in the thread of the test. Whatever can happen at a moment happens before a call
returns; when nothing can, log time jumps to the next thing that is due. No second is slept.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from raftflow.cluster.api.attributes import parse_attributes, parse_memo
from raftflow.cluster.config import Config
from raftflow.engine.commands import (
    CancelRun,
    Command,
    DeliverMessage,
    FireTimer,
    IdConflictPolicy,
    IdReusePolicy,
    PauseRun,
    RegisterTypes,
    SignalRun,
    StartRun,
    TerminateRun,
    UnpauseRun,
)
from raftflow.engine.ids import DEFAULT_NAMESPACE, DEFAULT_TASK_QUEUE, RunKey
from raftflow.engine.rejections import Answer, Rejection, Started
from raftflow.testing.deployment import Deployment, Source
from raftflow.testing.node import Node
from raftflow.testing.plan import Plan
from raftflow.testing.run import Run
from raftflow.testing.workers import Call, Workers
from raftflow_sdk import payloads
from raftflow_sdk.payloads import Decode
from raftflow_sdk.retry import to_ms

# A workflow that does more than this in a test does not end.
MAX_ENTRIES = 200_000


class Refused(Exception):
    """The engine refused a call; `reason` is the public one."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(f"{rejection.reason.value}: {rejection.message}")
        self.reason = rejection.reason.value


class Endless(AssertionError):
    """The runs go on for ever."""


@dataclass(frozen=True, slots=True, order=True)
class _Appointment:
    at_ms: int
    number: int
    action: Callable[[], object]


class Environment:
    """A cluster of one, its workers, and a clock that waits for nobody.

    ``code`` are workers (what is registered with them runs here; they connect to nothing) or
    mappings of names to workflow functions.
    """

    def __init__(
        self, *code: Source, config: Config | None = None, plan: Plan | None = None
    ) -> None:
        self.node = Node()
        self.deployment = Deployment()
        self.workers = Workers(self.node, self.deployment, config or Config(), plan or Plan())
        self._appointments: list[_Appointment] = []
        self._numbers = itertools.count(1)
        self._requests = itertools.count(1)
        for source in code:
            self.deployment.add(source)

    # ---- what a test does ----------------------------------------------------------------------

    def run(self, workflow: str | Callable[..., object], **how: Any) -> Run:
        """Start a run (see `start`) and let time pass until it has ended, or waits for what only
        the test can give."""
        run = self.start(workflow, **how)
        self.finish(run)
        return run

    def start(
        self,
        workflow: str | Callable[..., object],
        *,
        input: object = "",
        activities: Mapping[str, object] | None = None,
        workflow_id: str | None = None,
        decode: Decode = "text",
        execution_timeout: float = 0,
        task_queue: str = DEFAULT_TASK_QUEUE,
        id_reuse_policy: str = "REJECT_DUPLICATE",
        id_conflict_policy: str = "FAIL",
        request_id: str | None = None,
        search_attributes: Mapping[str, object] | None = None,
        memo: Mapping[str, object] | None = None,
        signal: tuple[str, object] | None = None,
    ) -> Run:
        """Start a run; everything happens that needs no time to pass.

        ``activities`` fakes activities by name from now on: a value is their output, an exception
        their failure, a function their code; see `takes`, `in_turn`, `fails`, `HANGS`, `DIES`,
        `NOBODY`. ``decode`` says how `Run.result` reads the output. ``signal`` (name, payload) is
        delivered with the start, or to the open run of the id.
        """
        self.deployment.fake(activities or {})
        workflow_type = self.deployment.type_of(workflow, decode)
        self._register()
        number = next(self._numbers)
        answer = self.execute(
            StartRun(
                namespace=DEFAULT_NAMESPACE,
                workflow_id=workflow_id or f"{workflow_type}-{number}",
                run_id=f"{number:032x}",
                workflow_type=workflow_type,
                task_queue=task_queue,
                input=payloads.encode(input),
                execution_timeout_ms=to_ms("execution_timeout", execution_timeout),
                id_reuse_policy=IdReusePolicy[id_reuse_policy],
                id_conflict_policy=IdConflictPolicy[id_conflict_policy],
                request_id=request_id or self._request_id(),
                search_attributes=parse_attributes("search_attributes", search_attributes),
                memo=parse_memo(memo, self.node.limits.max_payload_bytes),
                signal_name=signal[0] if signal else "",
                signal_payload=payloads.encode(signal[1]) if signal else b"",
            )
        )
        assert isinstance(answer, Started)
        key = RunKey(DEFAULT_NAMESPACE, workflow_id or f"{workflow_type}-{number}", answer.run_id)
        return Run(self, key, decode)

    def signal(
        self, run: Run | str, name: str, payload: object = "", *, request_id: str | None = None
    ) -> None:
        """Deliver a signal, to a run or to the newest run of an id."""
        self.execute(
            SignalRun(
                **_target(run),
                name=name,
                payload=payloads.encode(payload),
                request_id=request_id or self._request_id(),
            )
        )

    def cancel(self, run: Run | str, reason: str = "", *, graceful: bool = False) -> None:
        """End a run CANCELLED; with ``graceful`` its code is told and may compensate first."""
        request_id = self._request_id()
        self.execute(
            CancelRun(**_target(run), reason=reason, request_id=request_id, graceful=graceful)
        )

    def terminate(self, run: Run | str, reason: str = "") -> None:
        """End a run TERMINATED at once."""
        self.execute(TerminateRun(**_target(run), reason=reason, request_id=self._request_id()))

    def pause(self, run: Run | str, reason: str = "") -> None:
        """Hold a run: what is in flight goes on, and nothing is decided."""
        self.execute(PauseRun(**_target(run), reason=reason, request_id=self._request_id()))

    def unpause(self, run: Run | str) -> None:
        """Let a held run go on."""
        self.execute(UnpauseRun(**_target(run), request_id=self._request_id()))

    def advance(self, seconds: float) -> None:
        """Let so much time pass, and everything happen that happens in it. An activity may call
        this: it then takes that long."""
        self._advance_to(self.node.time_ms + to_ms("seconds", seconds))

    def until(self, condition: Callable[[], object]) -> None:
        """Let time pass until the condition holds."""
        self.settle()
        while not condition():
            moment = self._next_moment()
            if moment is None:
                raise AssertionError(f"at {self.now} s nothing more happens, but it does not hold")
            self._advance_to(moment)

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something in so many seconds from now, while runs go on."""
        at_ms = self.node.time_ms + to_ms("seconds", seconds)
        heapq.heappush(self._appointments, _Appointment(at_ms, next(self._numbers), action))

    def find(self, workflow_id: str, *, decode: Decode = "text") -> Run:
        """The newest run of an id, such as a child or the end of a chain."""
        key = self.node.newest(DEFAULT_NAMESPACE, workflow_id)
        if key is None:
            raise LookupError(f"there is no workflow {workflow_id!r}")
        return Run(self, key, decode)

    def runs(self, workflow_id: str, *, decode: Decode = "text") -> list[Run]:
        """All runs of an id, newest first, as `Client.runs` has them."""
        keys = [key for key in self.node.state.runs if key.workflow_id == workflow_id]
        return [Run(self, key, decode) for key in reversed(keys)]

    def calls(self, activity: str) -> list[Call]:
        """The calls of an activity so far, in order, one an attempt."""
        return [call for call in self.workers.calls if call.activity == activity]

    def deploy(self, *code: Source) -> None:
        """Other code under the same names, as a new version of a worker brings it."""
        for source in code:
            self.deployment.add(source)

    @property
    def now(self) -> float:
        """Seconds since the environment began."""
        return (self.node.time_ms - self.node.start_ms) / 1_000

    # ---- how it goes on ------------------------------------------------------------------------

    def execute(self, command: Command) -> Answer:
        """Give the engine a command; everything happens that needs no time to pass."""
        answer = self.node.execute(command)
        if isinstance(answer, Rejection):
            raise Refused(answer)
        self.settle()
        return answer

    def settle(self) -> None:
        """Whatever can happen at this moment happens."""
        while self._next_thing():
            if len(self.node.log) > MAX_ENTRIES:
                raise Endless(f"after {MAX_ENTRIES} entries at {self.now} s the runs still go on")

    def finish(self, run: Run) -> None:
        """Let time pass until the run has ended (its chain, when it continued as new), or nothing
        will ever happen again."""
        self.settle()
        while run.newest.open:
            moment = self._next_moment()
            if moment is None:
                return
            self._advance_to(moment)

    def _advance_to(self, moment_ms: int) -> None:
        self.settle()
        while True:
            due_ms = self._next_moment()
            if due_ms is None or due_ms > moment_ms:
                break
            self.node.time_ms = max(self.node.time_ms, due_ms)
            self.settle()
        self.node.time_ms = max(self.node.time_ms, moment_ms)

    def _next_moment(self) -> int | None:
        moments = [timer.fire_at_ms for timer in self.node.timers.values()]
        moments += [each.at_ms for each in self._appointments[:1]]
        moments += self.workers.moments()
        return min(moments, default=None)

    def _next_thing(self) -> bool:
        """The first of what can happen now, in an order that is always the same."""
        return (
            self._keep_appointment()
            or self._deliver_message()
            or self._fire_timer()
            or self.workers.work()
        )

    def _keep_appointment(self) -> bool:
        if not self._appointments or self._appointments[0].at_ms > self.node.time_ms:
            return False
        heapq.heappop(self._appointments).action()
        return True

    def _deliver_message(self) -> bool:
        for (run, number), message in self.node.messages.items():
            run_id = message.target_run_id
            if message.starts and not run_id:
                run_id = f"{next(self._numbers):032x}"
            self.node.execute(
                DeliverMessage(
                    namespace=run.namespace,
                    workflow_id=run.workflow_id,
                    run_id=run.run_id,
                    number=number,
                    target_workflow_id=message.target_workflow_id,
                    target_run_id=run_id,
                )
            )
            return True
        return False

    def _fire_timer(self) -> bool:
        due = [each for each in self.node.timers.values() if each.fire_at_ms <= self.node.time_ms]
        if not due:
            return False
        timer = min(due, key=lambda each: each.fire_at_ms)
        run = timer.run
        self.node.execute(
            FireTimer(
                namespace=run.namespace,
                workflow_id=run.workflow_id,
                run_id=run.run_id,
                kind=timer.kind,
                sequence=timer.sequence,
                fire_at_ms=timer.fire_at_ms,
            )
        )
        return True

    def _register(self) -> None:
        known = self.node.state.catalog.types
        names = [n for n in self.deployment.workflows if (DEFAULT_NAMESPACE, n) not in known]
        if names:
            self.node.execute(
                RegisterTypes(namespace=DEFAULT_NAMESPACE, workflow_types=tuple(names))
            )

    def _request_id(self) -> str:
        return f"request-{next(self._requests)}"


def _target(run: Run | str) -> dict[str, str]:
    workflow_id, run_id = (run, "") if isinstance(run, str) else (run.workflow_id, run.run_id)
    return {"namespace": DEFAULT_NAMESPACE, "workflow_id": workflow_id, "run_id": run_id}
