"""How fast the journal is: appends and flushes by batch size, then reading back and recovery.

    python benchmarks/journal.py [--directory DIR] [--entries N] [--bytes N]

Run it on the disk that will hold the data; a tmpfs says nothing about an fsync.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.journal import Journal, LogEntry


class CountingDisk(OsDisk):
    def __init__(self) -> None:
        self.fsyncs = 0
        self.fsync_s: list[float] = []

    def fdatasync(self, fd: int) -> None:
        start = time.perf_counter()
        super().fdatasync(fd)
        self.fsyncs += 1
        self.fsync_s.append(time.perf_counter() - start)


def write(directory: str, entries: int, size: int, batch: int) -> str:
    disk = CountingDisk()
    journal = Journal.open(directory, disk=disk)
    payload = bytes(size)
    start, cpu = time.perf_counter(), time.process_time()
    for first in range(1, entries + 1, batch):
        stop = min(first + batch, entries + 1)
        journal.append([LogEntry(index, 1, payload) for index in range(first, stop)])
        journal.flush()
    took, cpu = time.perf_counter() - start, time.process_time() - cpu
    journal.close()
    return (
        f"{batch:>6}  {entries:>8}  {entries / took:>10,.0f}  {disk.fsyncs:>7}  "
        f"{statistics.median(disk.fsync_s) * 1e3:>10.2f}  {cpu / entries * 1e6:>12.1f}"
    )


def read(directory: str, entries: int) -> str:
    start = time.perf_counter()
    journal = Journal.open(directory, disk=OsDisk(), cache_bytes=0)
    opened = time.perf_counter()
    index = 1
    while index <= entries:
        index = journal.entries(index, entries + 1, 1 << 20)[-1].index + 1
    took = time.perf_counter() - opened
    journal.close()
    return (
        f"recovery of {entries:,} entries: {opened - start:.2f} s; "
        f"catching up from disk: {entries / took:,.0f} entries/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", help="where to write (default: a temporary directory here)")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=200, help="payload of an entry")
    options = parser.parse_args()
    print(f"{options.bytes} bytes an entry\n")
    print(" batch   entries   entries/s   fsyncs   fsync ms   CPU us/entry")
    for batch in (1, 16, 64, 256):
        entries = min(options.entries, batch * 2000)
        with tempfile.TemporaryDirectory(dir=options.directory or ".") as directory:
            print(write(directory, entries, options.bytes, batch), flush=True)
            last = read(directory, entries)
    print(f"\n{last}")


if __name__ == "__main__":
    main()
