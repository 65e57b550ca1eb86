"""What the README shows is saved, tested and run as it tells its reader to."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from dev_cluster import DevCluster, wait_for

README = (Path(__file__).parents[2] / "README.md").read_text()
ADDRESSES = re.compile(r"addresses=\[.*?\]")
FILES = {name: text for text, name in re.findall(r"```python\n(# (\S+\.py)\n.*?)```", README, re.S)}
COMMANDS = re.search(r"```sh\n(.*?)```", README, re.S)
RAFTFLOW = (sys.executable, "-m", "raftflow.cluster.cli.main")


def saved(directory: Path, **changes: str) -> Path:
    for name, text in FILES.items():
        (directory / name).write_text(ADDRESSES.sub(changes.get("addresses", r"\g<0>"), text))
    return directory


def test_all_of_it_is_files() -> None:
    assert README.count("```python\n") == len(FILES) == 3


@pytest.mark.slow
def test_its_tests_pass(tmp_path: Path) -> None:
    here = saved(tmp_path)
    arguments = ("-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(here), "-v")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, str(here)],
        cwd=here,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.mark.cluster
def test_its_programs_do_what_it_says(cluster: DevCluster, tmp_path: Path) -> None:
    here = saved(tmp_path, addresses=f"addresses={cluster.addresses()}")
    subprocess.run([sys.executable, "order.py"], cwd=here, check=True, timeout=60)
    worker = subprocess.Popen([sys.executable, "trip.py"], cwd=here)
    environment = {**os.environ, "RAFTFLOW_ADDRESS": ",".join(map(cluster.http, cluster.ids()))}

    def ask(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*RAFTFLOW, *shlex.split(command)[1:]],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    try:
        start = "raftflow workflow start Trip --id first --input Rome --use-existing"
        wait_for("the worker is there", lambda: ask(start).returncode == 0)
        checked = 0
        assert COMMANDS
        for line in COMMANDS[1].splitlines():
            command, _, comment = line.partition("  #")
            done = ask(command)
            said = (done.stdout + done.stderr).strip()
            if " result " in command:
                assert said == comment.strip()
                checked += 1
            else:
                assert done.returncode == 0, said
        assert checked == 2
        assert said.count("Trip") == 2, "the list shows both"
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(20)
