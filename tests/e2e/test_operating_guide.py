"""Every command of docs/operating.md is run by a test, with addresses and places of this machine.

The commands of a section are run in its test, in their order. A section whose commands nobody runs
fails the first test here; what stands within sentences is held against the command line's own tree.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from certs import authority_of, issue, serve_flags
from dev_cluster import PROGRAM, call, wait_for, workflow_path
from node_processes import Load, Nodes, nodes_in

from raftflow.cluster.cli.main import cli

GUIDE = Path(__file__).parents[2] / "docs" / "operating.md"

# Who runs the commands of which section.
RUN_BY = {
    "A cluster": "test_operating_guide.py::test_a_cluster_is_started_as_it_says",
    "Tokens": "test_operating_guide.py::test_tokens_and_tls",
    "TLS in front": "test_operating_guide.py::test_tokens_and_tls",
    "Namespaces, retention, delete": "test_operating_guide.py::test_the_commands_of_a_quiet_day",
    "Changing members": "test_members.py::test_the_commands_of_the_guide_do_what_it_says",
    "Nodes that never vote": "test_operating_guide.py::test_an_api_node_is_added_as_it_says",
    "Checking a cluster": "test_operating_guide.py::test_the_commands_of_a_quiet_day",
    "Stop, restart, upgrade": "test_operating_guide.py::test_restarts_and_upgrades",
    "Upgrading": "test_operating_guide.py::test_restarts_and_upgrades",
    "Backup and restore": "test_operating_guide.py::test_backup_and_restore",
    "A node lost its disk": "test_members.py::test_the_commands_of_the_guide_do_what_it_says",
    "A lost majority": "test_operating_guide.py::test_a_lost_majority",
    "Awkward questions": "test_operating_guide.py::test_the_commands_of_a_quiet_day",
}


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.*)\n", GUIDE.read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands_of(section: str) -> list[str]:
    blocks = re.findall(r"```\n(.*?)```", sections()[section], re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    lines = [line.removeprefix("$ ") for line in lines]
    return [line for line in lines if line.startswith("raftflow ")]


# ---- nothing is forgotten -----------------------------------------------------------------------


def test_each_section_with_commands_has_a_test_that_runs_them() -> None:
    assert {name for name in sections() if commands_of(name)} == set(RUN_BY), (
        "docs/operating.md: name the test that runs the commands of a section in RUN_BY"
    )
    for where in set(RUN_BY.values()):
        file, _, name = where.partition("::")
        text = (Path(__file__).parent / file).read_text()
        assert f"def {name}(" in text, f"{where} is gone"


def test_commands_within_sentences_are_such_as_there_are() -> None:
    prose = re.sub(r"```\n.*?```", "", GUIDE.read_text(), flags=re.S)
    said = [" ".join(each.split()) for each in re.findall(r"`(raftflow [^`]+)`", prose)]
    assert len(said) > 20
    for line in said:
        words = [word.strip("[]") for word in line.split()[1:]]
        command, rest = find(words)
        known = {option for each in command.params for option in (*each.opts, "--help", "-h")}
        for word in rest:
            if word.startswith("-"):
                assert word.partition("=")[0] in known, f"{line}: there is no {word}"


def find(words: list[str]) -> tuple[click.Command, list[str]]:
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        if words[0] not in command.commands:
            assert words[0].startswith("-") or command is not cli, f"there is no {words[0]}"
            break
        command, words = command.commands[words[0]], words[1:]
    return command, words


# ---- the commands -------------------------------------------------------------------------------


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with nodes_in(tmp_path / "nodes") as found:
        yield found


def here(nodes: Nodes, command: str, **places: str) -> list[str]:
    """The words of a command for this machine: n1 is at 10.0.0.1, and so on."""
    text = re.sub(r"10\.0\.0\.(\d):9233", lambda found: nodes[f"n{found[1]}"].raft, command)
    for place, path in places.items():
        text = text.replace(place, path)
    return shlex.split(text, comments=True)[1:]


def without(words: list[str], *gone: str) -> list[str]:
    pairs = zip(words[1::2], words[2::2], strict=True)
    return [word for pair in pairs if pair[0] not in gone for word in pair]


OWN = ("--node-id", "--data-dir", "--http-addr", "--grpc-addr", "--metrics-addr")


@pytest.mark.cluster
@pytest.mark.slow
def test_a_cluster_is_started_as_it_says(nodes: Nodes) -> None:
    (serve,) = commands_of("A cluster")
    for each in ("n1", "n2", "n3"):
        nodes[each].start(*without(here(nodes, serve), *OWN))
    nodes.wait_settled("n1", "n2", "n3")


def settings_of(nodes: Nodes, node_id: str, file: Path) -> Path:
    """The node's command line as a file."""
    node, peers = nodes[node_id], nodes.peers("n1", "n2", "n3").split(",")
    places = {"http_addr": node.http, "grpc_addr": node.grpc, "metrics_addr": node.metrics}
    settings = {"node_id": node_id, "data_dir": str(node.data), "peers": peers, **places}
    file.write_text("".join(f"{name} = {json.dumps(it)}\n" for name, it in settings.items()))
    return file


