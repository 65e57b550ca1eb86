"""One HTML file that tells a whole run: verdicts, a time line, how to repeat it. No script, no
other file, so that it can be kept and sent."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tests.jepsen import store
from tests.jepsen.checker.faults import Interval, intervals
from tests.jepsen.checker.verdict import Verdict
from tests.jepsen.history import FAIL, INFO, OK, Call, Op, calls
from tests.jepsen.observer import PERIOD_S, Sample

S = 1_000_000_000
LEFT, MIN_WIDTH, PIXELS_A_SECOND = 110, 1_200, 2.0
ROW, PLOT, GAP = 18, 90, 26
COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea", "#dc2626", "#0891b2", "#65a30d")
MISSED = 3  # periods without a sample: the node did not answer
OUTCOME_COLOURS = {OK: "#16a34a", INFO: "#f59e0b", FAIL: "#94a3b8"}
LATENCY_MS = (1.0, 30_000.0)
NOT_CLIENTS = ("nemesis/", "liveness/")

STYLE = """
body{font:14px/1.5 system-ui,sans-serif;margin:2rem;color:#111;background:#fff}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
table{border-collapse:collapse}td,th{padding:.15rem .8rem .15rem 0;text-align:left}
td{vertical-align:top}
pre{background:#f1f5f9;padding:.6rem;overflow-x:auto}.ok{color:#15803d}.bad{color:#b91c1c}
.line{overflow-x:auto;border:1px solid #e2e8f0}svg text{font:11px system-ui,sans-serif;fill:#334155}
td{font-variant-numeric:tabular-nums}small{color:#64748b}
"""


def write(
    directory: Path,
    meta: store.Meta,
    history: Sequence[Op],
    samples: Sequence[Sample],
    verdicts: Mapping[str, Verdict],
) -> None:
    line = TimeLine(meta, history, samples)
    page = "".join(
        (
            "<!doctype html><meta charset=utf-8><title>raftflow fault run</title>",
            f"<style>{STYLE}</style>",
            *_head(meta, verdicts),
            *_verdict_table(verdicts),
            "<h2>Time line</h2><div class=line>",
            line.svg(),
            "</div><small>Bars: faults by lane (point at one to read it). Nodes: green leads, ",
            "blue follows, white does not answer; numbers are terms. Calls a second: green ok, ",
            "amber unknown, grey refused. Latency of acknowledged calls, logarithmic: median and ",
            "99th percentile.</small>",
            *_fault_table(line),
            *_call_table(line.calls),
        )
    )
    (directory / store.REPORT).write_text(page)


def _head(meta: store.Meta, verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    good = all(each.ok for each in verdicts.values())
    mark = "<span class=ok>held</span>" if good else "<span class=bad>violated</span>"
    yield f"<h1>raftflow {escape(meta.version)} under faults: {mark}</h1>"
    yield (
        f"<p>{len(meta.nodes)} nodes on {meta.hosts} hosts, seed {meta.seed}, "
        f"commit {escape(meta.commit)}, {escape(meta.begun)}<br>"
        f"workloads: {', '.join(meta.workloads)}<br>nemeses: {', '.join(meta.nemeses) or 'none'}"
    )
    for words in meta.left_out:
        yield f"<br><span class=bad>left out: {escape(words)}</span>"
    yield f"</p><p>To repeat:</p><pre>{escape(meta.command)}</pre>"
    yield "<p>To judge the stored history again:</p>"
    yield "<pre>python -m tests.jepsen judge DIRECTORY</pre>"


def _verdict_table(verdicts: Mapping[str, Verdict]) -> Iterator[str]:
    yield "<h2>Verdicts</h2><table>"
    for name, each in verdicts.items():
        stats = ", ".join(f"{key} {value}" for key, value in each.stats.items())
        mark = "<td class=ok>held" if each.ok else "<td class=bad>violated"
        yield f"<tr><td>{escape(name)}</td>{mark}</td><td>{escape(stats)}"
        for error in each.errors:
            yield f"<div class=bad>{escape(error)}</div>"
        yield "</td></tr>"
    yield "</table>"


def _fault_table(line: TimeLine) -> Iterator[str]:
    yield "<h2>Faults</h2><details><summary>All of them</summary><table>"
    yield "<tr><th>at</th><th>for</th><th>fault</th><th>what</th><th>effect</th></tr>"
    for fault in line.faults:
        lasted = f"{(fault.end_ns - fault.start_ns) / S:.1f} s" if fault.ended else "-"
        told = escape(fault.problem or fault.effect)
        yield (
            f"<tr><td>{line.second(fault.start_ns):.1f} s</td><td>{lasted}</td>"
            f"<td>{escape(fault.name)}</td><td>{escape(fault.words)}</td>"
            f"<td{' class=bad' if fault.problem else ''}>{told}</td></tr>"
        )
    yield "</table></details>"


def _call_table(found: Sequence[Call]) -> Iterator[str]:
    by_kind: dict[str, Counter[str]] = defaultdict(Counter)
    times: dict[str, list[float]] = defaultdict(list)
    for call in found:
        name = f"{call.process.split('/')[0]} {call.f}"
        by_kind[name][call.kind] += 1
        if call.ok:
            times[name].append((call.end_ns - call.start_ns) / 1e6)
    yield "<h2>Calls</h2><table><tr><th>call</th><th>ok</th><th>unknown</th><th>refused</th>"
    yield "<th>median</th><th>99th</th></tr>"
    for name, kinds in sorted(by_kind.items()):
        took = sorted(times[name])
        middle, late = (f"{_share(took, q):.0f} ms" if took else "-" for q in (0.5, 0.99))
        counts = "".join(f"<td>{kinds[kind]}</td>" for kind in (OK, INFO, FAIL))
        yield f"<tr><td>{escape(name)}</td>{counts}<td>{middle}</td><td>{late}</td></tr>"
    yield "</table>"


def _share(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one line of a plot: (second, value)."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]


def stretches(samples: Iterable[Sample]) -> Iterator[tuple[Sample, Sample]]:
    """First and last of those in a row in which a node answered with one role and term."""
    first = last = None
    for sample in samples:
        if first is not None and last is not None:
            same = (sample.role, sample.term) == (first.role, first.term)
            if same and sample.time_ns - last.time_ns < MISSED * PERIOD_S * S:
                last = sample
                continue
            yield first, last
        first = last = sample if sample.role else None
    if first is not None and last is not None:
        yield first, last


class TimeLine:
    """Rows below one another over one axis of seconds."""

    def __init__(self, meta: store.Meta, history: Sequence[Op], samples: Sequence[Sample]) -> None:
        self._meta = meta
        self._samples = samples
        self.faults: list[Interval] = intervals(history)
        self.calls = [c for c in calls(history) if not c.process.startswith(NOT_CLIENTS)]
        self._begin = meta.begun_ns
        last = max((op.time_ns for op in history), default=self._begin + S)
        self._seconds = max(1.0, (last - self._begin) / S)
        self._width = max(MIN_WIDTH, int(self._seconds * PIXELS_A_SECOND))
        self._y = 0.0
        self._parts: list[str] = []

    def second(self, time_ns: float) -> float:
        return (min(time_ns, self._begin + self._seconds * S) - self._begin) / S

    def svg(self) -> str:
        self._fault_rows()
        self._node_rows()
        self._call_bars()
        self._latency()
        self._plot("memory, MiB", self._per_node(lambda s: s.rss_kib / 1024))
        self._plot("descriptors", self._per_node(lambda s: s.descriptors))
        self._axis()
        width = LEFT + self._width + 20
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' width={width} height={self._y}>"
            + "".join(self._parts)
            + "</svg>"
        )

    # ---- drawing --------------------------------------------------------------------------------

    def _x(self, second: float) -> float:
        return LEFT + second / self._seconds * self._width

    def _text(self, x: float, y: float, words: str) -> None:
        self._parts.append(f"<text x='{x:.1f}' y='{y:.1f}'>{escape(words)}</text>")

    def _bar(
        self, begin: float, end: float, y: float, height: float, colour: str, title: str
    ) -> None:
        x = self._x(begin)
        width = max(1.0, self._x(end) - x)
        self._parts.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' "
            f"fill='{colour}'><title>{escape(title)}</title></rect>"
        )

    def _fault_rows(self) -> None:
        self._y += GAP
        for lane in sorted({fault.lane for fault in self.faults}):
            self._text(4, self._y + 13, lane)
            names = sorted({fault.name for fault in self.faults if fault.lane == lane})
            for fault in self.faults:
                if fault.lane == lane:
                    colour = COLOURS[names.index(fault.name) % len(COLOURS)]
                    if fault.name == "quiet":
                        colour = "#e2e8f0"
                    title = f"{fault.name}: {fault.words} {fault.effect} {fault.problem}"
                    begin, end = self.second(fault.start_ns), self.second(fault.end_ns)
                    self._bar(begin, end, self._y, ROW - 4, colour, title)
            self._y += ROW

    def _node_rows(self) -> None:
        self._y += GAP
        for node in self._meta.nodes:
            self._text(4, self._y + 12, node)
            for first, last in stretches(s for s in self._samples if s.node == node):
                leads = first.role == "leader"
                begin = self.second(first.time_ns) - PERIOD_S
                colour = "#16a34a" if leads else "#bfdbfe"
                title = f"{node} {first.role}, term {first.term}"
                self._bar(begin, self.second(last.time_ns), self._y, ROW - 5, colour, title)
                if leads:
                    self._text(self._x(begin), self._y - 1, str(first.term))
            self._y += ROW + 8

    def _call_bars(self) -> None:
        counts: dict[int, Counter[str]] = defaultdict(Counter)
        for call in self.calls:
            counts[int(self.second(call.start_ns))][call.kind] += 1
        most = max((sum(kinds.values()) for kinds in counts.values()), default=1)
        self._title(f"calls a second (most: {most})")
        for second, kinds in counts.items():
            base = self._y + PLOT
            for kind in (OK, INFO, FAIL):
                if kinds[kind]:
                    height = kinds[kind] / most * PLOT
                    base -= height
                    title = f"{second} s: {kinds[kind]} {kind}"
                    colour = OUTCOME_COLOURS[kind]
                    self._bar(second, second + 1, base, height, colour, title)
        self._y += PLOT

    def _latency(self) -> None:
        by_second: dict[int, list[float]] = defaultdict(list)
        for call in self.calls:
            if call.ok:
                by_second[int(self.second(call.start_ns))].append(
                    (call.end_ns - call.start_ns) / 1e6
                )
        low, high = (math.log10(edge) for edge in LATENCY_MS)
        series = []
        for name, share, colour in (("median", 0.5, "#2563eb"), ("99th", 0.99, "#dc2626")):
            points = [
                (second, math.log10(max(LATENCY_MS[0], _share(sorted(took), share))))
                for second, took in sorted(by_second.items())
            ]
            series.append(Series(name, colour, points))
        self._plot("latency, ms", series, bounds=(low, high), label=lambda v: f"{10**v:,.0f}")

    def _per_node(self, value: Callable[[Sample], float]) -> list[Series]:
        """The highest of every five seconds."""
        found = []
        for number, node in enumerate(self._meta.nodes):
            highest: dict[int, float] = {}
            for sample in self._samples:
                if sample.node == node and sample.rss_kib:
                    slot = int(self.second(sample.time_ns) // 5) * 5
                    highest[slot] = max(highest.get(slot, 0.0), value(sample))
            points = [(float(slot), each) for slot, each in sorted(highest.items())]
            found.append(Series(node, COLOURS[number % len(COLOURS)], points))
        return found

    def _title(self, words: str) -> None:
        self._y += GAP
        self._text(LEFT, self._y - 4, words)

    def _plot(
        self,
        title: str,
        series: Iterable[Series],
        *,
        bounds: tuple[float, float] | None = None,
        label: Callable[[float], str] = lambda value: f"{value:,.0f}",
    ) -> None:
        drawn = [each for each in series if each.points]
        names = "  ".join(each.name for each in drawn)
        self._title(f"{title}: {names}")
        top = max((value for each in drawn for _, value in each.points), default=1.0)
        low, high = bounds or (0.0, top * 1.1 or 1.0)
        for share in (0.0, 0.5, 1.0):
            y = self._y + PLOT * (1 - share)
            self._text(4, y + 4, label(low + share * (high - low)))
            self._parts.append(
                f"<line x1='{LEFT}' x2='{LEFT + self._width}' y1='{y}' y2='{y}' stroke='#e2e8f0'/>"
            )
        for each in drawn:
            path = " ".join(
                f"{self._x(second):.1f},{self._y + PLOT * (1 - (v - low) / (high - low)):.1f}"
                for second, v in each.points
            )
            self._parts.append(
                f"<polyline points='{path}' fill='none' stroke='{each.colour}'>"
                f"<title>{escape(each.name)}</title></polyline>"
            )
        self._y += PLOT

    def _axis(self) -> None:
        self._y += GAP
        step = next(s for s in (1, 5, 10, 30, 60, 300) if self._seconds / s < self._width / 60)
        for second in range(0, int(self._seconds) + 1, step):
            self._text(self._x(second), self._y, f"{second} s")
        self._y += 10
