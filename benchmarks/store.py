"""Replica and store of one node: `python -m benchmarks.store [runs]`.

Drives three-step workflows through the real replica and store, fed from memory in entries of many
commands, then asks for lists, counts and searches among all the runs.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

from raftflow.cluster.codec import encode_command, encode_entry
from raftflow.cluster.replica import Replica, ReplicaSettings
from raftflow.cluster.store import RunFilter, Store
from raftflow.engine.commands import (
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
from raftflow.engine.ids import TokenParts, format_token
from raftflow.engine.limits import DEFAULT_LIMITS
from raftflow.engine.retry import NO_RETRY
from raftflow.engine.state import RunStatus
from raftflow.raftlog.journal import LogEntry

COMMANDS_PER_ENTRY = 32
STEPS = ("reserve", "charge", "ship")
NAMESPACE = "default"


class Feed:
    """Stands in for consensus: a log that is committed as soon as it is written."""

    def __init__(self) -> None:
        self.index = 0
        self.time_ms = 1_764_445_000_000
        self.number = 0

    def compact(self, index: int) -> None:
        """Nothing is kept."""

    def fatal(self, error: BaseException) -> NoReturn:
        raise SystemExit(str(error))

    def entries(self, commands: list[Command], size: int = COMMANDS_PER_ENTRY) -> list[LogEntry]:
        made = []
        for start in range(0, len(commands), size):
            self.index += 1
            self.time_ms += 1
            encoded = []
            for command in commands[start : start + size]:
                self.number += 1
                encoded.append(encode_command(f"n1/{self.number}", command))
            payload = encode_entry(
                encoded, time_ms=self.time_ms, term=1, node="n1", limits=DEFAULT_LIMITS
            )
            made.append(LogEntry(self.index, 1, payload))
        return made


class Workload:
    """The commands of many three-step workflows, round by round: no answer needs to be read, since
    tokens and history lengths are known beforehand."""

    def __init__(self, first: int, count: int) -> None:
        self.runs = [(f"order-{n:08d}", f"{n:032x}") for n in range(first, first + count)]

    def starts(self) -> list[Command]:
        return [
            StartRun(
                namespace=NAMESPACE,
                workflow_id=workflow_id,
                run_id=run_id,
                workflow_type="Order" if n % 10 else "Refund",
                task_queue="default",
                input=b'{"amount": 4200, "customer": "c-1"}',
                execution_timeout_ms=0,
                id_reuse_policy=IdReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=IdConflictPolicy.FAIL,
                request_id="",
            )
            for n, (workflow_id, run_id) in enumerate(self.runs)
        ]

    def rounds(self) -> list[list[Command]]:
        """Everything after the start."""
        rounds = []
        for done, name in enumerate(STEPS):
            history = 1 + 2 * done
            rounds.append(self._grant_decisions(history))
            step = ScheduleActivity(
                step_name=name,
                sequence=done + 1,
                input=b'{"order": 1}',
                retry=NO_RETRY,
                task_queue="",
            )
            rounds.append(self._decide(history, step))
            rounds.append(self._grant_activities(done + 1))
            rounds.append(self._complete_activities(done + 1))
        rounds.append(self._grant_decisions(7))
        rounds.append(self._decide(7, CompleteWorkflow(output=b"shipped")))
        return rounds

    def _token(self, run_id: str, number: int) -> str:
        return format_token(TokenParts(NAMESPACE, run_id, number, f"t{number}"))

    def _grant_decisions(self, history: int) -> list[Command]:
        return [
            GrantDecision(
                namespace=NAMESPACE,
                workflow_id=workflow_id,
                run_id=run_id,
                nonce=f"t{history}",
                worker_id="worker-1",
                node="n1",
                poll_id="p",
                timeout_ms=10_000,
            )
            for workflow_id, run_id in self.runs
        ]

    def _decide(self, history: int, command: WorkflowCommand) -> list[Command]:
        return [
            CompleteDecision(
                namespace=NAMESPACE,
                workflow_id=workflow_id,
                task_token=self._token(run_id, history),
                commands=(command,),
            )
            for workflow_id, run_id in self.runs
        ]

    def _grant_activities(self, sequence: int) -> list[Command]:
        return [
            GrantActivity(
                namespace=NAMESPACE,
                workflow_id=workflow_id,
                run_id=run_id,
                sequence=sequence,
                attempt=1,
                nonce=f"t{sequence}",
                worker_id="worker-1",
                node="n1",
                poll_id="p",
                duration_ms=30_000,
            )
            for workflow_id, run_id in self.runs
        ]

    def _complete_activities(self, sequence: int) -> list[Command]:
        return [
            CompleteActivity(
                namespace=NAMESPACE,
                workflow_id=workflow_id,
                step_name="",
                sequence=0,
                lease_token=self._token(run_id, sequence),
                failed=False,
                output=b'{"ok": true}',
            )
            for workflow_id, run_id in self.runs
        ]


async def feed(replica: Replica, entries: list[LogEntry]) -> None:
    replica.on_apply(entries)
    await replica.wait_applied(entries[-1].index, timeout_ms=600_000)
    await replica.written(entries[-1].index)


async def three_steps(replica: Replica, source: Feed, workflows: int) -> None:
    work = Workload(0, workflows)
    log = [source.entries(work.starts()), *[source.entries(each) for each in work.rounds()]]
    commands = workflows * len(log)
    wall, cpu, loop = time.perf_counter(), time.process_time(), time.thread_time()
    for entries in log:
        await feed(replica, entries)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    loop = time.thread_time() - loop
    counts = await replica._store.counts(RunFilter(namespace=NAMESPACE))
    done = counts.by_status[RunStatus.COMPLETED]
    assert done == workflows, done
    print(f"three-step workflows          {workflows}")
    print(f"commands/s                    {commands / wall:.0f}")
    print(f"entries/s                     {commands / wall / COMMANDS_PER_ENTRY:.0f}")
    print(f"loop CPU per command          {loop / commands * 1e6:.1f} µs")
    print(f"all CPU per command           {cpu / commands * 1e6:.1f} µs")
    print(f"all CPU per workflow          {cpu / workflows * 1e3:.2f} ms")


async def latency(name: str, question: Callable[[], Awaitable[object]], times: int = 15) -> None:
    samples = []
    for _ in range(times):
        began = time.perf_counter()
        await question()
        samples.append((time.perf_counter() - began) * 1e3)
    print(f"{name:<42}{statistics.median(samples):8.2f} ms   max {max(samples):8.2f} ms")


async def park(replica: Replica, source: Feed, first: int, runs: int) -> None:
    wall = time.perf_counter()
    for start in range(first, first + runs, 20_000):
        count = min(20_000, first + runs - start)
        await feed(replica, source.entries(Workload(start, count).starts(), 64))
    wall = time.perf_counter() - wall
    print(f"\n{runs} parked runs: {runs / wall:.0f} starts/s")


async def questions(store: Store) -> None:
    def ask(**wanted: object) -> Callable[[], Awaitable[object]]:
        return lambda: store.list_runs(RunFilter(namespace=NAMESPACE, **wanted))  # type: ignore[arg-type]

    await latency("newest 200", ask())
    await latency("status=WAITING", ask(statuses=(RunStatus.WAITING,)))
    await latency("status=COMPLETED", ask(statuses=(RunStatus.COMPLETED,)))
    await latency("status=FAILED (none)", ask(statuses=(RunStatus.FAILED,)))
    await latency("type=Refund", ask(workflow_type="Refund"))
    await latency(
        "status=WAITING type=Refund", ask(statuses=(RunStatus.WAITING,), workflow_type="Refund")
    )
    await latency("task_queue=default", ask(task_queue="default"))
    await latency("task_queue=none", ask(task_queue="none"))
    await latency("q='order' (matches all)", ask(query="order"))
    await latency("q='0012345' (matches few)", ask(query="0012345"))
    await latency("q='zzzz' (matches none)", ask(query="zzzz"))
    await latency("q='9' (two letters or fewer)", ask(query="9"))
    await latency(
        "q='order' status=FAILED (none)", ask(query="order", statuses=(RunStatus.FAILED,))
    )
    await latency("started_after the middle", ask(started_after_ms=1_764_445_002_000))
    await latency("offset=9800", ask(offset=9_800))
    page = await store.list_runs(RunFilter(namespace=NAMESPACE, offset=9_800))
    await latency("cursor 10000 deep", ask(cursor=page.next_cursor))
    await latency("counts", lambda: store.counts(RunFilter(namespace=NAMESPACE)))
    await latency("open tasks, first 1000", lambda: store.open_tasks(after=None, limit=1_000))


async def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        store = await Store.open(path)
        replica = Replica(store=store, settings=ReplicaSettings(snapshots=Path(folder) / "copies"))
        source = Feed()
        replica.attach(source)
        register = RegisterTypes(namespace=NAMESPACE, workflow_types=("Order", "Refund"))
        await feed(replica, source.entries([register]))
        workflows = min(5_000, runs)
        await three_steps(replica, source, workflows)
        await park(replica, source, workflows, runs - workflows)
        await questions(store)
        began = time.perf_counter()
        await store.checkpoint()
        print(f"checkpoint                    {(time.perf_counter() - began) * 1e3:.0f} ms")
        began = time.perf_counter()
        _, manifest = await replica.make_copy()
        print(
            f"copy of {manifest.size >> 20} MiB               {time.perf_counter() - began:.2f} s"
        )
        await replica.stop()
        await store.close()
        began = time.perf_counter()
        store = await Store.open(path)
        print(f"open again                    {(time.perf_counter() - began) * 1e3:.0f} ms")
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
