"""Data directories that released versions left behind: each must load, and mean what it meant."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from golden_node import GoldenNode
from replica_rig import Rig

from raftflow.cluster.consensus.configurations import REGULAR
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.journal import Journal, LogEntry

HERE = Path(__file__).resolve().parent
VERSIONS = sorted(path.name for path in HERE.glob("v*"))

# What does not change while time goes by.
LASTING = ("run_id", "workflow_type", "status", "history_length", "input", "input_base64", "output")


@pytest.fixture(params=VERSIONS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of the directory, and what its own version said of it."""
    source = HERE / request.param
    data = tmp_path / "data"
    shutil.copytree(source / "data", data)
    return data, json.loads((source / "expected.json").read_text())


def committed(data: Path, last: int) -> list[LogEntry]:
    """The entries as consensus hands them over: their first byte tells it their kind, and what is
    its own (a new term, a configuration) has no payload for others."""
    journal = Journal.open(str(data / "raft"), disk=OsDisk())
    try:
        entries = journal.entries(journal.first_index, last + 1, max_bytes=1 << 30)
    finally:
        journal.close()
    return [
        LogEntry(each.index, each.term, each.payload[1:] if each.payload[:1] == REGULAR else b"")
        for each in entries
    ]


def test_there_is_a_directory_of_each_release() -> None:
    assert "v0.1.0" in VERSIONS


async def test_the_log_alone_brings_the_same_state(
    golden: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    data, expected = golden
    rig = await Rig(tmp_path / "fresh").start()
    await rig.feed(committed(data, expected["applied_index"]))
    assert rig.replica.applied_index == expected["applied_index"]
    assert rig.replica.digest.hex() == expected["state_digest"]
    await rig.stop()


async def test_the_store_and_the_rest_of_the_log_bring_the_same_state(
    golden: tuple[Path, dict[str, Any]],
) -> None:
    data, expected = golden
    rig = await Rig(data).start()
    await rig.feed(committed(data, expected["applied_index"]))
    assert rig.replica.digest.hex() == expected["state_digest"]
    await rig.stop()


@pytest.mark.cluster
def test_a_node_serves_it(golden: tuple[Path, dict[str, Any]]) -> None:
    data, expected = golden
    node = GoldenNode(data)
    node.start()
    try:
        seen = node.observed(expected["runs"])
    finally:
        node.stop()
    for workflow_id, then in expected["runs"].items():
        now = seen["runs"][workflow_id]
        assert _as_it_was(now["history"], then["history"]) == then["history"]
        lasting = [{name: each["run"].get(name) for name in LASTING} for each in (now, then)]
        assert lasting[0] == lasting[1]


def _as_it_was(now: Any, then: Any) -> Any:
    """Without the fields that later releases say in addition."""
    if isinstance(then, dict):
        return {name: _as_it_was(now[name], value) for name, value in then.items() if name in now}
    if isinstance(then, list) and len(now) == len(then):
        return [_as_it_was(*pair) for pair in zip(now, then, strict=True)]
    return now