@pytest.mark.cluster
@pytest.mark.slow
def test_the_commands_of_a_quiet_day(nodes: Nodes, tmp_path: Path) -> None:
    nodes.bear("n1", "n2", "n3")
    for command in commands_of("Namespaces, retention, delete"):
        nodes.cli(*here(nodes, command))
    assert "30d" in GUIDE.read_text()
    listed = json.loads(nodes.cli("namespace", "list", "-o", "json"))
    kept = {each["name"]: each["retention_ms"] for each in listed["namespaces"]}
    day = 86_400_000
    assert kept == {"default": 90 * day, "shop": 30 * day}
    doctor, checkup = commands_of("Checking a cluster")
    wait_for("all is well", lambda: nodes.try_cli(*here(nodes, doctor)).returncode == 0)
    assert nodes["n3"].stop() == 0
    place = {"/etc/raftflow/node.toml": str(settings_of(nodes, "n3", tmp_path / "node.toml"))}
    assert nodes.cli(*here(nodes, checkup, **place)).startswith("checked: settings, directory")
    nodes["n3"].start("--peers", nodes.peers("n1", "n2", "n3"))
    types = {"workflow_types": ["Report", "Order"], "worker_id": "w"}
    call(nodes["n1"].http, "POST", "/api/workflow-types", types)
    call(nodes["n1"].http, "POST", "/api/workflows", {"type": "Order", "workflow_id": "order-42"})
    rejected, report = commands_of("Awkward questions")
    nodes.cli(*here(nodes, rejected))
    order = call(nodes["n2"].http, "GET", workflow_path("order-42"))
    assert [(each["name"], each["payload"]) for each in order["signals"]] == [
        ("approval", "rejected")
    ]
    said = [nodes.cli(*here(nodes, report)) for _ in range(4)]
    assert ["started:     yes" in each for each in said] == [True, False, False, False]
    nodes.cli("workflow", "terminate", "report-2026-11-30")
    assert "started:     no" in nodes.cli(*here(nodes, report)), "also when it is over"


