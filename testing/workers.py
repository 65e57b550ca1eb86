"""The workers of the environment: they take tasks as JSON and answer in JSON, as over the wire."""

from __future__ import annotations

import heapq
import itertools
import json
from dataclasses import dataclass, replace
from typing import Any

from raftflow.cluster.api import views
from raftflow.cluster.api.decisions import COMPLETION_FIELDS, parse_answer, parse_token
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.validation import Fields
from raftflow.cluster.config import Config
from raftflow.engine import describe
from raftflow.engine.commands import (
    CompleteDecision,
    ExpireLease,
    GrantActivity,
    GrantDecision,
    RecordHeartbeat,
    ReturnTask,
    ScheduleActivity,
)
from raftflow.engine.deadlines import outlasts
from raftflow.engine.decide.lease import LEASE_EXPIRED_TYPE
from raftflow.engine.effects import OfferActivity, OfferDecision
from raftflow.engine.ids import DEFAULT_NAMESPACE, RunKey
from raftflow.engine.rejections import Answer, Granted, Reason, Rejection
from raftflow.engine.retry import backoff_ms, may_retry
from raftflow.engine.state import Step
from raftflow.testing.answers import check_same, read_outcome
from raftflow.testing.deployment import Deployment
from raftflow.testing.fakes import Fate, Later
from raftflow.testing.node import Node, Queued
from raftflow.testing.plan import Harm, Plan
from raftflow.testing.run import as_json
from raftflow_sdk import ActivityInfo, NondeterminismError, payloads
from raftflow_sdk.replay import decide

_WORKER = "test-worker"
_NODE = "n1"
# A worker that a fault killed is missed at once, so that all others keep their times.
_SHORT_LEASE_MS = 1


class BadDecision(AssertionError):
    """The engine refused what a workflow decided."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A workflow task and the answer to it."""

    task: dict[str, Any]
    answer: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """An activity was run: its task, and what its code was told of its lease."""

    task: dict[str, Any]
    info: ActivityInfo

    @property
    def activity(self) -> str:
        return self.info.step_name

    @property
    def attempt(self) -> int:
        return self.info.attempt

    @property
    def input(self) -> Any:
        """The input as text; `payload` has it in bytes."""
        return payloads.decode(self.payload)

    @property
    def payload(self) -> bytes:
        return payloads.get(self.task, "input")

    @property
    def cancelled(self) -> bool:
        """Whether the worker was told, while it ran, that nobody wants the work any more."""
        return self.info.cancelled.is_set()


@dataclass(frozen=True, slots=True)
class _Done:
    when: Later | Fate
    answer: dict[str, Any]


_AT_ONCE = Later(0, None)


@dataclass(frozen=True, slots=True, order=True)
class _Due:
    """What a worker does later: it answers, or (``answer`` is None) it is missed."""

    at_ms: int
    number: int
    token: str
    answer: dict[str, Any] | None


