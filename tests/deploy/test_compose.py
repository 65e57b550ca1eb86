"""deploy/compose.yaml, as `docker compose` itself understands it, and as three nodes live it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from needs import need

from tests.deploy.containers import container, probing
from tests.deploy.machines import ROOT
from tests.deploy.stage import Plan, check, play

FILE = ROOT / "deploy" / "compose.yaml"
NODES = ("n1", "n2", "n3")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    done = subprocess.run(
        [
            *(need("docker-compose"), "--file", str(FILE), "--profile", "*"),
            *("config", "--format", "json", "--no-path-resolution"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")},
    )
    assert done.returncode == 0, done.stderr
    # What it prints may be read again, so dollars are doubled.
    parsed: dict[str, Any] = json.loads(done.stdout.replace("$$", "$"))
    return parsed


def test_the_ports_are_for_this_machine_and_never_raft(document: dict[str, Any]) -> None:
    for service in document["services"].values():
        for port in service.get("ports", ()):
            assert port["host_ip"] == "127.0.0.1"
            assert port["target"] != 9233


def test_containers_have_no_rights(document: dict[str, Any]) -> None:
    for name, service in document["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
    for name in (*NODES, "setup", "cli"):
        assert document["services"][name]["read_only"], name


def test_files_that_are_mounted_exist(document: dict[str, Any]) -> None:
    bound = [
        mount["source"]
        for service in document["services"].values()
        for mount in service.get("volumes", ())
        if mount["type"] == "bind"
    ]
    assert len(bound) == 4
    for source in bound:
        assert (FILE.parent / source).exists(), source


@pytest.mark.cluster
def test_three_nodes_and_a_user(document: dict[str, Any], tmp_path: Path) -> None:
    services = document["services"]
    volumes = tmp_path / "volumes"
    nodes = tuple(container(name, services[name], volumes) for name in NODES)
    plan = Plan(
        directory=str(tmp_path),
        before=(container("setup", services["setup"], volumes),),
        nodes=nodes,
        probes=tuple(probing(each) for each in nodes),
        after=(container("cli", services["cli"], volumes),),
        client_files=str(volumes / "secrets" / "client"),
    )
    seen = play(plan)
    check(plan, seen)
    said = seen.after["cli"][1]
    assert said.count("follower") == 2, said
    assert said.count("leader") >= 1
