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


@pytest.mark.parametrize("verb", ["verify", "dump"])
def test_a_directory_without_a_log_is_not_called_sound(tmp_path: Path, verb: str) -> None:
    result = log(verb, tmp_path)
    assert isinstance(result.exception, CommandError)
    assert "holds no log" in str(result.exception)
    assert result.output == ""


def test_a_reader_that_has_seen_enough_is_no_error(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("click.echo", closed)
    assert isinstance(log("dump", data_dir).exception, BrokenPipeError)
