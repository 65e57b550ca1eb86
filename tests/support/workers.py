"""Worker processes for tests, and what they did."""

from __future__ import annotations

import collections
import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "e2e" / "saga_worker.py"


class WorkerProcess:
    """`saga_worker.py` as a process; everything it prints is kept."""

    def __init__(self, directory: Path, addresses: Sequence[str], *, name: str = "calls") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.calls_file = directory / f"{name}.txt"
        self.calls_file.touch()
        self.gate = directory / f"{name}.gate"
        self.output_file = directory / f"{name}.out"
        self._addresses = list(addresses)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.output_file.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(SCRIPT), str(self.calls_file), *self._addresses],
                stdout=output,
                stderr=output,
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close_gate(self) -> None:
        """From now on the activity `hold` waits."""
        self.gate.touch()

    def open_gate(self) -> None:
        self.gate.unlink(missing_ok=True)

    def calls(self) -> collections.Counter[str]:
        """How often each `activity input` ran."""
        return collections.Counter(self.calls_file.read_text().splitlines())

    def output(self) -> str:
        return self.output_file.read_text(errors="replace")


@contextlib.contextmanager
def worker_process(
    directory: Path, addresses: Sequence[str], *, name: str = "calls"
) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(directory, addresses, name=name)
    worker.start()
    try:
        yield worker
    finally:
        worker.kill()
