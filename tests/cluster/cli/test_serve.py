import json
import signal
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
def test_the_log_is_json_line_by_line(tmp_path: Path) -> None:
    flags = []
    for name, port in zip(("http", "grpc", "raft", "metrics"), free_ports(4), strict=True):
        flags += [f"--{name}-addr", f"127.0.0.1:{port}"]
    node = subprocess.Popen(
        [sys.executable, "-m", "raftflow.cluster.cli.main", "serve", "--data-dir", tmp_path]
        + flags,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert node.stderr is not None
    with node:
        for line in node.stderr:
            if json.loads(line)["event"] == "hosted_workflows_loaded":
                node.send_signal(signal.SIGTERM)
    assert node.returncode == 0
