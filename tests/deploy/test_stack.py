"""deploy/stack.yaml and stack.cluster.yaml, as `docker stack` reads and merges them, and as three
nodes live them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from needs import need

from tests.deploy.containers import container, probing
from tests.deploy.image import image
from tests.deploy.machines import ROOT, UID, Machine, Mount
from tests.deploy.stage import Plan, Seen, check, need_a_stage, play

DEPLOY = ROOT / "deploy"
NODES = ("n1", "n2", "n3")
ONE_HOST = ("stack.yaml",)
ON_A_CLUSTER = ("stack.yaml", "stack.cluster.yaml")
PLACE = {"BACKUP_PLACE": "s3://backups/raftflow", "RAFTFLOW_IMAGE": "registry.example.com/r:0.5.0"}


def stack(*files: str, **variables: str) -> dict[str, Any]:
    done = subprocess.run(
        [need("docker"), "stack", "config", *(word for file in files for word in ("-c", file))],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=DEPLOY,
        env={"PATH": os.environ["PATH"], **variables},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    parsed: dict[str, Any] = yaml.safe_load(done.stdout)
    return parsed


@pytest.fixture(scope="module")
def on_one_host() -> dict[str, Any]:
    return stack(*ONE_HOST)


@pytest.fixture(scope="module")
def on_a_cluster() -> dict[str, Any]:
    return stack(*ON_A_CLUSTER, **PLACE)


def test_one_host_needs_nothing_from_elsewhere(on_one_host: dict[str, Any]) -> None:
    for kind in ("networks", "volumes", "secrets"):
        for name, each in on_one_host[kind].items():
            assert not each.get("external"), name
    for service in on_one_host["services"].values():
        assert service["image"] == "raftflow:0.5.0"
        assert "placement" not in service["deploy"]
    published = [
        port["published"]
        for service in on_one_host["services"].values()
        for port in service.get("ports", ())
    ]
    assert len(set(published)) == len(published) == 6
    assert 9233 not in published


def test_on_a_cluster_each_node_has_a_host(on_a_cluster: dict[str, Any]) -> None:
    services = on_a_cluster["services"]
    places = [services[name]["deploy"]["placement"]["constraints"] for name in NODES]
    assert places == [[f"node.labels.raftflow == {name}"] for name in NODES]
    assert {service["image"] for service in services.values()} == {PLACE["RAFTFLOW_IMAGE"]}
    assert on_a_cluster["networks"]["services"]["external"]
    assert services["backup"]["command"][0] == PLACE["BACKUP_PLACE"]
    outside = {name for name, each in on_a_cluster["secrets"].items() if each.get("external")}
    assert outside == {"s3-key-id", "s3-secret-key"}


def test_without_an_object_store_it_is_not_deployed() -> None:
    done = subprocess.run(
        [need("docker"), "stack", "config", "-c", "stack.yaml", "-c", "stack.cluster.yaml"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=DEPLOY,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode != 0
    assert "the URL of a place in an object store" in done.stderr


@pytest.mark.parametrize("files", [ONE_HOST, ON_A_CLUSTER], ids=["one-host", "cluster"])
def test_containers_have_no_rights(files: tuple[str, ...]) -> None:
    for name, service in stack(*files, **PLACE)["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"], name
        assert service["deploy"]["resources"]["limits"]["pids"], name


@pytest.mark.cluster
def test_three_nodes_on_one_host(on_one_host: dict[str, Any], tmp_path: Path) -> None:
    plan, seen = played(on_one_host, tmp_path, "n{0}=n{0},localhost")
    check(plan, seen)
    [backup] = (tmp_path / "volumes" / "backups").iterdir()
    assert backup.name in seen.after["backup"][1]
    assert (backup / "state.db").stat().st_size > 0


@pytest.mark.cluster
def test_three_nodes_on_a_cluster(on_a_cluster: dict[str, Any], tmp_path: Path) -> None:
    names = "n{0}=n{0},raftflow-n{0},host{0}.example.com"
    plan, seen = played(on_a_cluster, tmp_path, names)
    check(plan, seen)
    assert [node.names for node in plan.nodes] == [(n, f"raftflow-{n}") for n in NODES]


def played(document: dict[str, Any], directory: Path, names: str) -> tuple[Plan, Seen]:
    need_a_stage()
    services = document["services"]
    # secrets/ is made by the line at the head of stack.yaml, in the image.
    made = directory / "secrets"
    made.mkdir()
    os.chown(made, UID, UID)
    making = Machine(
        name="secrets",
        argv=(
            *("sh", "/opt/raftflow/deploy/secrets.sh", "/secrets", "raftflow"),
            *(names.format(number) for number in (1, 2, 3)),
        ),
        environment=image().environment,
        mounts=(Mount("/secrets", str(made), read_only=False), Mount("/tmp")),
        beside=image().files,
    )
    handed_out = {
        name: directory / Path(secret["file"]).relative_to(DEPLOY)
        for name, secret in document["secrets"].items()
        if "file" in secret
    }
    # They exist only when it has run; the stage needs to know them before.
    first = Plan(directory=str(directory), nodes=(), before=(making,))
    play(first)
    nodes = tuple(
        container(name, services[name], directory / "volumes", secrets=handed_out) for name in NODES
    )
    after: tuple[Machine, ...] = ()
    if services["backup"]["command"][0].startswith("/"):
        # Once: without the seconds behind the place.
        once = {**services["backup"], "command": services["backup"]["command"][:1]}
        after = (container("backup", once, directory / "volumes", secrets=handed_out),)
    plan = Plan(
        directory=str(directory),
        nodes=nodes,
        probes=tuple(probing(each) for each in nodes),
        after=after,
        client_files=str(made / "client"),
    )
    return plan, play(plan)
