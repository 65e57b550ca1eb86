"""A stored run in one page of Markdown: `python -m tests.jepsen summary DIRECTORY --to FILE`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from tests.jepsen import store
from tests.jepsen.checker.faults import intervals
from tests.jepsen.checker.resources import WARM_S
from tests.jepsen.history import FAIL, INFO, OK, Call, Op, calls
from tests.jepsen.nemesis.conductor import NOT_NOW, QUIET
from tests.jepsen.observer import Sample

S = 1_000_000_000
MINUTE_NS = 60 * S
# What changes nothing says nothing about commits.
READS = frozenset({"read", "history", "events", "list", "take", "poll", "same", "indexes"})


def page(
    meta: store.Meta,
    history: Sequence[Op],
    samples: Sequence[Sample],
    verdicts: Mapping[str, Mapping[str, object]],
) -> str:
    made = [call for call in calls(history) if not call.process.startswith("nemesis/")]
    parts = (
        _head(meta, made, verdicts),
        _verdicts(verdicts),
        _workloads(made),
        _faults(history, meta.begun_ns),
        _pauses(made, samples, meta.begun_ns),
        _resources(samples, meta),
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(
    meta: store.Meta, made: Sequence[Call], verdicts: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    held = all(each["ok"] for each in verdicts.values())
    ends = [call.end_ns for call in made if call.end_ns != float("inf")]
    yield f"# {meta.seconds / 60:.0f} minutes of faults: {'held' if held else 'VIOLATED'}"
    yield ""
    yield f"Written by `python -m tests.jepsen summary` from the stored run of {meta.begun}."
    yield ""
    yield f"- raftflow {meta.version}, commit {meta.commit}, seed {meta.seed}"
    yield f"- {len(meta.nodes)} nodes on {meta.hosts} hosts; {', '.join(meta.versions)}"
    yield f"- {(max(ends, default=meta.begun_ns) - meta.begun_ns) / S / 60:.1f} minutes in all"
    yield f"- workloads: {', '.join(meta.workloads)}"
    yield f"- faults: {', '.join(meta.nemeses) or 'none'}"
    for words in meta.left_out:
        yield f"- left out: {words}"
    yield f"- again: `{meta.command}`"
    yield ""


def _verdicts(verdicts: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    yield "## Verdicts"
    yield ""
    yield "| check | verdict | what it saw |"
    yield "|---|---|---|"
    for name, each in verdicts.items():
        stats = each["stats"]
        assert isinstance(stats, Mapping)
        seen = ", ".join(f"{key} {value}" for key, value in stats.items())
        yield f"| {name} | {'held' if each['ok'] else '**violated**'} | {seen} |"
    yield ""
    for name, each in verdicts.items():
        errors = each["errors"]
        assert isinstance(errors, Sequence)
        for error in errors:
            yield f"- {name}: {error}"
            yield ""


def _workloads(made: Sequence[Call]) -> Iterator[str]:
    """What came of the calls."""
    yield "## Calls"
    yield ""
    yield "| workload | calls | ok | refused or not taken | unknown |"
    yield "|---|---:|---:|---:|---:|"
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for call in made:
        rows[call.process.split("/")[0]][call.kind] += 1
    rows["all"] = sum(rows.values(), Counter())
    for name, kinds in rows.items():
        outcomes = " | ".join(f"{kinds[kind]:,}" for kind in (OK, FAIL, INFO))
        yield f"| {name} | {kinds.total():,} | {outcomes} |"
    yield ""


def _faults(history: Sequence[Op], begun_ns: int) -> Iterator[str]:
    yield "## Faults"
    yield ""
    yield "| fault | took effect | not now | failed | seconds in all | first, minutes |"
    yield "|---|---:|---:|---:|---:|---:|"
    found = defaultdict(list)
    for fault in intervals(history):
        if fault.name != "suite-broken":
            found[fault.name].append(fault)
    for name in sorted(found, key=lambda name: (name == QUIET, name)):
        faults = found[name]
        struck = [fault for fault in faults if not fault.problem]
        not_now = [fault for fault in faults if fault.problem.startswith(NOT_NOW)]
        lasted = sum((f.end_ns - f.start_ns) / S for f in struck if f.ended)
        first = (faults[0].start_ns - begun_ns) / S / 60
        failed = len(faults) - len(struck) - len(not_now)
        yield (
            f"| {name} | {len(struck)} | {len(not_now)} | {failed} | {lasted:.0f} | {first:.1f} |"
        )
    yield ""


def _pauses(made: Sequence[Call], samples: Sequence[Sample], begun_ns: int) -> Iterator[str]:
    yield "## Pauses and elections"
    yield ""
    probes = [call.end_ns for call in made if call.f == "probe" and call.ok]
    begun, end = min(probes, default=0), max(probes, default=0)  # then come reads alone
    done = sorted(
        call.end_ns
        for call in made
        if call.ok and call.f not in READS and begun <= call.end_ns <= end
    )
    gaps = sorted(((b - a, a) for a, b in pairwise(done)), reverse=True)[:5]
    shown = ", ".join(
        f"{gap / S:.1f} s (minute {(at - begun_ns) / S / 60:.1f})" for gap, at in gaps
    )
    yield f"- longest times without an acknowledged change, whatever was broken: {shown}"
    leaders = Counter(s.node for s in samples if s.role == "leader")
    yield f"- highest term: {max((s.term for s in samples), default=0)}"
    shown = ", ".join(f"{node} {count / leaders.total():.0%}" for node, count in leaders.items())
    yield f"- who led: {shown}"
    ended = sum(s.ended is not None for s in samples)
    yield f"- processes of nodes that ended: {ended}"
    yield ""


def _resources(samples: Sequence[Sample], meta: store.Meta) -> Iterator[str]:
    """The median of one minute after the warm-up, and of the last one."""
    yield "## Memory and descriptors"
    yield ""
    yield "| node | MiB warm | MiB at the end | most MiB | descriptors warm | at the end | most |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    begun = min((s.time_ns for s in samples), default=0) + WARM_S * S
    end = max((s.time_ns for s in samples), default=0)
    for node in meta.nodes:
        alive = [s for s in samples if s.node == node and s.rss_kib]
        warm = [s for s in alive if begun <= s.time_ns < begun + MINUTE_NS]
        last = [s for s in alive if s.time_ns > end - MINUTE_NS]
        if not warm or not last:
            yield f"| {node} | the run was too short | | | | | |"
            continue
        memory = [median(s.rss_kib for s in part) / 1024 for part in (warm, last)]
        files = [median(s.descriptors for s in part) for part in (warm, last)]
        most = max(s.rss_kib for s in alive) / 1024
        yield (
            f"| {node} | {memory[0]:.0f} | {memory[1]:.0f} | {most:.0f} "
            f"| {files[0]:.0f} | {files[1]:.0f} | {max(s.descriptors for s in alive)} |"
        )
