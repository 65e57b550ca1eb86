"""Build the wheels of released versions from their tags, for the tests of mixed clusters.

usage: python tools/old_wheels.py v0.1.0 v0.2.0     (from the repository's root)

They are kept in the repository (tests/compat/wheels), since a checkout may have no tags.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ROOT / "tests" / "compat" / "wheels"


def build(tag: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        archive = subprocess.run(
            ["git", "archive", "--format=tar", tag], cwd=ROOT, capture_output=True, check=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", directory], input=archive, check=True)
        for project in (Path(directory), Path(directory) / "sdks" / "python"):
            subprocess.run(
                [
                    *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
                    *("--wheel-dir", str(WHEELS), str(project)),
                ],
                check=True,
            )


def main() -> None:
    WHEELS.mkdir(parents=True, exist_ok=True)
    for tag in sys.argv[1:]:
        build(tag)
    for wheel in sorted(WHEELS.glob("*.whl")):
        print(wheel.name, wheel.stat().st_size)


if __name__ == "__main__":
    main()
