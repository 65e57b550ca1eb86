import json
import struct
from pathlib import Path

import crc32c
import pytest
from click.testing import CliRunner, Result
from fake_api import Call, Reply, serving

from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.main import cli
from raftflow.proto.workflow.v1.history_pb2 import HistoryEvent


def record(event_id: int) -> bytes:
    event = HistoryEvent(event_id=event_id, time_ms=1)
    event.timer_fired.sequence = event_id
    payload = event.SerializeToString()
    return struct.pack("<II", len(payload), crc32c.crc32c(payload)) + payload


NO_EVENT = struct.pack("<II", 2, crc32c.crc32c(b"\xff\xff")) + b"\xff\xff"
SIZE = len(record(1))
WHOLE = record(1) + record(2) + record(3)


def verify(tmp_path: Path, content: bytes, *, output: str = "plain") -> Result:
    file = tmp_path / "run.history"
    file.write_bytes(content)
    return CliRunner().invoke(cli, ["history", "verify", str(file), "-o", output])


@pytest.mark.parametrize("content", [WHOLE, b""])
def test_a_whole_file(tmp_path: Path, content: bytes) -> None:
    result = verify(tmp_path, content)
    assert result.exit_code == 0
    assert result.output == f"{tmp_path}/run.history: ok, {len(content) // SIZE} events\n"


@pytest.mark.parametrize(
    ("content", "offset", "problem"),
    [
        (WHOLE[:-1], 2 * SIZE, "the last record is cut short"),
        (WHOLE + b"\x01", 3 * SIZE, "the last record is cut short"),
        (record(1) + record(3), SIZE, "event 3 follows event 1"),
        (NO_EVENT, 0, ""),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, offset: int, problem: str) -> None:
    result = verify(tmp_path, content, output="json")
    assert isinstance(result.exception, CommandError)
    (report,) = json.loads(result.stdout)
    assert report["damage"].startswith(f"offset {offset}: ")
    assert problem in report["damage"]


@pytest.mark.parametrize("position", range(SIZE, 2 * SIZE))
def test_no_flipped_byte_goes_unnoticed(tmp_path: Path, position: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[position] ^= 0x40
    result = verify(tmp_path, bytes(damaged))
    assert isinstance(result.exception, CommandError)
    assert f"run.history: offset {SIZE}: " in result.output


def export(tmp_path: Path, content: bytes) -> Result:
    def respond(call: Call) -> Reply:
        if "/history?" in call.target:
            assert call.target == "/api/workflows/a%2Fb/history?format=binary&run_id=r1"
            return 200, content
        return 200, {"run_id": "r1"}

    file = str(tmp_path / "out.history")
    with serving(respond) as fake:
        return CliRunner().invoke(
            cli,
            ["history", "export", "a/b", "-f", file, "--address", fake.address, "-o", "plain"],
        )


def test_export_writes_the_bytes(tmp_path: Path) -> None:
    result = export(tmp_path, WHOLE)
    assert result.output == f"{tmp_path}/out.history: 3 events\n"
    assert (tmp_path / "out.history").read_bytes() == WHOLE


def test_a_damaged_export_is_not_written(tmp_path: Path) -> None:
    result = export(tmp_path, WHOLE[:-1])
    assert isinstance(result.exception, CommandError)
    assert list(tmp_path.iterdir()) == []