class Workers:
    """One worker after another, never two at a time. ``decisions`` and ``calls`` are what they
    were given and did."""

    def __init__(self, node: Node, deployment: Deployment, config: Config, plan: Plan) -> None:
        self.decisions: list[Decision] = []
        self.calls: list[Call] = []
        self._node = node
        self._deployment = deployment
        self._config = config
        self._plan = plan
        self._due: list[_Due] = []
        self._turns: dict[str, int] = {}
        self._harmed: set[tuple[RunKey, int]] = set()
        self._numbers = itertools.count(1)

    def moments(self) -> list[int]:
        """When something is due that workers do by themselves."""
        return [each.at_ms for each in self._due[:1]]

    def work(self) -> bool:
        """Do the next thing that can be done now; False when there is none."""
        if self._due and self._due[0].at_ms <= self._node.time_ms:
            self._do_due(heapq.heappop(self._due))
            return True
        decision = self._next_decision()
        activity = self._next_activity()
        if decision and not (activity and activity.number < decision.number):
            self._decide(decision.offer.run)
        elif activity:
            self._attempt(activity.offer)
        return bool(decision or activity)

    def _next_decision(self) -> Queued[OfferDecision] | None:
        known = self._deployment.workflows
        queued = self._node.decisions.values()
        return next((each for each in queued if each.offer.workflow_type in known), None)

    def _next_activity(self) -> Queued[OfferActivity] | None:
        """The most urgent one, of those that a worker takes."""
        queued = (each for each in self._node.activities.values() if self._taken(each.offer))
        return min(queued, key=lambda each: (each.offer.priority, each.number), default=None)

    def _taken(self, offer: OfferActivity) -> bool:
        return self._deployment.fake_of(offer.step_name) is not Fate.NOBODY

    # ---- workflow tasks ------------------------------------------------------------------------

    def _decide(self, key: RunKey) -> None:
        workflow_id, seen = key.workflow_id, self._node.run(key).history_length
        what = f"the decision of workflow {workflow_id!r} on {seen} events"
        if not self._plan.strikes(Harm.CRASH, what):
            self._complete_decision(self._decision(self._take_decision(key)))
            return
        lost = self._decision(self._take_decision(key, _SHORT_LEASE_MS))
        self._miss(lost.task["task_token"])
        self._node.restart()
        again = self._decision(self._take_decision(key))
        check_same(what, lost.answer, again.answer)
        self._complete_decision(again)
        self._complete_decision(again)  # the answer to the first call was lost

    def _take_decision(self, key: RunKey, timeout_ms: int = 0) -> dict[str, Any]:
        command = GrantDecision(
            namespace=key.namespace,
            workflow_id=key.workflow_id,
            run_id=key.run_id,
            nonce=f"d{next(self._numbers)}",
            worker_id=_WORKER,
            node=_NODE,
            poll_id="",
            timeout_ms=timeout_ms or self._config.decision_timeout_ms,
        )
        assert isinstance(self._node.execute(command), Granted)
        task = describe.decision_task(self._node.run(key), self._node.limits)
        return as_json(views.decision_task(task))

    def _decision(self, task: dict[str, Any]) -> Decision:
        code = self._deployment.workflows[task["workflow_type"]]
        answer = decide(code.run, task, decode=code.decode)
        return Decision(task, json.loads(json.dumps(answer)))

    def _complete_decision(self, decision: Decision) -> None:
        fields = Fields(decision.answer, COMPLETION_FIELDS)
        command = parse_token(fields, DEFAULT_NAMESPACE)
        try:
            command = self._with_ids(parse_answer(fields, command, self._config))
        except ApiError as error:
            self._node.execute(replace(command, unreadable=str(error)))
            raise BadDecision(_refused(decision, str(error))) from error
        self.decisions.append(decision)
        answer = self._node.execute(command)
        if isinstance(answer, Rejection) and answer.reason is not Reason.LIMIT_EXCEEDED:
            raise BadDecision(_refused(decision, answer.message))
        if command.nondeterminism:
            raise NondeterminismError(command.replay_error)

    def _with_ids(self, command: CompleteDecision) -> CompleteDecision:
        """What the API draws by chance comes from a counter here, the same at each run."""
        number = next(self._numbers)
        if command.new_run_id:
            return replace(command, new_run_id=f"c{number:031x}")
        commands = tuple(
            replace(each, retry=replace(each.retry, jitter_seed=number))
            if isinstance(each, ScheduleActivity) and each.retry.jitter_milli
            else each
            for each in command.commands
        )
        return replace(command, commands=commands)

    # ---- activity tasks ------------------------------------------------------------------------

    def _attempt(self, offer: OfferActivity) -> None:
        turn = self._turns.get(offer.step_name, 0)
        outcome = self._deployment.outcome_of(offer.step_name, turn)
        what = f"attempt {offer.attempt} of activity {offer.step_name!r} (sequence {offer.sequence}"
        what += f" of workflow {offer.run.workflow_id!r})"
        if self._plan.strikes(Harm.CRASH, what):
            self._give_back(self._take_activity(offer))
            self._node.restart()
            done = self._run(self._take_activity(offer), outcome)
            self._report(done)
            if done.when == _AT_ONCE:
                self._complete_activity(done.answer)  # the answer to the first call was lost
        elif self._harms(offer, what):
            if self._may_be_missed(offer):
                self._run_and_be_missed(offer, outcome)
                return
            task = self._take_activity(offer)
            self._report(self._run(task, outcome))
            self._report(self._run(task, outcome))  # somebody else had it, too
        else:
            self._report(self._run(self._take_activity(offer), outcome))
        self._turns[offer.step_name] = self._turns.get(offer.step_name, 0) + 1

    def _harms(self, offer: OfferActivity, what: str) -> bool:
        """Whether this step runs twice. The attempt that makes up for a lost one is left alone."""
        step = (offer.run, offer.sequence)
        if step in self._harmed or not self._plan.strikes(Harm.TWICE, what):
            return False
        self._harmed.add(step)
        return True

    def _report(self, done: _Done) -> None:
        """Answer now, or when the time has come."""
        token = done.answer["lease_token"]
        match done.when:
            case Fate.DIES:
                lease = self._node.leases[token].lease
                self._later(lease.duration_ms, token, None)
            case Later(after_ms=0):
                self._complete_activity(done.answer)
            case Later():
                self._later(done.when.after_ms, token, done.answer)

    def _run_and_be_missed(self, offer: OfferActivity, outcome: object) -> None:
        """The worker does the work and is taken for dead: its answer comes too late."""
        done = self._run(self._take_activity(offer, _SHORT_LEASE_MS), outcome)
        self._miss(done.answer["lease_token"])
        if isinstance(done.when, Fate) or "error" in done.answer:
            # The next attempt takes the next turn, as it would have. What succeeded does so again.
            self._turns[offer.step_name] = self._turns.get(offer.step_name, 0) + 1
        late = self._complete_activity(done.answer)
        assert isinstance(late, Rejection), "a completion was taken after its lease had ended"
        assert late.reason is Reason.LEASE_LOST, late.message

    def _run(self, task: dict[str, Any], outcome: object) -> _Done:
        """Run the code or the fake."""
        token = task["lease_token"]
        info = ActivityInfo(task, lambda info: self._beat(info, token))
        self.calls.append(Call(task, info))
        self._node.watchers[token] = lambda cancelled: info.lose(cancelled=cancelled)
        when, fields = self._deployment.run(task["step_name"], outcome, task, info)
        named = ("workflow_id", "step_name", "sequence", "lease_token")
        answer = json.loads(json.dumps({name: task[name] for name in named} | fields))
        return _Done(when, answer)

    def _take_activity(self, offer: OfferActivity, duration_ms: int = 0) -> dict[str, Any]:
        key = offer.run
        command = GrantActivity(
            namespace=key.namespace,
            workflow_id=key.workflow_id,
            run_id=key.run_id,
            sequence=offer.sequence,
            attempt=offer.attempt,
            nonce=f"a{next(self._numbers)}",
            worker_id=_WORKER,
            node=_NODE,
            poll_id="",
            duration_ms=duration_ms or self._config.lease_ms,
        )
        assert isinstance(self._node.execute(command), Granted)
        run = self._node.run(key)
        task = describe.activity_task(run, run.steps[offer.sequence - 1])
        return as_json(views.activity_task(task))

    def _complete_activity(self, body: dict[str, Any]) -> Answer:
        self._node.watchers.pop(body["lease_token"], None)
        return self._node.execute(read_outcome(body))

    def _beat(self, info: ActivityInfo, token: str) -> None:
        """Details that activity code reports are recorded at once."""
        self._node.execute(
            RecordHeartbeat(
                namespace=DEFAULT_NAMESPACE,
                workflow_id=info.workflow_id,
                lease_token=token,
                details=info.take_details() or b"",
            )
        )

    def _give_back(self, task: dict[str, Any]) -> None:
        self._node.execute(
            ReturnTask(
                namespace=DEFAULT_NAMESPACE,
                workflow_id=task["workflow_id"],
                token=task["lease_token"],
            )
        )

    def _may_be_missed(self, offer: OfferActivity) -> bool:
        """Whether another attempt would follow."""
        step: Step = self._node.run(offer.run).steps[offer.sequence - 1]
        error_type = LEASE_EXPIRED_TYPE
        again = may_retry(
            step.retry, attempts=offer.attempt, error_type=error_type, non_retryable=False
        )
        pause_ms = _SHORT_LEASE_MS + backoff_ms(step.retry, offer.attempt)
        return again and outlasts(step, self._node.time_ms + pause_ms)

    # ---- time ----------------------------------------------------------------------------------

    def _later(self, after_ms: int, token: str, answer: dict[str, Any] | None) -> None:
        at_ms = self._node.time_ms + after_ms
        heapq.heappush(self._due, _Due(at_ms, next(self._numbers), token, answer))

    def _do_due(self, due: _Due) -> None:
        if due.answer is not None:
            self._complete_activity(due.answer)
        elif due.token in self._node.leases:
            self._miss(due.token)

    def _miss(self, token: str) -> None:
        """The lease runs out, at its very end."""
        hold = self._node.leases[token]
        ends_ms = hold.held_since_ms + hold.lease.duration_ms
        self._node.time_ms = max(self._node.time_ms, ends_ms)
        run = hold.lease.run
        self._node.execute(
            ExpireLease(namespace=run.namespace, workflow_id=run.workflow_id, token=token)
        )


def _refused(decision: Decision, why: str) -> str:
    return (
        f"the decision of workflow {decision.task['workflow_id']!r} on "
        f"{decision.task['history_length']} events was refused: {why}"
    )
