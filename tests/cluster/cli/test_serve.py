import json
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from ports import free_ports

from raftflow.cluster.cli.main import cli
from raftflow.cluster.config import ConfigError


def test_print_config_shows_what_all_sources_gave(tmp_path: Path) -> None:
    file = tmp_path / "raftflow.toml"
    file.write_text('lease_ms = "5s"\n[activities.charge]\nmax_attempts = 3\n')
    result = CliRunner().invoke(
        cli,
        ["serve", "--config", str(file), "--leader-wait", "2s", "--print-config"],
        env={"RAFTFLOW_HTTP_ADDR": "127.0.0.1:8000", "RAFTFLOW_LEADER_WAIT_MS": "1"},
    )
    printed = tomllib.loads(result.output)
    assert printed["lease_ms"] == 5000
    assert printed["leader_wait_ms"] == 2000
    assert printed["http_addr"] == "127.0.0.1:8000"
    assert printed["activities"]["charge"]["max_attempts"] == 3


def test_a_wrong_setting_is_named() -> None:
    result = CliRunner().invoke(cli, ["serve", "--grpc-addr", "nowhere", "--print-config"])
    assert isinstance(result.exception, ConfigError)
    assert result.exception.field == "grpc_addr"


@pytest.mark.parametrize("command", ["serve", "dev", "workflow start", "history verify"])
def test_every_command_explains_itself(command: str) -> None:
    result = CliRunner().invoke(cli, [*command.split(), "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 8


@pytest.mark.cluster
@pytest.mark.parametrize("wrong", ["token file", "data directory", "port"])
def test_what_does_not_allow_a_start_is_said_once(tmp_path: Path, wrong: str) -> None:
    """Status 78 and one event. A node that never ran did not stop."""
    ports = free_ports(4)
    with socket.create_server(("127.0.0.1", ports[0] if wrong == "port" else 0)):
        done = subprocess.run(
            [
                *node_command(tmp_path / ("file" if wrong == "data directory" else "data"), ports),
                *(["--auth-token-file", "/nowhere"] if wrong == "token file" else []),
            ],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    events = [json.loads(line)["event"] for line in done.stderr.splitlines() if line[0] == "{"]
    assert (done.returncode, events[-1]) == (78, "start_refused"), done.stderr
    assert not {"node_started", "node_stopped"} & set(events)
    assert done.stderr.splitlines()[-1].startswith("raftflow: ")


def node_command(data_dir: Path, ports: list[int]) -> list[str]:
    if data_dir.name == "file":
        data_dir.write_text("no directory")
    command = [sys.executable, "-m", "raftflow.cluster.cli.main", "serve"]
    command += ["--data-dir", str(data_dir)]
    for name, port in zip(("http", "grpc", "raft", "metrics"), ports, strict=True):
        command += [f"--{name}-addr", f"127.0.0.1:{port}"]
    return command


@pytest.mark.cluster
def test_the_log_is_json_line_by_line(tmp_path: Path) -> None:
    node = subprocess.Popen(
        node_command(tmp_path, free_ports(4)),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert node.stderr is not None
    with node:
        for line in node.stderr:
            if json.loads(line)["event"] == "hosted_workflows_loaded":
                node.send_signal(signal.SIGTERM)
    assert node.returncode == 0
