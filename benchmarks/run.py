"""All benchmarks with short settings, one after another: a few minutes on two cores.

usage: python -m benchmarks.run

Each is a program of its own with settings of its own: `python -m benchmarks.<name> --help`.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

SHORT = (
    ("journal", "--entries", "20000"),
    ("apply", "500"),
    ("store", "5000"),
    ("commit", "--seconds", "2"),
    ("end_to_end", "--seconds", "3"),
    ("failover", "--tries", "3"),
    ("scale", "--runs", "2000"),
    ("fan_out", "--count", "200"),
)


def machine() -> str:
    found = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return (
        f"{os.cpu_count()} cores ({found[0] if found else platform.machine()}), "
        f"Linux {platform.release()}, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    for name, *arguments in SHORT:
        print(f"\n==== {name} {' '.join(arguments)}\n{machine()}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=True)


if __name__ == "__main__":
    main()
