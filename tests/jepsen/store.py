"""A stored run: one directory with all that a judge needs, and what it said."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.jepsen.checker.verdict import Verdict
from tests.jepsen.history import Op, load
from tests.jepsen.observer import Sample
from tests.jepsen.observer import load as load_samples

HISTORY, SAMPLES, META, VERDICTS, REPORT = (
    *("history.jsonl", "samples.jsonl", "meta.json"),
    *("verdicts.json", "report.html"),
)
DEFAULT_STORE = Path("jepsen-runs")


@dataclass(frozen=True, slots=True)
class Meta:
    """How the run was made; `command` repeats it."""

    command: str
    seed: int
    nodes: tuple[str, ...]
    workloads: tuple[str, ...]
    nemeses: tuple[str, ...]
    seconds: float
    hosts: str
    left_out: tuple[str, ...]
    version: str
    commit: str
    begun: str
    begun_ns: int
    versions: tuple[str, ...] = ()  # of what it ran on


def versions() -> tuple[str, ...]:
    return (
        f"Python {platform.python_version()}",
        f"SQLite {sqlite3.sqlite_version}",
        f"{platform.system()} {platform.release()}",
        f"{os.cpu_count()} cores",
    )


def commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def new_directory(store: Path, seed: int) -> Path:
    directory = store / f"{time.strftime('%Y%m%d-%H%M%S')}-seed{seed}"
    directory.mkdir(parents=True)
    return directory


def write_meta(directory: Path, meta: Meta) -> None:
    (directory / META).write_text(json.dumps(asdict(meta), indent=1) + "\n")


def read_meta(directory: Path) -> Meta:
    fields = json.loads((directory / META).read_text())
    return Meta(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})


def read_history(directory: Path) -> list[Op]:
    return load(directory / HISTORY)


def read_samples(directory: Path) -> list[Sample]:
    return load_samples(directory / SAMPLES)


def write_verdicts(directory: Path, verdicts: Mapping[str, Verdict]) -> None:
    shown: dict[str, Any] = {
        name: {"ok": each.ok, "errors": list(each.errors), "stats": dict(each.stats)}
        for name, each in verdicts.items()
    }
    (directory / VERDICTS).write_text(json.dumps(shown, indent=1) + "\n")


def read_verdicts(directory: Path) -> dict[str, Any]:
    verdicts: dict[str, Any] = json.loads((directory / VERDICTS).read_text())
    return verdicts


def summary(verdicts: Mapping[str, Verdict]) -> Sequence[str]:
    lines = []
    for name, each in verdicts.items():
        stats = " ".join(f"{key}={value}" for key, value in each.stats.items())
        lines.append(f"{'ok  ' if each.ok else 'FAIL'} {name:14} {stats}")
        lines += [f"       {error}" for error in each.errors]
    return lines


def remove_images(images: Path) -> bool:
    """The loop files that a killed runner left; those of one that still runs are in use."""
    loops = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=False)
    if str(images.resolve()) in loops.stdout:
        return False
    shutil.rmtree(images)
    return True
