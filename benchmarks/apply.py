"""How fast the engine applies: finished three-step workflows, in memory, one thread.

    python benchmarks/apply.py [workflows]

The commands are made beforehand, so that apply alone is measured: decoding, storing and the log
have benchmarks of their own. CPU time, so that neighbours on the machine count little; the best
round counts.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator

from raftflow.engine.apply import apply, touched_keys
from raftflow.engine.commands import (
    Batch,
    Command,
    CompleteActivity,
    CompleteDecision,
    CompleteWorkflow,
    GrantActivity,
    GrantDecision,
    IdConflictPolicy,
    IdReusePolicy,
    RegisterTypes,
    ScheduleActivity,
    StartRun,
    WorkflowCommand,
)
from raftflow.engine.ids import DEFAULT_NAMESPACE, TokenParts, format_token
from raftflow.engine.limits import DEFAULT_LIMITS
from raftflow.engine.rejections import Rejection
from raftflow.engine.retry import RetryPolicy
from raftflow.engine.state import Catalog, WorkingSet

NS = DEFAULT_NAMESPACE
STEPS = ("reserve", "charge", "ship")
BATCH = 64
ROUNDS = 5
INPUT = b'{"order": 42, "items": ["book", "lamp"]}'
RETRY = RetryPolicy(max_attempts=3, initial_backoff_ms=200)


def life(number: int) -> Iterator[Command]:
    """Every command of one run, with the tokens that its grants will make."""
    workflow, run = f"order-{number}", f"{number:032x}"
    yield StartRun(
        namespace=NS,
        workflow_id=workflow,
        run_id=run,
        workflow_type="Order",
        task_queue="default",
        input=INPUT,
        execution_timeout_ms=0,
        id_reuse_policy=IdReusePolicy.REJECT_DUPLICATE,
        id_conflict_policy=IdConflictPolicy.FAIL,
        request_id=f"request-{number}",
    )
    length = 1
    for sequence, name in enumerate(STEPS, start=1):
        yield from decide(
            workflow,
            run,
            length,
            ScheduleActivity(
                step_name=name, sequence=sequence, input=INPUT, retry=RETRY, task_queue=""
            ),
        )
        yield from act(workflow, run, sequence)
        length += 2
    yield from decide(workflow, run, length, CompleteWorkflow(output=INPUT))


def decide(workflow: str, run: str, length: int, command: WorkflowCommand) -> Iterator[Command]:
    nonce = f"d{length:015x}"
    yield GrantDecision(
        namespace=NS,
        workflow_id=workflow,
        run_id=run,
        nonce=nonce,
        worker_id="worker-1",
        node="n1",
        poll_id="0123456789abcdef",
        timeout_ms=10_000,
    )
    token = format_token(TokenParts(NS, run, length, nonce))
    yield CompleteDecision(
        namespace=NS, workflow_id=workflow, task_token=token, commands=(command,)
    )


def act(workflow: str, run: str, sequence: int) -> Iterator[Command]:
    nonce = f"a{sequence:015x}"
    yield GrantActivity(
        namespace=NS,
        workflow_id=workflow,
        run_id=run,
        sequence=sequence,
        attempt=1,
        nonce=nonce,
        worker_id="worker-1",
        node="n1",
        poll_id="0123456789abcdef",
        duration_ms=30_000,
    )
    yield CompleteActivity(
        namespace=NS,
        workflow_id=workflow,
        step_name=STEPS[sequence - 1],
        sequence=sequence,
        lease_token=format_token(TokenParts(NS, run, sequence, nonce)),
        failed=False,
        output=INPUT,
    )


def batches(workflows: int) -> list[Batch]:
    """Lives side by side, BATCH at a time, as a busy leader's entries look."""
    out: list[Batch] = []
    for first in range(0, workflows, BATCH):
        lives = [life(number) for number in range(first, min(first + BATCH, workflows))]
        for commands in zip(*lives, strict=True):
            named = tuple((f"c{n}", command) for n, command in enumerate(commands))
            index = len(out) + 2
            out.append(
                Batch(index=index, term=1, time_ms=index, commands=named, limits=DEFAULT_LIMITS)
            )
    return out


def one_round(prepared: list[Batch]) -> int:
    """Nanoseconds of CPU for apply (with the keys named, as the replica does) for all batches."""
    state = WorkingSet(catalog=Catalog())
    register = RegisterTypes(namespace=NS, workflow_types=("Order",))
    apply(
        state,
        Batch(index=1, term=1, time_ms=1, commands=(("r", register),), limits=DEFAULT_LIMITS),
    )
    gc.collect()
    began = time.process_time_ns()
    for batch in prepared:
        for _, command in batch.commands:
            touched_keys(command)
        applied = apply(state, batch)
        for reply in applied.replies:
            assert not isinstance(reply.answer, Rejection), reply
    took = time.process_time_ns() - began
    assert all(not run.open for run in state.runs.values())
    return took


def main() -> None:
    workflows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    prepared = batches(workflows)
    commands = sum(len(batch.commands) for batch in prepared)
    best = min(one_round(prepared) for _ in range(ROUNDS))
    print(f"{workflows} workflows, {commands} commands, best of {ROUNDS} rounds")
    print(f"{commands * 1_000_000_000 // best:>10,} commands/s")
    print(f"{best / commands / 1_000:>10.2f} µs per command")
    print(f"{best / workflows / 1_000:>10.1f} µs per workflow")


if __name__ == "__main__":
    main()
