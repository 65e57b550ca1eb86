"""`raftflow top`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fake_api import Call, Reply, serving

from raftflow.cluster.cli import top as module
from raftflow.cluster.cli.main import cli
from raftflow.cluster.cli.top import Watched, figures, size, sparkline, view

NODE = {
    **{"role": "leader", "member": "voter", "lag": 0, "last_contact_ms": 12, "version": "0.5.0"},
    **{"fsync_ms": 1.5, "loop_lag_ms": 3, "log_bytes": 5 << 20, "store_bytes": 3 << 30},
    **{"disk_free_bytes": 50 << 30, "clock_skew_ms": -2, "uptime_seconds": 7_300.0},
    **{"connected": True, "commit_index": 100},
}
STATE = {
    **{"cluster_id": "c1", "node": "n1", "leader": "n1", "term": 3},
    "nodes": [{"id": "n1", **NODE}, {"id": "n2", "role": "unknown", "connected": False}],
    "elections": [
        {"at": "2026-01-01T00:00:00.0Z", "term": 3, "leader": "n1", "reason": "no word from n2"}
    ],
}
QUEUE = {"name": "evil\x1b[2J", "namespace": "shop", "kind": "workflow", "queued": 4}
QUEUES = {"queues": [QUEUE | {"oldest_ms": 3, "leases": 0, "expired_total": 0, "pollers": []}]}
HISTORY = {
    "every_ms": 5_000,
    "samples": {"commits": [0, None, 50, 100], "commit_p99_ms": [3, 9, None], "leases": [None]},
}


def run(respond: Any, output: str, count: int = 1) -> Result:
    command = ["top", "--every", "1ms", "--count", str(count), "-o", output]
    with serving(respond) as fake:
        result = CliRunner().invoke(cli, [*command, "--address", fake.address])
    assert result.exit_code == 0, result.output
    return result


def cluster(call: Call) -> Reply:
    path = call.target.partition("?")[0]
    return 200, {"/api/cluster": STATE, "/api/queues": QUEUES}.get(path, HISTORY)


def test_everything_on_one_screen() -> None:
    shown = run(cluster, "plain").output
    assert "since 2026-01-01T00:00:00Z n1 leads in term 3: no word from n2" in shown
    assert "commits/s 20  p99 ms 9" in shown
    [first] = [line for line in shown.splitlines() if line.startswith("n1 ")]
    assert first.split()[:4] == ["n1", "leader", "voter", "0"]
    for figure in ("1.5 ms", "5 MiB", "3 GiB", "50 GiB", "-2 ms", "2 h"):
        assert figure in first
    assert "lost" in shown
    assert r"evil\x1b[2J" in shown
    assert "leader n1" in run(cluster, "table").output


def test_json_is_a_document_a_line() -> None:
    lines = run(cluster, "json", count=2).output.splitlines()
    assert len(lines) == 2
    document = json.loads(lines[0])
    assert document["cluster"] == STATE
    assert document["queues"] == QUEUES
    assert document["history"] == HISTORY


def test_a_release_that_tells_less() -> None:
    def old(call: Call) -> Reply:
        return (200, STATE) if call.target == "/api/cluster" else (404, {"error": "no such path"})

    shown = run(old, "plain").output
    assert "leader n1" in shown
    assert "queues" not in shown


def test_the_last_look_stays_while_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    assert view(watched) == ["nothing was heard yet"]
    monkeypatch.setattr(module, "look", lambda _client: "no node answered")
    watched.state = STATE
    module._look(None, watched)  # type: ignore[arg-type]
    blocks = view(watched)
    assert str(blocks[0]).startswith("cluster c1")
    assert blocks[-1] == "as of the last answer: no node answered"


def test_entries_a_second_are_those_since_the_look_before() -> None:
    watched = Watched(state=STATE)
    module._measure(watched, 10.0)
    assert watched.rates == {}
    later = {**STATE, "nodes": [{"id": "n1", **NODE, "commit_index": 300}]}
    watched.state = later
    module._measure(watched, 12.0)
    assert watched.rates == {"n1": 100.0}


def test_figures_of_nothing() -> None:
    assert figures(None) == []
    assert figures({"every_ms": 5_000, "samples": {"commits": [None, 0]}}) == ["commits/s 0"]
    assert sparkline([0, None, 7, 14]) == "▁ ▅█"
    assert [size(each) for each in (None, 12, 2_048, 5 << 30)] == [None, "12 B", "2 KiB", "5 GiB"]
