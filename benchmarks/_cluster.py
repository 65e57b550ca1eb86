"""What the benchmarks of whole clusters share: a cluster, its counters, and a table."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from dev_cluster import DevCluster, dev_cluster
from dev_cluster import wait_for as wait_for

TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def cluster(**settings: object) -> Iterator[DevCluster]:
    """Three fresh nodes on this machine's real disk."""
    with (
        tempfile.TemporaryDirectory(prefix="raftflow-bench-") as directory,
        dev_cluster(Path(directory) / "cluster", **settings) as running,
    ):
        yield running


@dataclass(frozen=True, slots=True)
class Counters:
    """Sums over all nodes, except ``entries``, which is the log's length."""

    entries: int
    fsyncs: int
    messages: int
    requests: int
    cpu_ms: float

    def __sub__(self, other: Counters) -> Counters:
        return Counters(
            self.entries - other.entries,
            self.fsyncs - other.fsyncs,
            self.messages - other.messages,
            self.requests - other.requests,
            self.cpu_ms - other.cpu_ms,
        )


def counters(cluster: DevCluster, *, others: Sequence[int] = ()) -> Counters:
    """Read the nodes' metrics, and the CPU time of the nodes and the processes ``others``."""
    entries = fsyncs = messages = requests = 0
    cpu = sum(cpu_ms(pid) for pid in others)
    for entry in cluster.entries():
        text = _metrics(str(entry["metrics"]))
        entries = max(entries, int(_value(text, "workflowd_raft_applied_index")))
        fsyncs += int(_value(text, "workflowd_raft_fsync_seconds_count"))
        messages += int(_value(text, "workflowd_raft_messages_sent_total"))
        requests += _requests(text)
        cpu += cpu_ms(entry["pid"])
    return Counters(entries, fsyncs, messages, requests, cpu)


def cpu_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1_000 / TICKS


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [list(header)] + [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    sys.stdout.flush()


def _text(cell: object) -> str:
    return f"{cell:,.2f}" if isinstance(cell, float) else str(cell)


def _metrics(address: str) -> str:
    address = address.removeprefix("http://").removesuffix("/metrics")
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as response:
        text: str = response.read().decode()
    return text


def _requests(text: str) -> int:
    """Calls of the API that were answered, of all kinds."""
    counts = re.findall(r"^workflowd_request_seconds_count\{[^}]*\} (\S+)$", text, re.MULTILINE)
    return int(sum(map(float, counts)))


def _value(text: str, name: str) -> float:
    found = re.search(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
    return float(found.group(1)) if found else 0.0
