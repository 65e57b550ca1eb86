"""What a node remembers of attempts that leave no event."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from engine_harness import (
    EngineHarness,
    activity,
    complete_activity,
    fail_activity,
    grant_activity,
    start,
)

from raftflow.cluster import attempts as module
from raftflow.cluster.attempts import MOST_OF_STEP, Attempts
from raftflow.engine.commands import (
    Batch,
    CancelRun,
    Command,
    ExpireLease,
    ReturnTask,
    TimerKind,
)
from raftflow.engine.ids import DEFAULT_NAMESPACE, RunKey
from raftflow.engine.limits import Limits
from raftflow.engine.rejections import Granted
from raftflow.engine.retry import RetryPolicy

RETRY = RetryPolicy(max_attempts=0, initial_backoff_ms=100, max_backoff_ms=100)
LEASED_MS = 7


@dataclass
class Node:
    """Applies what it is given, and remembers."""

    engine: EngineHarness = field(default_factory=EngineHarness)
    attempts: Attempts = field(default_factory=Attempts)

    def __post_init__(self) -> None:
        self.engine.register("Order")

    def do(self, *commands: Command, advance_ms: int = 0) -> str:
        """Returns the token that the first command granted, or ""."""
        applied = self.engine.apply(*commands, advance_ms=advance_ms)
        batch = Batch(
            index=self.engine.index,
            term=1,
            time_ms=self.engine.time_ms,
            commands=(),
            limits=Limits(),
        )
        self.attempts.on_applied(applied, batch)
        answer = applied.replies[0].answer
        return answer.token if isinstance(answer, Granted) else ""

    def charge(self, workflow_id: str = "w", steps: int = 1) -> None:
        self.engine.do(start(workflow_id, run_id="r1"))
        commands = [activity(number, "charge", retry=RETRY) for number in range(1, steps + 1)]
        self.engine.decide(workflow_id, *commands)

    def grant(
        self, worker: str, node: str = "n1", sequence: int = 1, workflow_id: str = "w"
    ) -> str:
        run = self.engine.run(workflow_id)
        granted = grant_activity(run, sequence, nonce=f"{self.engine.index}")
        return self.do(replace(granted, worker_id=worker, node=node))

    def fail(self, token: str, error: str, sequence: int = 1, workflow_id: str = "w") -> None:
        self.do(fail_activity(workflow_id, token, error), advance_ms=LEASED_MS)
        self.engine.fire(workflow_id, TimerKind.RETRY, sequence)

    def told(self, sequence: int = 1, workflow_id: str = "w") -> list[tuple[int, str, str, str]]:
        past = self.attempts.of(RunKey(DEFAULT_NAMESPACE, workflow_id, "r1")).get(sequence, ())
        return [(each.number, each.worker_id, each.node, each.error) for each in past]


@pytest.fixture
def node() -> Node:
    return Node()


def test_attempts_that_are_retried_are_kept_with_their_worker_and_node(node: Node) -> None:
    node.charge()
    node.fail(node.grant("w1", "n1"), "boom")
    node.fail(node.grant("w2", "n3"), "bang")
    node.do(complete_activity("w", node.grant("w3", "n2"), b"done"))
    assert node.told() == [(1, "w1", "n1", "boom"), (2, "w2", "n3", "bang")]
    [first, _] = node.attempts.of(RunKey(DEFAULT_NAMESPACE, "w", "r1"))[1]
    assert first.ended_ms - first.started_ms == LEASED_MS
    last = node.engine.history("w")[-1].body
    assert (last.attempt, last.worker_id) == (3, "w3"), "and the history has the third"


def test_an_attempt_whose_worker_was_not_heard_of(node: Node) -> None:
    node.charge()
    token = node.grant("w1")
    expire = ExpireLease(namespace=DEFAULT_NAMESPACE, workflow_id="w", token=token)
    node.do(expire, advance_ms=30_000)
    [(number, worker, _, error)] = node.told()
    assert (number, worker) == (1, "w1")
    assert "lease" in error


def test_a_task_that_was_handed_back_is_no_attempt(node: Node) -> None:
    node.charge()
    token = node.grant("gone")
    node.do(ReturnTask(namespace=DEFAULT_NAMESPACE, workflow_id="w", token=token))
    node.fail(node.grant("w1"), "boom")
    assert node.told() == [(1, "w1", "n1", "boom")]


def test_an_attempt_that_nobody_wants_any_more_has_no_error(node: Node) -> None:
    node.charge()
    node.fail(node.grant("w1"), "boom")
    node.grant("w2")
    cancel = CancelRun(
        namespace=DEFAULT_NAMESPACE, workflow_id="w", run_id="", reason="", request_id="c"
    )
    node.do(cancel)
    assert node.told() == [(1, "w1", "n1", "boom"), (2, "w2", "n1", "")]


def test_an_attempt_within_one_entry_is_not_known(node: Node) -> None:
    """What it was is no more when the entry is applied. Those after it are known."""
    node.charge()
    granted = replace(grant_activity(node.engine.run("w"), 1, nonce="n"), worker_id="w1")
    trial = Node()
    trial.charge()
    token = trial.do(granted)
    node.do(granted, fail_activity("w", token, "boom"))
    assert node.told() == []
    node.engine.fire("w", TimerKind.RETRY, 1)
    node.fail(node.grant("w2"), "bang")
    assert node.told() == [(2, "w2", "n1", "bang")]


def test_a_step_keeps_its_latest_attempts(node: Node) -> None:
    node.charge()
    for number in range(MOST_OF_STEP + 5):
        node.fail(node.grant("w1"), f"no {number}")
    assert [number for number, *_ in node.told()] == list(range(6, MOST_OF_STEP + 6))


def test_runs_that_failed_longest_ago_are_forgotten_first(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 4)
    for workflow_id in ("a", "b"):
        node.charge(workflow_id, steps=2)
        for sequence in (1, 2):
            token = node.grant("w1", sequence=sequence, workflow_id=workflow_id)
            node.fail(token, "boom", sequence, workflow_id)
    node.fail(node.grant("w1", sequence=1, workflow_id="b"), "bang", 1, "b")
    assert node.told(1, "a") == node.told(2, "a") == []
    assert [number for number, *_ in node.told(1, "b")] == [1, 2]
    node.charge("c")
    node.fail(node.grant("w1", workflow_id="c"), "boom", 1, "c")
    assert node.told(2, "b"), "three and one are not more than four"
