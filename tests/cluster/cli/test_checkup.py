"""`raftflow doctor --config FILE`, `--data-dir DIR`: what keeps a stopped node from starting."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections import namedtuple
from pathlib import Path

import pytest
from click.testing import CliRunner
from corrupt import damage_entry
from ports import free_ports

from raftflow.cluster.cli import checkup
from raftflow.cluster.cli.authority import Authority
from raftflow.cluster.cli.checkup import examine
from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.findings import Finding
from raftflow.cluster.cli.main import cli
from raftflow.cluster.consensus.identity import claim_directory
from raftflow.cluster.store.connection import prepare
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Of n1, a cluster of one, stopped in order."""
    directory = tmp_path / "data"
    claim_directory(str(directory), cluster_id="shop", node_id="n1").lock.release()
    raft = directory / "raft"
    HardState.open(str(raft), OsDisk()).store(3, "n1")
    journal = Journal.open(str(raft), disk=OsDisk())
    journal.append([LogEntry(index, 1, b"entry %d" % index) for index in range(1, 4)])
    journal.flush()
    journal.close()
    db = prepare(str(directory / "state.db"))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return directory


@pytest.fixture
def file(tmp_path: Path, data_dir: Path) -> Path:
    http, grpc, raft, metrics = free_ports(4)
    path = tmp_path / "node.toml"
    path.write_text(
        f'node_id = "n1"\ncluster_id = "shop"\ndata_dir = "{data_dir}"\n'
        f'http_addr = "127.0.0.1:{http}"\ngrpc_addr = "127.0.0.1:{grpc}"\n'
        f'raft_addr = "127.0.0.1:{raft}"\nmetrics_addr = "127.0.0.1:{metrics}"\n'
    )
    return path


def add(file: Path, *lines: str) -> None:
    """In front: what stands behind a table would belong to it."""
    file.write_text("\n".join([*lines, file.read_text()]))


def found(file: Path | None, data_dir: Path | None = None, **env: str) -> list[Finding]:
    return examine(file, data_dir, env).findings


def only(findings: list[Finding]) -> Finding:
    [finding] = findings
    assert finding.next
    return finding


def test_a_sound_node_and_nothing_is_touched(file: Path, data_dir: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in data_dir.rglob("*")}
    made = examine(file, None, {})
    assert made.findings == []
    assert made.node_id == "n1"
    assert {"settings", "directory", "log", "state", "certificates", "ports"} <= {*made.checked}
    assert {path: path.stat().st_mtime_ns for path in data_dir.rglob("*")} == before
    by_itself = examine(None, data_dir, {})
    assert by_itself.findings == []
    assert by_itself.node_id == "n1"
    assert "ports" not in by_itself.checked


def test_a_setting_that_cannot_be(file: Path) -> None:
    add(file, 'lease_ms = "soon"')
    finding = only(found(file))
    assert finding.severity == "problem"
    assert finding.problem.startswith("lease_ms (from ")
    assert "cannot read" in only(found(file.with_name("none.toml"))).problem


def test_the_directory_of_another(file: Path, data_dir: Path) -> None:
    finding = only(found(file, RAFTFLOW_NODE_ID="n2", RAFTFLOW_PEERS="n2=127.0.0.1:1"))
    assert "belongs to node_id 'n1'" in finding.problem
    (data_dir / "node.json").write_text("{")
    assert "is damaged" in only(found(file)).problem
    assert "is damaged" in only(found(None, data_dir)).problem
    (data_dir / "node.json").unlink()
    assert "has no node.json but is not empty" in only(found(file)).problem


def test_a_directory_that_is_not_there(file: Path, tmp_path: Path) -> None:
    finding = only(found(file, tmp_path / "none"))
    assert finding.severity == "advice"
    assert "begins empty" in finding.problem
    (tmp_path / "file").touch()
    assert "is no directory" in found(file, tmp_path / "file")[0].problem


def test_a_node_that_was_removed(file: Path, data_dir: Path) -> None:
    (data_dir / "raft" / "removed").write_text("by the configuration of entry 7\n")
    finding = only(found(file))
    assert "has removed n1 (by the configuration of entry 7)" in finding.problem
    assert "`raftflow node rebuild" in finding.next


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_files_of_another_user(file: Path, data_dir: Path) -> None:
    os.chown(data_dir / "state.db", 12_345, 12_345)
    finding = only(found(file))
    assert "belongs to user 12345" in finding.problem
    assert finding.next.startswith("`chown -R root ")


