"""deploy/compose.yaml, as `docker compose` itself understands it, and as three nodes live it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needs import need

from tests.deploy.containers import container, probing
from tests.deploy.machines import ROOT
from tests.deploy.stage import PROMETHEUS, Plan, check, need_a_stage, play

FILE = ROOT / "deploy" / "compose.yaml"
NODES = ("n1", "n2", "n3")
NOBODY = 65534


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
def test_prometheus_sees_three_nodes_and_a_lost_quorum(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """With the files that the container has and Debian's Prometheus, which looks more often."""
    need_a_stage()
    services, volumes = document["services"], tmp_path / "volumes"
    program = need("prometheus")
    watching = container("prometheus", {"read_only": False, **services["prometheus"]}, volumes)
    (config, *others), data = watching.mounts, watching.mounts[-1].target
    patient = Path(config.source).read_text()
    assert patient.count("_interval: 15s") == 2
    often = tmp_path / "prometheus.yaml"
    often.write_text(patient.replace("15s", "2s"))
    plan = Plan(
        directory=str(tmp_path),
        before=(container("setup", services["setup"], volumes),),
        nodes=tuple(container(name, services[name], volumes) for name in NODES),
        prometheus=replace(
            watching,
            argv=(
                *(program, f"--config.file={config.target}", f"--storage.tsdb.path={data}"),
                f"--web.listen-address={PROMETHEUS.removeprefix('http://')}",
            ),
            mounts=(replace(config, source=str(often)), *others),
            # Not the owner of anything: as in its own image.
            user=NOBODY,
        ),
        client_files=str(volumes / "secrets" / "client"),
    )
    os.chown(volumes / "prometheus", NOBODY, NOBODY)
    seen = play(plan)
    assert seen.targets == [f"{name}:9090" for name in NODES]
    assert seen.alerts_when_well == []
    assert "RaftflowNoQuorum" in seen.alerts_without_quorum
    assert seen.exits == {"n1": 0}


@pytest.mark.cluster
def test_three_nodes_and_a_user(document: dict[str, Any], tmp_path: Path) -> None:
    need_a_stage()
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
    for text in seen.metrics.values():
        lint = [need("promtool"), "check", "metrics"]
        done = subprocess.run(lint, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    said = seen.after["cli"][1]
    assert said.count("follower") == 2, said
    assert said.count("leader") >= 1
