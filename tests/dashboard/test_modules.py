"""Runs the .test.mjs files with node, beside copies of the page's modules."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from fake_api import Call, Reply, serving
from needs import need

from raftflow.dashboard import static_dir


def echo(call: Call) -> Reply:
    if call.target == "/api/refused":
        return 404, {"error": "unknown workflow"}
    return 200, {"target": call.target, "headers": call.headers, "body": call.body}


@pytest.mark.slow
def test_the_parts_that_need_no_browser(tmp_path: Path) -> None:
    node = need("node")
    shutil.copytree(static_dir(), tmp_path, dirs_exist_ok=True)
    tests = sorted(Path(__file__).parent.glob("*.test.mjs"))
    for test in tests:
        shutil.copy(test, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    with socket.socket() as probe, serving(echo) as alive:
        # Bound and never listening: connections are refused.
        probe.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{probe.getsockname()[1]}"
        done = subprocess.run(
            [node, "--test", *[test.name for test in tests]],
            cwd=tmp_path,
            env=os.environ | {"NODES": f"{dead} {alive.address}"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stdout
