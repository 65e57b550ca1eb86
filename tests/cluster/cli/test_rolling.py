"""`raftflow cluster restart`, against a cluster that is told; tests/e2e has the real thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fake_api import Call, Reply, serving

from raftflow.cluster.cli import rolling
from raftflow.cluster.cli.main import cli
from raftflow.cluster.cli.rolling import ailing, next_of

ROW = {
    "role": "follower",
    "member": "voter",
    "connected": True,
    "lag": 0,
    "no_vote": None,
    "repair": None,
    "version": "0.4.0",
    "uptime_seconds": 1_000.0,
}
SH = "echo $NODE $HOST >> {log}"


def state(**changed: Any) -> dict[str, Any]:
    rows = [ROW | {"id": f"n{n}", "raft": f"10.0.0.{n}:9233"} for n in (1, 2, 3)]
    return {"leader": "n1", "node": "n1", "term": 1, "nodes": rows, **changed}


class Cluster:
    """A node that the command named is another process from then on; it comes back in steps."""

    def __init__(self, log: Path, *after: dict[str, Any]) -> None:
        self.log = log
        self.after = list(after)  # shapes of a restarted node's row, the last one for good
        self.seen: dict[str, int] = {}

    def __call__(self, _call: Call) -> Reply:
        found = state()
        restarted = [line.split()[0] for line in self.log.read_text().splitlines()]
        for row in found["nodes"]:
            if row["id"] in restarted:
                looked = self.seen[row["id"]] = self.seen.get(row["id"], -1) + 1
                row.update(uptime_seconds=0.0)
                row.update(self.after[min(looked, len(self.after) - 1)] if self.after else {})
        return 200, found


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "SETTLED_S", 0.02)
    monkeypatch.setattr(rolling, "LOOK_S", 0.01)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.touch()
    return path


def restart(cluster: Cluster, *arguments: str, command: str = SH) -> Result:
    with serving(cluster) as fake:
        each = ("--each", command.format(log=cluster.log))
        return CliRunner().invoke(
            cli, ["cluster", "restart", *each, *arguments, "--address", fake.address]
        )


def test_each_node_once_and_the_leader_last(log: Path) -> None:
    result = restart(Cluster(log, {"lag": None, "connected": False}, {"lag": 9999}, {}))
    assert result.exit_code == 0, result.output
    assert log.read_text().splitlines() == ["n2 10.0.0.2", "n3 10.0.0.3", "n1 10.0.0.1"]
    assert "n1, which leads: restarting" in result.output
    assert result.output.splitlines()[-1] == "all 3 nodes are restarted"


def test_programs_get_what_it_took(log: Path) -> None:
    result = restart(Cluster(log), "-o", "json")
    assert '"node": "n2"' in result.output
    assert '"version": "0.4.0"' in result.output


@pytest.mark.parametrize(
    ("after", "arguments", "said"),
    [
        ({"lag": 9999}, (), "n2 is 9999 entries behind"),
        ({"lag": None}, (), "n2 does not answer"),
        ({"no_vote": "it is a learner"}, (), "n2 it is a learner"),
        ({"uptime_seconds": 1_000.0}, (), "n2 runs on: the command has not restarted it"),
        (
            {"version": "0.3.0"},
            ("--release", "0.5.0"),
            "n2 ran 0.4.0, came back with 0.3.0, and not with 0.5.0: the command installs 0.3.0",
        ),
        ({}, ("--release", "0.5.0"), "n2 came back with 0.4.0, as before, and not with 0.5.0"),
        (
            {"version": None},
            ("--release", "0.5.0"),
            "n2 ran 0.4.0, came back with a release that it does not say",
        ),
    ],
)
def test_the_rest_is_left_alone_when_one_does_not_come_back(
    log: Path, after: dict[str, Any], arguments: tuple[str, ...], said: str
) -> None:
    result = restart(Cluster(log, after), "--timeout", "100ms", *arguments)
    assert result.exit_code != 0
    assert said in str(result.exception)
    assert "None was restarted before it; left alone: n1, n3." in str(result.exception)
    assert log.read_text().splitlines() == ["n2 10.0.0.2"]


def test_an_upgrade_that_was_broken_off_goes_on(log: Path) -> None:
    """Some run the new release already: they are restarted once more, and nothing is refused."""

    class Mixed(Cluster):
        def __call__(self, call: Call) -> Reply:
            status, found = super().__call__(call)
            restarted = {line.split()[0] for line in self.log.read_text().splitlines()}
            for row in found["nodes"]:
                new = row["id"] in restarted or row["id"] == "n3"
                row["version"] = "0.4.0" if new else "0.3.0"
            return status, found

    result = restart(Mixed(log), "--release", "0.4.0")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[0] == (
        "n1, n2 run 0.3.0; n3 runs 0.4.0; each is to come back with 0.4.0"
    )
    assert len(log.read_text().splitlines()) == 3


def test_what_was_done_before_it_stopped_is_said(log: Path) -> None:
    command = "[ $NODE != n3 ] && " + SH
    result = restart(Cluster(log), command=command)
    assert str(result.exception) == (
        "n3: the command ended with status 1. Restarted before it: n2 (0.4.0); left alone: n1."
        " Once that is put right, run this command again: it restarts all nodes, those that were"
        " restarted already, too"
    )


def test_a_node_that_does_not_say_how_old_it_is_has_another_release_or_time(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {"uptime_seconds": None}
    result = restart(Cluster(log, old), "--timeout", "100ms")
    assert "n2 runs on" in str(result.exception)
    log.write_text("")
    assert restart(Cluster(log, old | {"version": "0.5.0"})).exit_code == 0
    log.write_text("")
    monkeypatch.setattr(rolling, "BLIND_S", 0.0)
    assert restart(Cluster(log, old)).exit_code == 0


def test_a_wait_says_what_for(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "TELL_EVERY_S", 0.0)
    monkeypatch.setattr(rolling, "LOOK_S", 0.01)
    result = restart(Cluster(log, {"lag": None}), "--timeout", "100ms")
    assert "n2: not well yet: n2 does not answer" in result.output


def test_a_command_that_fails_ends_it(log: Path) -> None:
    result = restart(Cluster(log), command="exit 7")
    assert "n2: the command ended with status 7" in str(result.exception)


def test_an_ailing_cluster_is_not_touched() -> None:
    assert ailing(state()) == []
    assert ailing(state(leader=None)) == ["no leader is known"]
    assert ailing(state(pending_change="n4 votes once it has the log")) == [
        "n4 votes once it has the log"
    ]
    away = state()
    away["nodes"][1] |= {"connected": False, "lag": None}
    assert ailing(away) == ["n2 does not answer"]
    away["nodes"][1]["member"] = "removed"
    assert ailing(away) == [], "it is no member"


def test_the_leader_waits_until_nobody_else_does() -> None:
    assert next_of(["n1", "n2", "n3"], "n1") == "n2"
    assert next_of(["n1", "n3"], None) == "n1"
    assert next_of(["n1"], "n1") == "n1"
