from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.main import cli


@pytest.mark.parametrize("name", ["tls_cert_file", "peer_cert_file"])
@pytest.mark.parametrize("by", ["environment", "file"])
def test_one_certificate_for_all_nodes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, by: str
) -> None:
    given = {
        "tls_cert_file": ("tls_cert_file", "tls_key_file"),
        "peer_cert_file": ("peer_cert_file", "peer_key_file", "peer_ca_file"),
    }[name]
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