@pytest.mark.cluster
@pytest.mark.slow
def test_tokens_and_tls(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, root = nodes["n1"], "the-root-token-of-this-test"
    authority = authority_of(tmp_path / "certs", "shop")
    issue(authority, "n1")
    (tmp_path / "tokens").write_text(f"{root}\n")
    secure = ("--cluster-id", "shop", "--auth-token-file", str(tmp_path / "tokens"))
    node.start(*secure, *serve_flags(authority, "n1"))
    node.trusted = authority.trusted
    wait_for("n1 is ready", node.is_ready)
    (tls,) = re.findall(r"^export (.*)$", sections()["TLS in front"], re.M)
    told = dict(word.split("=", 1) for word in tls.split())
    assert set(told) == {"RAFTFLOW_ADDRESS", "RAFTFLOW_CA_FILE"}
    assert told["RAFTFLOW_ADDRESS"].startswith("https://")
    monkeypatch.setenv("RAFTFLOW_TOKEN", root)
    (status,) = commands_of("TLS in front")
    assert "leader n1" in nodes.cli(*here(nodes, status))  # with these two variables
    mint, revoke, audit = commands_of("Tokens")
    nodes.cli("namespace", "create", "shop")
    minted = nodes.cli(*here(nodes, mint)).strip()
    token_id = re.fullmatch(r"rf_([a-z2-7]{12})_\S+", minted)
    assert token_id is not None
    nodes.cli("workflow", "list", "--token", minted)
    nodes.cli(*here(nodes, revoke, ID=token_id[1]))
    refused = nodes.try_cli("workflow", "list", "--token", minted)
    assert refused.returncode == 1
    said = nodes.cli(*here(nodes, audit))
    assert "MintToken" in said
    assert "RevokeToken" in said


@pytest.mark.cluster
@pytest.mark.slow
def test_an_api_node_is_added_as_it_says(nodes: Nodes) -> None:
    nodes.bear("n1")
    (add,) = commands_of("Nodes that never vote")
    words = here(nodes, add)
    line = next(
        each for each in nodes.cli(*words, "--no-wait").splitlines() if "raftflow serve" in each
    )
    nodes["n5"].start(*without(line.split()[1:], "--node-id"))
    assert "n5 serves, and never votes" in nodes.cli(*words)


@pytest.mark.cluster
@pytest.mark.slow
def test_restarts_and_upgrades(nodes: Nodes, tmp_path: Path) -> None:
    """`ssh` and what it calls are programs of this test: they restart a node of this machine."""
    nodes.bear("n1")
    command = f'#!/bin/sh\necho "$@" >> {tmp_path}/said\ntouch {tmp_path}/restart\n'
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(command)
    (tmp_path / "bin" / "ssh").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    release = call(nodes["n1"].http, "GET", "/api/health")["version"]
    (restart,) = commands_of("Stop, restart, upgrade")
    (upgrade,) = commands_of("Upgrading")
    for line in (restart, upgrade.replace("0.5.0", release)):
        running = subprocess.Popen(
            [*PROGRAM, *here(nodes, line)],
            env={**os.environ, "PATH": path, "RAFTFLOW_ADDRESS": nodes["n1"].http},
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_for("it is asked to restart", (tmp_path / "restart").exists)
        (tmp_path / "restart").unlink()
        assert nodes["n1"].stop() == 0
        nodes["n1"].start()
        said, _ = running.communicate(timeout=60)
        assert running.returncode == 0, said
        assert "all 1 nodes are restarted" in said
    assert (tmp_path / "said").read_text().splitlines() == [
        "127.0.0.1 sudo systemctl restart raftflow",
        f"127.0.0.1 sudo upgrade-raftflow {release}",
    ]


@pytest.mark.cluster
@pytest.mark.slow
def test_backup_and_restore(nodes: Nodes, tmp_path: Path) -> None:
    create, list_, remote, verify, restore = commands_of("Backup and restore")
    nodes.bear("n1", "n2", "n3", arguments=("--cluster-id", "shop"))
    kept = str(tmp_path / "kept")
    bucket = {"s3://backups/raftflow": f"file://{tmp_path}/bucket"}
    nodes.cli(*here(nodes, create, **{"/var/backups/raftflow": kept}))
    listed = nodes.cli(*here(nodes, list_, **{"/var/backups/raftflow": kept}))
    backup = listed.splitlines()[1].split()[-1]
    assert re.fullmatch(rf"{kept}/shop-\d{{8}}T\d{{6}}Z-\d{{12}}", backup)
    nodes.cli(*here(nodes, remote, **bucket))
    example = re.search(r"/var/backups/raftflow/shop-\S+", verify)
    assert example is not None
    places = {example[0]: backup}
    assert "whole; entry" in nodes.cli(*here(nodes, verify, **places))
    for each in ("n1", "n2", "n3"):
        nodes[each].stop(signal.SIGKILL)
        own = {
            **places,
            "/var/lib/raftflow": str(tmp_path / each),
            "--node-id n1": f"--node-id {each}",
        }
        nodes.cli(*here(nodes, restore, **own))
    for each in ("n1", "n2", "n3"):
        nodes[each].directory = tmp_path / f"new-{each}"
        nodes[each].directory.mkdir()
        (tmp_path / each).rename(nodes[each].data)
        nodes[each].start("--peers", nodes.peers("n1", "n2", "n3"))
    nodes.wait_settled("n1", "n2", "n3")


@pytest.mark.cluster
@pytest.mark.slow
def test_a_lost_majority(nodes: Nodes) -> None:
    recover, *adding = commands_of("A lost majority")
    nodes.bear("n1", "n2", "n3", arguments=("--cluster-id", "shop"))
    with Load(nodes) as load:
        pass
    for each in ("n1", "n2", "n3"):
        nodes[each].stop(signal.SIGKILL)
    words = here(nodes, recover, **{"/var/lib/raftflow": str(nodes["n1"].data)})
    typed = subprocess.run(
        [*PROGRAM, *words], input="n1\n", capture_output=True, text=True, check=False, timeout=60
    )
    assert typed.returncode == 0, typed.stderr
    assert "n1 is the only voter of cluster shop-r1" in typed.stdout
    nodes["n1"].start("--peers", nodes.peers("n1", "n2", "n3"))
    wait_for("n1 leads", lambda: (nodes.state() or {}).get("leader") == "n1")
    for each, add in zip(("n2", "n3"), adding, strict=True):
        nodes[each].directory = nodes.directory / f"new-{each}"
        said = nodes.cli(*here(nodes, add), "--no-wait")
        line = next(found for found in said.splitlines() if "raftflow serve" in found)
        nodes[each].start(*without(line.split()[1:], "--node-id"))
        assert nodes.cli(*here(nodes, add)).rstrip().endswith(f"{each} votes")
    nodes.wait_settled("n1", "n2", "n3")
    assert load.failed == []
