"""deploy/systemd: the unit as systemd understands it, and three nodes as it starts them, installed
by the commands of the guide."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from needs import need, need_module

from tests.deploy.machines import ROOT, UID, Machine, Mount
from tests.deploy.stage import Plan, check, need_a_stage, play

FILES = ROOT / "deploy" / "systemd"
UNIT = FILES / "raftflow.service"
GUIDE = (FILES / "INSTALL.md").read_text()
NODES = ("n1", "n2", "n3")
MOST_EXPOSED = 15  # in tenths; 100 is no protection at all

Section = dict[str, list[str]]


def service() -> Section:
    found: Section = {}
    section = ""
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = line
        elif "=" in line and not line.startswith("#") and section == "[Service]":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def only(name: str) -> str:
    [value] = service()[name]
    return value


def commands(start: str) -> list[str]:
    """Lines of the guide's code that begin like this."""
    code = re.findall(r"```\n(.*?)```", GUIDE, re.S)
    return [line for block in code for line in block.splitlines() if line.startswith(start)]


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [need("systemd-analyze"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "cat"},
    )


def syscalls() -> tuple[str, ...]:
    """Those that SystemCallFilter allows, as this machine's systemd knows its groups."""
    allowed = expanded("@default")
    for line in service()["SystemCallFilter"]:
        names = line.removeprefix("~").split()
        for name in names:
            found = expanded(name)
            allowed = allowed - found if line.startswith("~") else allowed | found
    return tuple(sorted(allowed))


def expanded(name: str) -> set[str]:
    if not name.startswith("@"):
        return {name}
    lines = analyze("syscall-filter", name).stdout.splitlines()
    inner = [line.strip() for line in lines[1:] if line.strip() and "#" not in line]
    assert inner, name
    return {found for each in inner for found in expanded(each)}


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    shutil.copy(UNIT, tmp_path)
    said = analyze("verify", str(tmp_path / UNIT.name)).stderr.splitlines()
    # The program stands where the guide puts it, which is not on this machine.
    assert [
        line for line in said if "/opt/raftflow/bin/raftflow is not executable" not in line
    ] == []


def test_it_is_hardened() -> None:
    done = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(UNIT))
    assert done.returncode == 0, done.stdout


def test_the_guide_s_user_is_made(tmp_path: Path) -> None:
    sysusers = shutil.which("systemd-sysusers")
    if sysusers is None:
        pytest.skip("needs systemd-sysusers")
    (tmp_path / "etc").mkdir()
    subprocess.run([sysusers, f"--root={tmp_path}", str(FILES / "raftflow.sysusers")], check=True)
    assert "raftflow:" in (tmp_path / "etc" / "passwd").read_text()
    assert only("User") == only("Group") == "raftflow"


def test_the_guide_installs_every_file_that_the_unit_and_the_settings_name() -> None:
    settings = tomllib.loads((FILES / "raftflow.toml").read_text())
    named = {value for name, value in settings.items() if name.endswith("_file")}
    named |= {only("EnvironmentFile"), shlex.split(only("ExecStart"))[-1]}
    installed = {
        f"{line.split()[-1]}/{Path(source).name}"
        for line in commands("install -m 0640")
        for source in line.split()[7:-1]
    }
    assert installed == named


@pytest.mark.cluster
def test_three_hosts_as_the_guide_installs_them(tmp_path: Path) -> None:
    need_a_stage()
    need_module("pyseccomp")
    shutil.copy(ROOT / "deploy" / "secrets.sh", tmp_path)
    [make_secrets] = commands("sh secrets.sh")
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(
        make_secrets, shell=True, check=True, cwd=tmp_path, env={"PATH": programs}, timeout=60
    )
    plan = Plan(
        directory=str(tmp_path),
        before=tuple(installing(node, tmp_path) for node in NODES),
        nodes=tuple(host(node, tmp_path) for node in NODES),
        client_files=str(tmp_path / "secrets" / "client"),
    )
    check(plan, play(plan))


def installing(node: str, directory: Path) -> Machine:
    """Step 3 of the guide on one host."""
    files = directory / node / "files"
    shutil.copytree(FILES, files)
    shutil.copytree(directory / "secrets" / node, files / node)
    env = files / "raftflow.env"
    env.write_text(env.read_text().replace("=n1", f"={node}"))
    (directory / node / "etc").mkdir()
    steps = [line for line in commands("install ") if line.endswith("/etc/raftflow")]
    assert len(steps) == 3
    script = "\n".join(["cd /files", *steps]).replace(" n1/", f" {node}/")
    return Machine(
        name=f"install-{node}",
        user=0,
        argv=("sh", "-euc", script),
        environment={"PATH": "/usr/bin:/bin"},
        mounts=(
            Mount("/files", str(files)),
            Mount("/etc/raftflow", str(directory / node / "etc"), read_only=False),
        ),
    )


def host(node: str, directory: Path) -> Machine:
    """As systemd starts the unit: its user, directories, environment, system calls."""
    state = directory / node / "state"
    state.mkdir(mode=int(only("StateDirectoryMode"), 8))
    os.chown(state, UID, UID)
    variables = (FILES / "raftflow.env").read_text().replace("=n1", f"={node}")
    known = dict(re.findall(r"^(\w+)=(.*)$", variables, re.M))
    home = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/var/lib/raftflow", "USER": "raftflow"}
    return Machine(
        name=node,
        names=(f"{node}.example.com",),
        argv=tuple(shlex.split(only("ExecStart"))),
        environment=home | known,
        mounts=(
            Mount("/etc/raftflow", str(directory / node / "etc")),
            Mount(f"/var/lib/{only('StateDirectory')}", str(state), read_only=False),
            Mount("/tmp"),
        ),
        read_only=only("ProtectSystem") == "strict",
        syscalls=syscalls(),
        families=tuple(only("RestrictAddressFamilies").split()),
    )
