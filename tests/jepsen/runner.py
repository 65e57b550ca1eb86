"""One run from the first node's start to the stored history."""

from __future__ import annotations

import contextlib
import shlex
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raftflow.cluster.api.handlers.admin import VERSION
from tests.jepsen import seeded, store
from tests.jepsen.aftermath import AFTER, BEFORE, Probes, compare_indexes
from tests.jepsen.context import Run
from tests.jepsen.history import FAIL, INVOKE, History, Op
from tests.jepsen.hosts.isolation import isolated
from tests.jepsen.hosts.loopback import Loopback
from tests.jepsen.hosts.netns import Netns
from tests.jepsen.nemesis.conductor import Conductor, Pace, quiet
from tests.jepsen.nemesis.families import possible
from tests.jepsen.observer import Observer
from tests.jepsen.workloads.catalog import ALL as WORKLOADS

SERVING_S = 60.0
BEFORE_S = 4.0
SETTLE_S = 20.0  # probes go on so long after the last heal
JOIN_S = 120.0
STOP_S = 10.0
# Small files, so that segments are sealed, logs compacted and copies sent many times in a run.
SETTINGS = {
    "RAFTFLOW_LEASE_MS": "5000",
    "RAFTFLOW_DECISION_TIMEOUT_MS": "3000",
    "RAFTFLOW_STORAGE_SEGMENT_BYTES": str(1 << 20),
    "RAFTFLOW_STORAGE_LOG_TAIL_ENTRIES": "500",
    "RAFTFLOW_STORAGE_CHECKPOINT_INTERVAL_MS": "1500",
}

# What goes wrong in a run: called with it once clients are at work; all is healed when it returns.
Mix = Callable[[Run], None]


@dataclass(frozen=True, slots=True)
class Options:
    workloads: tuple[str, ...]
    nemeses: tuple[str, ...] = ()
    nodes: int = 3
    seconds: float = 60.0
    seed: int = 1
    rate: float = 1.0
    filesystem: str = "ext4"
    release: str = ""  # that all nodes begin with; empty: this tree
    bug: str = ""  # of `seeded.py`, that all nodes have
    pace: Pace = field(default_factory=Pace)


@contextlib.contextmanager
def hosts(
    directory: Path, nodes: int, *, filesystem: str = "ext4", release: str = ""
) -> Iterator[Any]:
    """The best that this process may have; all of it ends with the block."""
    cluster: Any
    if isolated():
        cluster = Netns(directory, nodes, settings=SETTINGS, release=release, filesystem=filesystem)
    else:
        cluster = Loopback(directory, nodes, settings=SETTINGS, release=release)
    try:
        yield cluster
    finally:
        cluster.close()


