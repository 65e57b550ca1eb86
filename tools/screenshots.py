"""Take the pictures of the documents from a running `make run`.

usage: python tools/screenshots.py http://127.0.0.1:8233 WORKFLOW_ID   (needs chromium)
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--virtual-time-budget=4000",
    "--window-size=1280,900",
)


def shoot(url: str, target: Path) -> None:
    """One picture of one page, in a browser profile of its own."""
    with tempfile.TemporaryDirectory() as profile:
        command = [
            "chromium",
            *OPTIONS,
            f"--user-data-dir={profile}",
            f"--screenshot={target}",
            url,
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=60)


def main() -> None:
    address, workflow_id = sys.argv[1:3]
    IMAGES.mkdir(exist_ok=True)
    shoot(f"{address}/", IMAGES / "cluster.png")
    quoted = urllib.parse.quote(workflow_id, safe="")
    with urllib.request.urlopen(f"{address}/api/workflows/{quoted}", timeout=10) as response:
        run_id = json.load(response)["run_id"]
    shoot(f"{address}/#/run/{quoted}/{run_id}", IMAGES / "run.png")


if __name__ == "__main__":
    main()
