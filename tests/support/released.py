"""The programs of earlier releases, from their wheels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WHEELS = Path(__file__).resolve().parent.parent / "compat" / "wheels"


def unpack(release: str, directory: Path) -> Path:
    """Where to find the packages of a released version, beside nothing else."""
    target = directory / release
    if not target.exists():
        wheels = [str(path) for path in sorted(WHEELS.glob(f"*-{release}-*.whl"))]
        assert wheels, f"no wheels of {release}: python tools/old_wheels.py v{release}"
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
        subprocess.run([*pip, "--target", str(target), *wheels], check=True, capture_output=True)
    return target
