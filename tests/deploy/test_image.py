"""deploy/Dockerfile and what goes into the image with it."""

from __future__ import annotations

import contextlib
import http.server
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev_cluster import wait_for
from needs import need

from raftflow.cluster.config_sources import SETTINGS
from tests.deploy.image import DOCKERFILE, image, instructions
from tests.deploy.machines import ROOT

DEPLOY = ROOT / "deploy"
SCRIPTS = (DEPLOY / "secrets.sh", DEPLOY / "docker" / "backup.sh")
PROGRAMS = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        [need("hadolint"), str(DOCKERFILE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_finds_nothing(script: Path) -> None:
    done = subprocess.run(
        [need("shellcheck"), str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_image_s_environment_is_of_settings() -> None:
    known = {setting.env: setting for setting in SETTINGS}
    for name, value in image().environment.items():
        if name.startswith("RAFTFLOW_"):
            known[name].convert(value)
    bound = {
        int(value.rpartition(":")[2])
        for value in image().environment.values()
        if ":" in value and value.startswith("0.0.0.0")
    }
    assert bound == set(image().ports)
    assert image().volumes == (image().environment["RAFTFLOW_DATA_DIR"],)


def test_it_runs_as_nobody_else() -> None:
    made = " ".join(rest for word, rest in instructions() if word == "RUN")
    assert f"--uid {image().user} " in made
    assert image().user >= 10_000


@pytest.mark.slow
def test_what_is_copied_is_enough_to_install(tmp_path: Path) -> None:
    """The context that .dockerignore leaves, and the packages that pip makes of it."""
    context = tmp_path / "context"
    for path in in_the_context():
        (context / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, context / path)
    [install] = [
        rest
        for word, rest in instructions()
        if word == "RUN" and " install " in rest and "pip" in rest
    ]
    sources = re.findall(r"-c constraints.txt (\S+) '(\.)\[", install)[0]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", "wheels", *sources],
        cwd=context,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    names = sorted(path.name.partition("-")[0] for path in (context / "wheels").iterdir())
    assert names == ["raftflow", "raftflow_sdk"]
    # The tests, which are larger than the product, stay outside.
    assert not (context / "tests").exists()


def in_the_context() -> Iterator[str]:
    rules = DOCKERFILE.with_suffix(".dockerignore").read_text().splitlines()
    allowed = tuple(line[1:] for line in rules if line.startswith("!"))
    assert "*" in rules
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    for path in listed:
        if any(path == each or path.startswith(f"{each}/") for each in allowed):
            yield path


# ---- alive.py -----------------------------------------------------------------------------------


def alive(port: int, *, within_s: float = 10.0) -> int:
    done = subprocess.run(
        [sys.executable, str(DEPLOY / "docker" / "alive.py")],
        env={"RAFTFLOW_HTTP_ADDR": f"0.0.0.0:{port}"},
        capture_output=True,
        check=False,
        timeout=within_s,
    )
    return done.returncode


@contextlib.contextmanager
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.mark.slow
def test_who_repairs_itself_is_alive_and_who_says_nothing_is_not() -> None:
    class Repairing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(503)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Repairing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert alive(server.server_port) == 0
        server.shutdown()
    with listener() as silent:
        assert alive(silent.getsockname()[1]) == 1
    with listener() as gone:
        port = gone.getsockname()[1]
    assert alive(port) == 1


# ---- secrets.sh ---------------------------------------------------------------------------------


def run_secrets(directory: Path, *words: str) -> None:
    subprocess.run(
        ["sh", str(DEPLOY / "secrets.sh"), str(directory), *words],
        check=True,
        capture_output=True,
        env={"PATH": PROGRAMS},
        timeout=60,
    )


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_secrets_are_made_once_and_new_ones_find_their_place(tmp_path: Path) -> None:
    made = tmp_path / "secrets"
    run_secrets(made, "shop", "n1=n1.example.com,10.0.0.1", "n2=n2.example.com")
    first = contents(made)
    assert {Path(name).name for name in first if name.startswith("n1/")} == {
        *("ca.crt", "tls.crt", "tls.key", "tokens")
    }
    for name in first:
        exposed = (made / name).stat().st_mode & 0o077
        assert not exposed or name in ("client/ca.crt", "client/metrics-token"), name
    assert made.stat().st_mode & 0o077 == 0
    lines = first["n1/tokens"].decode().splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        "name=admin",
        "name=metrics role=viewer",
        "name=backup",
    ]
    assert lines[0].split()[0] == first["client/token"].decode()

    # Again, with another node: nothing that was there changes.
    run_secrets(made, "shop", "n1=n1.example.com", "n2=n2.example.com", "n3=n3.example.com")
    again = contents(made)
    assert {name: again[name] for name in first} == first
    assert "n3/tls.key" in again

    # A new pair reaches the node's files when it is run again.
    rotate = ["raftflow", "cert", "rotate", str(made / "authority"), "n1"]
    subprocess.run(rotate, check=True, capture_output=True, env={"PATH": PROGRAMS}, timeout=60)
    run_secrets(made, "shop", "n1=n1.example.com", "n2=n2.example.com")
    rotated = contents(made)
    assert rotated["n1/tls.key"] != first["n1/tls.key"]
    assert rotated["n1/tls.crt"] == rotated["authority/n1.crt"]
    assert rotated["n2/tls.key"] == first["n2/tls.key"]
    assert not [name for name in rotated if name.endswith(".new")]


def test_secrets_say_how_they_are_asked_for(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", str(DEPLOY / "secrets.sh"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[1].strip().startswith("secrets.sh DIR CLUSTER_ID NODE=HOST")


# ---- backup.sh ----------------------------------------------------------------------------------


def test_a_backup_that_fails_is_not_the_last(tmp_path: Path) -> None:
    """In the place of raftflow stands a program that notes how it is called and fails at first."""
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / "raftflow"
    stand_in.write_text(
        f'#!/bin/sh\necho "$RAFTFLOW_TOKEN $AWS_SECRET_ACCESS_KEY $*" >>{tmp_path}/calls\n'
        f'[ "$(wc -l <{tmp_path}/calls)" -gt 1 ]\n'
    )
    stand_in.chmod(0o755)
    (tmp_path / "token").write_text("the-token name=backup\n")
    (tmp_path / "key").write_text("the-key\n")
    running = subprocess.Popen(
        ["sh", str(DEPLOY / "docker" / "backup.sh"), "s3://backups", "0.1"],
        env={
            "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
            "RAFTFLOW_TOKEN_FILE": str(tmp_path / "token"),
            "AWS_SECRET_ACCESS_KEY_FILE": str(tmp_path / "key"),
        },
        stderr=subprocess.PIPE,
    )
    calls = tmp_path / "calls"
    wait_for("three calls", lambda: calls.exists() and len(calls.read_text().splitlines()) > 2)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=10)
    assert running.returncode == 0
    assert said.decode().count("the backup failed") == 1
    assert set(calls.read_text().splitlines()) == {"the-token the-key backup create s3://backups"}


def test_every_file_names_the_same_release() -> None:
    named = {
        release: path.name
        for path in sorted(DEPLOY.rglob("*"))
        if path.is_file()
        for release in re.findall(r"raftflow(?::|-|_sdk-|.*?:-)(\d+\.\d+\.\d+)", path.read_text())
        + re.findall(r"^(?:appVersion|version): (\S+)", path.read_text(), re.M)
    }
    assert len(named) == 1, named
