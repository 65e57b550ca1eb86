"""A state with as many runs as are asked for, made without a cluster: `write` in a minute what a
cluster would take several for, byte for byte as its nodes would have it.

Commands are fed from memory to the replica and store of one node (as `benchmarks.store` does), and
a copy of the store is what any number of nodes begin from, as after `raftflow backup restore`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.store import NAMESPACE, Feed, feed
from raftflow.cluster.backup.manifest import Manifest
from raftflow.cluster.replica import Replica, ReplicaSettings
from raftflow.cluster.store import Store
from raftflow.engine.commands import (
    FEATURE_LEVEL,
    CancelRun,
    Command,
    CompleteDecision,
    CompleteWorkflow,
    ContinueAsNew,
    FailWorkflow,
    GrantDecision,
    IdConflictPolicy,
    IdReusePolicy,
    RegisterTypes,
    SignalRun,
    StartChildWorkflow,
    StartRun,
    TerminateRun,
    WorkflowCommand,
)
from raftflow.engine.ids import TokenParts, format_token

CHUNK = 10_000
ENTRY_COMMANDS = 64
ENTRY_MS = 1_000  # log time from entry to entry
TYPES = ("Order", "Order", "Order", "Order", "Order", "Refund", "Refund", "Invoice", "Report")
RARE_TYPE, RARE_EVERY = "Migration", 2_000
TIERS = ("gold", *["silver"] * 9, *["none"] * 90)
REGIONS = ("eu", "us", "ap")
CUSTOMERS = 5_000
FAMILY, CHILDREN = "family", 500
CHAIN, LINKS = "chain", 300
LONG, SIGNALS = "long", 9_000


async def write(state: Path, runs: int) -> Manifest:
    """Make the state, put it into the file, and say what it is."""
    with tempfile.TemporaryDirectory(prefix="raftflow-bench-") as folder:
        store = await Store.open(Path(folder) / "state.db")
        settings = ReplicaSettings(snapshots=Path(folder) / "copies")
        replica = Replica(store=store, settings=settings)
        source = Feed()
        replica.attach(source)
        for commands in _rounds(runs):
            entries = []
            for start in range(0, len(commands), ENTRY_COMMANDS):
                source.time_ms += ENTRY_MS
                entries += source.entries(commands[start : start + ENTRY_COMMANDS], ENTRY_COMMANDS)
            await feed(replica, entries)
        copy = await replica.copy_of_state()
        os.replace(copy.path, state)
        await replica.stop()
        await store.close()
    applied = copy.applied
    return Manifest(
        cluster_id="bench",
        node_id="n1",
        version="bench",
        feature_level=FEATURE_LEVEL,
        index=applied.index,
        term=applied.term,
        time_ms=applied.time_ms,
        digest=applied.digest.hex(),
        size=copy.size,
        sha256=copy.sha256,
        created_at="2026-01-01T00:00:00+00:00",
    )


def _rounds(runs: int) -> Iterator[list[Command]]:
    """Commands that may go into the log together, and no others: those of a round are applied
    before the next one begins."""
    yield [RegisterTypes(namespace=NAMESPACE, workflow_types=(*sorted({*TYPES}), RARE_TYPE))]
    yield from _special()
    for first in range(0, runs, CHUNK):
        numbers = range(first, min(first + CHUNK, runs))
        yield [_start(n) for n in numbers]
        yield [_grant(_id(n), _run_id(n)) for n in numbers if _end(n) == "decided"]
        yield list(filter(None, map(_ended, numbers)))


def _special() -> Iterator[list[Command]]:
    """A parent with many children, whom its first leader will start; a long chain; a long
    history."""
    yield [_begin(name, f"run-{name}-0") for name in (FAMILY, CHAIN, LONG)]
    signals = [
        SignalRun(
            namespace=NAMESPACE,
            workflow_id=LONG,
            run_id="",
            name=f"signal-{n % 10}",
            payload=b'{"note": "number %d"}' % n,
            request_id="",
        )
        for n in range(SIGNALS)
    ]
    yield list(signals)
    children = tuple(
        StartChildWorkflow(
            step_name="child",
            sequence=n + 1,
            workflow_type="Order",
            workflow_id=f"{FAMILY}-{n}",
            input=b"{}",
            task_queue="",
        )
        for n in range(CHILDREN)
    )
    yield [_grant(FAMILY, f"run-{FAMILY}-0")]
    yield [_decide(FAMILY, f"run-{FAMILY}-0", *children)]
    for link in range(LINKS):
        run_id = f"run-{CHAIN}-{link}"
        yield [_grant(CHAIN, run_id)]
        again = ContinueAsNew(input=b"{}")
        yield [_decide(CHAIN, run_id, again, new_run_id=f"run-{CHAIN}-{link + 1}")]


def _id(n: int) -> str:
    return f"{_type(n).lower()}-{n:08d}"


def _run_id(n: int) -> str:
    return f"{n:032x}"


def _type(n: int) -> str:
    return RARE_TYPE if n % RARE_EVERY == 1 else TYPES[n % len(TYPES)]


def _end(n: int) -> str:
    """How it ended, if it did; mixed well, so that no filter meets a run of its own."""
    share = n * 7_919 % 100
    return "open" if share < 40 else "decided" if share < 55 else "stopped"


def _start(n: int) -> StartRun:
    return _begin(
        _id(n),
        _run_id(n),
        workflow_type=_type(n),
        task_queue="slow" if n % 7 == 0 else "default",
        attributes=(
            ("amount", str(n % 1_000)),
            ("customer", f'"c-{n % CUSTOMERS}"'),
            ("region", f'"{REGIONS[n % len(REGIONS)]}"'),
            ("tier", f'"{TIERS[n % len(TIERS)]}"'),
        ),
    )


def _begin(
    workflow_id: str,
    run_id: str,
    *,
    workflow_type: str = "Report",
    task_queue: str = "default",
    attributes: tuple[tuple[str, str], ...] = (),
) -> StartRun:
    return StartRun(
        namespace=NAMESPACE,
        workflow_id=workflow_id,
        run_id=run_id,
        workflow_type=workflow_type,
        task_queue=task_queue,
        input=b'{"amount": 4200, "customer": "c-1"}',
        execution_timeout_ms=0,
        id_reuse_policy=IdReusePolicy.REJECT_DUPLICATE,
        id_conflict_policy=IdConflictPolicy.FAIL,
        request_id="",
        search_attributes=attributes,
        memo='{"note":"made for measuring"}' if attributes else "",
    )


def _ended(n: int) -> Command | None:
    how, workflow_id = _end(n), _id(n)
    if how == "open":
        return None
    if how == "decided":
        bad = FailWorkflow(error="the card was declined", error_type="Declined")
        end = bad if n % 30 == 0 else CompleteWorkflow(output=b"shipped")
        return _decide(workflow_id, _run_id(n), end)
    if n % 2:
        return TerminateRun(
            namespace=NAMESPACE, workflow_id=workflow_id, run_id="", reason="enough", request_id=""
        )
    return CancelRun(
        namespace=NAMESPACE, workflow_id=workflow_id, run_id="", reason="enough", request_id=""
    )


def _grant(workflow_id: str, run_id: str) -> GrantDecision:
    return GrantDecision(
        namespace=NAMESPACE,
        workflow_id=workflow_id,
        run_id=run_id,
        nonce="t",
        worker_id="worker-1",
        node="n1",
        poll_id="p",
        timeout_ms=10_000,
    )


def _decide(
    workflow_id: str, run_id: str, *commands: WorkflowCommand, new_run_id: str = ""
) -> CompleteDecision:
    token = format_token(TokenParts(NAMESPACE, run_id, 1, "t"))
    return CompleteDecision(
        namespace=NAMESPACE,
        workflow_id=workflow_id,
        task_token=token,
        commands=commands,
        new_run_id=new_run_id,
    )