def test_a_damaged_log(file: Path, data_dir: Path) -> None:
    damage_entry(data_dir / "raft", 2)
    alone = only(found(file))
    assert alone.severity == "problem"
    assert "its log is damaged: " in alone.problem
    with_peers = found(file, RAFTFLOW_PEERS="n1=127.0.0.1:1,n2=127.0.0.1:2", RAFTFLOW_RAFT_ADDR="")
    damaged = [each for each in with_peers if each.check == "log"]
    assert only(damaged).severity == "advice"
    assert "while most others run" in damaged[0].next


def test_a_state_of_a_newer_release_and_none_at_all(file: Path, data_dir: Path) -> None:
    state = data_dir / "state.db"
    head = bytearray(state.read_bytes())
    head[60:64] = (999).to_bytes(4, "big")
    state.write_bytes(head)
    finding = only(found(file))
    assert "schema version 999" in finding.problem
    assert "start it with the release that wrote it" in finding.next
    state.write_bytes(b"x" * 200)
    assert "is not a raftflow store" in only(found(file)).problem


def test_certificates(file: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certs")
    authority.create("shop", days=30)
    authority.issue("n1", hosts=("127.0.0.1",), days=2)
    names = {
        "peer_cert_file": authority.certificate("n1"),
        "peer_key_file": authority.key("n1"),
        "peer_ca_file": authority.trusted,
    }
    add(file, *(f'{name} = "{path}"' for name, path in names.items()))
    finding = only(found(file))
    assert (finding.severity, finding.check) == ("problem", "certificates")
    assert "its certificate (peer) is over in 1 days" in finding.problem
    authority.key("n1").unlink()
    assert "the peer certificate cannot be used" in only(found(file)).problem


def test_a_token_file(file: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    add(file, f'auth_token_file = "{tokens}"')
    assert "No such file" in only(found(file)).problem
    tokens.write_text("a-token-that-is-long-enough\n")
    tokens.chmod(0o644)
    finding = only(found(file))
    assert finding.severity == "advice"
    assert "mode 0644" in finding.problem
    assert "chmod 600" in finding.next


def test_ports_that_are_taken_or_not_of_this_machine(file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        finding = only(found(file, RAFTFLOW_GRPC_ADDR=at))
    assert finding.problem == f"grpc_addr {at} is taken by another process"
    away = only(found(file, RAFTFLOW_METRICS_ADDR="192.0.2.7:9090"))
    assert "is no address of this machine" in away.problem


def test_peers_that_are_not_there(file: Path) -> None:
    [dead] = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as there:
        alive = there.getsockname()[1]
        [own] = free_ports(1)
        peers = f"n1=127.0.0.1:{own},n2=127.0.0.1:{alive},n3=127.0.0.1:{dead}"
        lines = [each for each in file.read_text().splitlines() if not each.startswith("raft_")]
        file.write_text("\n".join(lines))
        finding = only(found(file, RAFTFLOW_PEERS=peers))
    assert finding.severity == "advice"
    assert f"it would not reach n3 at 127.0.0.1:{dead}: Connection refused" in finding.problem
    assert "no majority of 2" in only(found(file, RAFTFLOW_PEERS=peers)).problem


def test_disk_and_open_files(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr(checkup.shutil, "disk_usage", lambda _: Usage(1 << 40, 0, 1 << 30))
    monkeypatch.setattr(checkup.resource, "getrlimit", lambda _: (1_024, 4_096))
    disk, files = found(file)
    assert "has 1,024 MiB left" in disk.problem
    assert "may have 4,096 files open; the node wants 8,704" in files.problem


def test_a_node_that_runs(file: Path, data_dir: Path) -> None:
    with (data_dir / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4711\n")
        lock.flush()
        finding = only(found(file))
    assert finding.severity == "advice"
    assert finding.problem.startswith("process 4711 runs in ")


@pytest.fixture
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("RAFTFLOW_")]:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("_no_settings")
def test_the_command(file: Path, data_dir: Path) -> None:
    well = CliRunner().invoke(cli, ["doctor", "--config", str(file), "-o", "plain"])
    assert well.exit_code == 0, well.output
    assert well.output.splitlines()[0].startswith("checked: settings, directory")
    assert well.output.splitlines()[-1] == "nothing is wrong"
    (data_dir / "node.json").write_text("{")
    ill = CliRunner().invoke(cli, ["doctor", "--data-dir", str(data_dir), "-o", "json"])
    assert isinstance(ill.exception, CommandError)
    report = json.loads(ill.stdout)
    assert not report["healthy"]
    assert report["findings"][0]["severity"] == "problem"
