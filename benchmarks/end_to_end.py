"""Through the API, on three real nodes with fsync on: single commits, and whole workflows.

usage: python -m benchmarks.end_to_end [--seconds 5] [commits] [workflows]
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks import _cluster

WORKER = """
import sys
from raftflow_sdk import Worker
worker = Worker(addresses=sys.argv[1:], activity_slots=16, workflow_slots=8)

@worker.workflow("ThreeSteps")
def three(ctx):
    value = ctx.input
    for name in ("first", "second", "third"):
        value = ctx.activity(name, value)
    return value

for name in ("first", "second", "third"):
    worker.activity(name)(lambda value: value)
worker.run()
"""


async def post(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> Any:
    async with session.post(url, json=body) as response:
        answer = await response.json()
        if response.status >= 400:
            raise RuntimeError(f"{response.status}: {answer}")
        return answer


async def get(session: aiohttp.ClientSession, url: str) -> Any:
    async with session.get(url) as response:
        answer = await response.json()
        if response.status >= 400:
            raise RuntimeError(f"{response.status}: {answer}")
        return answer


async def commits(cluster: _cluster.DevCluster, seconds: float) -> None:
    """A commit here is a signal of 256 bytes: command, log, engine, store, answer."""
    leader = f"http://{cluster.http(cluster.leader())}"
    payload = "x" * 256
    rows = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await post(session, f"{leader}/api/workflow-types", {"workflow_types": ["Idle"]})
        for concurrency in (1, 16, 64, 256):
            for n in range(concurrency):
                body = {"type": "Idle", "workflow_id": f"c{concurrency}-{n}"}
                await post(session, f"{leader}/api/workflows", body)
            took: list[float] = []
            end = time.perf_counter() + seconds

            async def client(
                n: int, concurrency: int = concurrency, took: list[float] = took, end: float = end
            ) -> None:
                url = f"{leader}/api/workflows/c{concurrency}-{n}/signal"
                while (began := time.perf_counter()) < end:
                    await post(session, url, {"name": "n", "payload": payload})
                    took.append((time.perf_counter() - began) * 1_000)

            before = _cluster.counters(cluster)
            began = time.perf_counter()
            await asyncio.gather(*(client(n) for n in range(concurrency)))
            elapsed = time.perf_counter() - began
            used = _cluster.counters(cluster) - before
            rows.append(
                (
                    concurrency,
                    len(took) / elapsed,
                    _cluster.percentile(took, 0.5),
                    _cluster.percentile(took, 0.99),
                    used.entries,
                    used.fsyncs,
                    used.messages,
                    used.cpu_ms / len(took),
                )
            )
    _cluster.table(
        "commits through the API (256-byte signals, HTTP at the leader, engine and store)",
        ("clients", "commits/s", "p50 ms", "p99 ms", "entries", "fsyncs", "messages", "CPU ms/c"),
        rows,
    )


async def workflows(cluster: _cluster.DevCluster, seconds: float, pid: int) -> None:
    address = f"http://{cluster.http(cluster.leader())}"
    rows = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await registered(session, address)
        for concurrency in (1, 16, 64):
            took: list[float] = []
            end = time.perf_counter() + seconds

            async def client(
                n: int, concurrency: int = concurrency, took: list[float] = took, end: float = end
            ) -> None:
                number = 0
                while (began := time.perf_counter()) < end:
                    workflow_id = f"w{concurrency}-{n}-{number}"
                    await finish(session, address, workflow_id)
                    took.append((time.perf_counter() - began) * 1_000)
                    number += 1

            before = _cluster.counters(cluster, others=[pid])
            began = time.perf_counter()
            await asyncio.gather(*(client(n) for n in range(concurrency)))
            elapsed = time.perf_counter() - began
            used = _cluster.counters(cluster, others=[pid]) - before
            count = len(took)
            rows.append(
                (
                    concurrency,
                    count / elapsed,
                    _cluster.percentile(took, 0.5),
                    _cluster.percentile(took, 0.99),
                    used.entries / count,
                    used.fsyncs / count,
                    used.messages / count,
                    used.requests / count,
                    used.cpu_ms / count,
                )
            )
    _cluster.table(
        "three-step workflows, finished (one SDK worker; per workflow; CPU of nodes and worker)",
        (
            "at once",
            "wf/s",
            "p50 ms",
            "p99 ms",
            "entries",
            "fsyncs",
            "messages",
            "requests",
            "CPU ms",
        ),
        rows,
    )


async def registered(session: aiohttp.ClientSession, address: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            await finish(session, address, f"warm-up-{time.monotonic_ns()}")
            return
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)


async def finish(session: aiohttp.ClientSession, address: str, workflow_id: str) -> None:
    """Start a run and wait for its end as the SDK does: in one long poll and one look."""
    body = {"type": "ThreeSteps", "workflow_id": workflow_id, "input": "x"}
    await post(session, f"{address}/api/workflows", body)
    run = f"{address}/api/workflows/{workflow_id}"
    await get(session, f"{run}/history?from=1000000000&wait=25000")
    status = (await get(session, run))["status"]
    if status != "COMPLETED":
        raise RuntimeError(f"{workflow_id} is {status}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="per row")
    parser.add_argument("what", nargs="*", default=["commits", "workflows"])
    arguments = parser.parse_args()
    with _cluster.cluster() as cluster, tempfile.TemporaryDirectory() as directory:
        if "commits" in arguments.what:
            asyncio.run(commits(cluster, arguments.seconds))
        if "workflows" in arguments.what:
            script = Path(directory) / "worker.py"
            script.write_text(WORKER)
            worker = subprocess.Popen([sys.executable, str(script), *cluster.addresses()])
            try:
                asyncio.run(workflows(cluster, arguments.seconds, worker.pid))
            finally:
                worker.kill()


if __name__ == "__main__":
    main()
