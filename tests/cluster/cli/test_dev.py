from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.main import cli


# What the environment says of peers is meant for one node, and no node of `dev` hears of it.
@pytest.mark.parametrize(
    ("name", "by"),
    [("tls_cert_file", "environment"), ("tls_cert_file", "file"), ("peer_cert_file", "file")],
)
def test_one_certificate_for_all_nodes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, by: str
) -> None:
    given = {
        "tls_cert_file": ("tls_cert_file", "tls_key_file"),
        "peer_cert_file": ("peer_cert_file", "peer_key_file", "peer_ca_file"),
    }[name]
    # What names one node of another cluster is no reason to refuse anything.
    monkeypatch.setenv("RAFTFLOW_PEERS", "a=10.0.0.1:9233,b=10.0.0.2:9233")
    monkeypatch.setenv("RAFTFLOW_NODE_ID", "a")
    arguments = ["dev", "--data-dir", str(tmp_path / "data")]
    if by == "file":
        config = tmp_path / "raftflow.toml"
        config.write_text("".join(f'{each} = "/x"\n' for each in given))
        arguments += ["--config", str(config)]
    else:
        for each in given:
            monkeypatch.setenv(f"RAFTFLOW_{each.upper()}", "/x")
    done = CliRunner().invoke(cli, arguments)
    assert isinstance(done.exception, CommandError), done.output
    assert done.exception.status == 2
    assert f"{name} is set" in str(done.exception)
    assert "--tls" in str(done.exception)
