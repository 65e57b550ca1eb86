import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from corrupt import damage_entry

from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.main import cli
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    raft = tmp_path / "raft"
    HardState.open(str(raft), OsDisk()).store(3, "n2")
    journal = Journal.open(str(raft), disk=OsDisk())
    journal.append([LogEntry(index, 1, b"entry %d" % index) for index in range(1, 4)])
    journal.flush()
    journal.close()
    return tmp_path


def log(verb: str, directory: Path, output: str = "plain") -> Result:
    return CliRunner().invoke(cli, ["log", verb, str(directory), "-o", output])


def test_dump(data_dir: Path) -> None:
    lines = log("dump", data_dir).output.splitlines()
    assert lines[0].startswith("term 3, voted for n2")
    assert len(lines) == 5
    assert log("dump", data_dir / "raft").output.splitlines() == lines
    documents = [json.loads(line) for line in log("dump", data_dir, "json").output.splitlines()]
    assert [each["kind"] for each in documents] == ["vote", "segment", "entry", "entry", "entry"]


def test_verify(data_dir: Path) -> None:
    assert log("verify", data_dir).output == f"{data_dir}/raft: no damage\n"
    damage_entry(data_dir / "raft", 2)
    result = log("verify", data_dir)
    assert isinstance(result.exception, CommandError)
    assert "damaged: " in result.output
    assert "What to do: " in result.output
    assert "no damage" not in result.output


def test_a_directory_that_is_not_there() -> None:
    assert log("verify", Path("/nowhere")).exit_code == 2