def execute(directory: Path, options: Options, mix: Mix | None = None) -> None:
    """Leaves the stored run in ``directory``. Without a mix of its own it is the changing one of
    the families that the options name."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(
            hosts(
                directory,
                options.nodes,
                filesystem=options.filesystem,
                release=options.release,
            )
        )
        if options.bug:
            cluster.program = seeded.command(options.bug)
        nemeses, cannot = possible(list(options.nemeses), cluster.capabilities)
        names, missing = _workloads(options.workloads, cluster.capabilities)
        left_out = (*cluster.left_out, *cannot, *missing)
        for words in left_out:
            say(f"left out: {words}")
        store.write_meta(directory, _meta(options, cluster, names, nemeses, left_out))
        history = stack.enter_context(History(directory / store.HISTORY))
        run = Run(cluster, history, directory, options.seed, rate=options.rate)
        stack.callback(_end_workers, run)
        cluster.start_all()
        cluster.wait_serving(SERVING_S)
        observer = Observer(cluster, directory / store.SAMPLES)
        stack.callback(observer.close)
        observer.start()
        conductor = Conductor(run, nemeses, options.pace)
        _phases(run, names, mix or (lambda _: conductor.run(options.seconds)))


def _workloads(names: Sequence[str], capabilities: frozenset[str]) -> tuple[list[str], list[str]]:
    """Those that this cluster can serve, and words for the others."""
    can, cannot = [], []
    for name in names:
        missing = getattr(WORKLOADS[name](), "needs", frozenset()) - capabilities
        if missing:
            cannot.append(f"workload {name}: there is no {', '.join(sorted(missing))}")
        else:
            can.append(name)
    return can, cannot


def _phases(run: Run, names: Sequence[str], mix: Mix) -> None:
    workloads = [WORKLOADS[name]() for name in names]
    probes = Probes(run)
    probes.set_up()
    for workload in workloads:
        workload.setup(run)
    clients = [
        threading.Thread(target=_guarded(run, workload.name, body), daemon=True)
        for workload in workloads
        for body in workload.threads(run)
    ]
    for client in clients:
        client.start()
    try:
        _under_fire(run, probes, mix, clients)
    except BaseException:
        # Whoever stops the runner is told nothing by clients that miss what it takes down.
        run.calm.set()
        run.stopping.set()
        run.cluster.kill(*run.cluster.ids())
        until = time.monotonic() + STOP_S
        for client in clients:
            client.join(max(0.0, until - time.monotonic()))
        raise
    compare_indexes(run)
    for workload in workloads:
        _guarded(run, workload.name, lambda workload=workload: workload.final(run))()


def _under_fire(run: Run, probes: Probes, mix: Mix, clients: Sequence[threading.Thread]) -> None:
    probes.round(BEFORE, BEFORE_S)
    say(f"{len(clients)} clients at work")
    # Whatever goes wrong from here on, the history is whole and will be judged.
    _guarded(run, "mix", lambda: mix(run))()
    run.calm.set()
    _guarded(run, "after-the-last-heal", lambda: run.cluster.wait_serving(SERVING_S))()
    with quiet(run):
        probes.round(AFTER, SETTLE_S)
    run.stopping.set()
    for client in clients:
        client.join(JOIN_S)
        if client.is_alive():
            _broken(run, "runner", "a client does not end")


def _guarded(run: Run, name: str, body: Callable[[], None]) -> Callable[[], None]:
    """A client that breaks is a finding, not silence."""

    def guarded() -> None:
        try:
            body()
        except Exception:  # noqa: BLE001
            _broken(run, name, traceback.format_exc())

    return guarded


def _broken(run: Run, name: str, error: str) -> None:
    say(f"{name}: {error}")
    process = f"nemesis/{name}"
    run.history.record(Op(process=process, f="suite-broken", type=INVOKE))
    run.history.record(Op(process=process, f="suite-broken", type=FAIL, error=error))


def _end_workers(run: Run) -> None:
    for worker in run.workers:
        worker.kill()
        worker.wait()


def _meta(
    options: Options,
    cluster: Any,
    workloads: Sequence[str],
    nemeses: Sequence[str],
    left_out: Sequence[str],
) -> store.Meta:
    return store.Meta(
        command=_command(options.seed),
        seed=options.seed,
        nodes=tuple(cluster.ids()),
        workloads=tuple(workloads),
        nemeses=tuple(nemeses),
        seconds=options.seconds,
        hosts=type(cluster).__name__.lower(),
        left_out=tuple(left_out),
        version=VERSION,
        commit=store.commit(),
        begun=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        begun_ns=time.monotonic_ns(),
        versions=store.versions(),
    )


def _command(seed: int) -> str:
    """What repeats this run: its own command line with the seed, wherever it was stored."""
    words = list(sys.argv[1:])
    if "--store" in words:
        at = words.index("--store")
        del words[at : at + 2]
    if "--seed" not in words:
        words += ["--seed", str(seed)]
    return shlex.join(["python", "-m", "tests.jepsen", *words])


def say(words: str) -> None:
    print(f"jepsen: {words}", file=sys.stderr, flush=True)
