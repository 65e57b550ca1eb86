"""How the doctor tells what it found."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result
from fake_api import Call, Reply, serving

from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.main import cli

ROW = {
    **{"role": "follower", "applied_index": 640, "state_digest": "aa", "version": "0.5.0"},
    **{"lag": 0, "disk_free_bytes": 50 << 30, "clock_skew_ms": 1, "connected": True},
    "invariants": {"checked": 9, "walks": 1, "violated": 0, "violations": []},
}


def cluster(*rows: dict[str, Any], why: dict[str, Any] | None = None) -> Any:
    nodes = [{"id": f"n{number}", **ROW, **row} for number, row in enumerate(rows, 1)]
    state = {"cluster_id": "c", "node": "n1", "leader": "n1", "term": 3, "nodes": nodes}

    def respond(call: Call) -> Reply:
        if call.target == "/api/cluster":
            return 200, state
        if why is not None and call.target.startswith("/api/why/node/"):
            return 200, why if call.target.endswith("n2") else {"links": []}
        return 404, {"error": "no such path"}

    return respond


def doctor(respond: Any, output: str) -> Result:
    with serving(respond) as fake:
        return CliRunner().invoke(cli, ["doctor", "-o", output, "--address", fake.address])


def test_nothing_is_wrong() -> None:
    result = doctor(cluster({}, {}), "plain")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].startswith("cluster c  leader n1  term 3")
    assert lines[2].split() == [
        *("n1", "follower", "0.5.0", "0", "same", "9", "0", "50", "GiB", "1", "ms")
    ]
    assert lines[-1] == "nothing is wrong"


def test_a_problem_its_reasons_and_what_to_do() -> None:
    links = [
        {"cause": "node_frozen", "severity": "problem", "says": "n2 is\x1b[2J frozen."},
        {"cause": "late", "severity": "problem", "says": "It was stopped.", "next": "wake it"},
    ]
    why = {"links": [{"evidence": {}, "next": None} | link for link in links]}
    respond = cluster({}, {"applied_index": None}, why=why)
    result = doctor(respond, "plain")
    assert isinstance(result.exception, CommandError)
    assert str(result.exception) == "1 problem found"
    assert result.output.splitlines()[-4:] == [
        "",
        r"problem: n2: n2 is\x1b[2J frozen.",
        "  because: It was stopped.",
        "  next: wake it",
    ]
    report = json.loads(doctor(respond, "json").stdout)
    assert not report["healthy"]
    assert report["findings"] == [
        {
            **{"severity": "problem", "node": "n2", "problem": "n2 is\x1b[2J frozen."},
            **{"next": "wake it", "check": "reach", "because": ["It was stopped."]},
        }
    ]
    assert [node["reachable"] for node in report["nodes"]] == [True, False]
