"""`raftflow node`, against canned answers; tests/e2e/test_members.py has the real thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fake_api import Call, FakeApi, Reply, serving

from raftflow.cluster.cli.main import cli

VOTER = {"role": "follower", "member": "voter", "connected": True, "incarnation": "ab" * 16}
NODES = [{"id": each, "raft": f"10.0.0.{each[1]}:9233", **VOTER} for each in ("n1", "n2", "n3")]
STATE = {"cluster_id": "shop", "node": "n1", "leader": "n1", "term": 1, "nodes": NODES}
N4 = {"id": "n4", "raft": "h:1", "role": "unknown", "member": "learner", "connected": False}
EXISTS = {"error": "n4 is a member already", "reason": "NODE_EXISTS"}


class Cluster:
    """Shows n4 in one shape after the other, the last one for good."""

    def __init__(self, *shapes: dict[str, Any] | None, added: Reply = (201, {})) -> None:
        self.shapes = list(shapes)
        self.added = added

    def __call__(self, call: Call) -> Reply:
        if call.method == "POST":
            return self.added
        if call.method == "DELETE":
            return 200, {"id": "n1", "member": "removed", "index": 9}
        shape = self.shapes.pop(0) if len(self.shapes) > 1 else self.shapes[0]
        return 200, {**STATE, "nodes": [*NODES, *([shape] if shape else [])]}


def run_cli(fake: FakeApi, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["node", *arguments, "--address", fake.address])


def changes(fake: FakeApi) -> list[tuple[str, str]]:
    return [(call.method, call.target) for call in fake.calls if call.method != "GET"]


def test_add_prints_how_to_start_it_and_waits_for_the_vote() -> None:
    learns = N4 | {"connected": True, "match_index": 3}
    with serving(Cluster(N4, N4, learns, N4 | VOTER)) as fake:
        result = run_cli(fake, "add", "n4=h:1")
    assert result.exit_code == 0, result.output
    assert fake.calls[0].body == {"id": "n4", "raft": "h:1"}
    lines = result.output.splitlines()
    assert lines[1].strip() == (
        "raftflow serve --node-id n4 --raft-addr h:1 --cluster-id shop "
        "--join n1=10.0.0.1:9233,n2=10.0.0.2:9233,n3=10.0.0.3:9233"
    )
    assert lines[2].startswith("n4 is not connected: start it")
    assert lines[3].startswith("n4 is catching up")
    assert lines[-1] == "n4 votes"


def test_add_again_goes_on_waiting() -> None:
    with serving(Cluster(N4, N4, N4 | VOTER, added=(409, EXISTS))) as fake:
        result = run_cli(fake, "add", "n4=h:1")
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "n4 votes")


@pytest.mark.parametrize("there", [N4 | VOTER, N4 | {"raft": "elsewhere:1"}, None])
def test_what_exists_is_not_added(there: dict[str, Any] | None) -> None:
    with serving(Cluster(there, added=(409, EXISTS))) as fake:
        result = run_cli(fake, "add", "n4=h:1")
    assert "n4 is a member already" in str(result.exception)


def test_a_node_that_never_comes_is_exit_status_3() -> None:
    with serving(Cluster(N4)) as fake:
        result = run_cli(fake, "add", "n4=h:1", "--timeout", "400ms")
    assert getattr(result.exception, "status", None) == 3
    assert "n4 does not vote yet (n4 is not connected" in str(result.exception)
    assert "`raftflow node remove n4`" in str(result.exception)


def test_a_node_that_somebody_removes_meanwhile() -> None:
    with serving(Cluster(N4, None)) as fake:
        result = run_cli(fake, "add", "n4=h:1")
    assert "somebody removed it" in str(result.exception)


def test_replace_removes_the_old_one_only_once_the_new_one_votes() -> None:
    with serving(Cluster(None, N4, N4, N4 | VOTER)) as fake:
        result = run_cli(fake, "replace", "n1", "n4=h:1")
    assert result.exit_code == 0, result.output
    assert changes(fake) == [("POST", "/api/cluster/nodes"), ("DELETE", "/api/cluster/nodes/n1")]
    with serving(Cluster(N4)) as fake:
        run_cli(fake, "replace", "n1", "n4=h:1", "--timeout", "400ms")
    assert changes(fake) == [("POST", "/api/cluster/nodes")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "n4"), "is not ID=host:port; write it like n4=10.0.0.4:9233"),
        (("add", "n4=h"), "'h' is not host:port"),
        (("add", "n4=::1:1"), r"write an IPv6 address as [address]:port"),
        (("replace", "n1", "n1=h:1"), "cannot take its own place"),
    ],
)
def test_wrong_usage_reaches_no_node(arguments: tuple[str, ...], said: str) -> None:
    with serving(Cluster(N4)) as fake:
        result = run_cli(fake, *arguments)
    assert (result.exit_code, said in result.output, fake.calls) == (2, True, []), result.output


def test_ids_of_any_kind_are_percent_encoded() -> None:
    with serving(Cluster(None)) as fake:
        run_cli(fake, "remove", "a/b ☃")
    assert changes(fake) == [("DELETE", "/api/cluster/nodes/a%2Fb%20%E2%98%83")]


def test_list() -> None:
    with serving(Cluster(N4)) as fake:
        result = run_cli(fake, "list")
    assert result.output.splitlines()[1].split()[:5] == [
        "n1",
        "voter",
        "follower",
        "yes",
        "abababab",
    ]
    assert result.output.splitlines()[4].split()[:4] == ["n4", "learner", "unknown", "no"]


def test_rebuild_asks_and_refuses(tmp_path: Path) -> None:
    runner = CliRunner()
    nothing = runner.invoke(cli, ["node", "rebuild", str(tmp_path)])
    assert "holds no data" in str(nothing.exception)
    (tmp_path / "state.db").write_text("x")
    declined = runner.invoke(cli, ["node", "rebuild", str(tmp_path)], input="n\n")
    assert "cannot be read: make sure that other nodes run" in declined.output
    assert (tmp_path / "state.db").exists()
    done = runner.invoke(cli, ["node", "rebuild", str(tmp_path), "--yes"])
    assert f"set aside in {tmp_path}/damaged-" in done.output
    assert not (tmp_path / "state.db").exists()


def test_an_api_node_is_added_and_waited_for_until_it_serves() -> None:
    api = N4 | {"member": "api"}
    behind = api | {"connected": True, "lag": 5_000, "match_index": 3}
    with serving(Cluster(api, behind, api | {"connected": True, "lag": 7})) as fake:
        result = run_cli(fake, "add", "n4=h:1", "--as", "api")
    assert result.exit_code == 0, result.output
    assert fake.calls[0].body == {"id": "n4", "raft": "h:1", "as": "api"}
    assert "n4 is a member that never votes" in result.output
    assert result.output.splitlines()[-1] == "n4 serves, and never votes"


def test_an_api_node_that_is_there_already_is_waited_for() -> None:
    api = N4 | {"member": "api", "connected": True, "lag": 0}
    with serving(Cluster(api, added=(409, EXISTS))) as fake:
        result = run_cli(fake, "add", "n4=h:1", "--as", "api")
    assert result.exit_code == 0, result.output
    with serving(Cluster(api, added=(409, EXISTS))) as fake:
        result = run_cli(fake, "add", "n4=h:1")
    assert result.exit_code == 1, "it is another kind of member"


def test_a_snapshot_says_what_it_brought() -> None:
    made = {"id": "n 2", "index": 90, "first_index": 50, "bytes_freed": 300}
    with serving(lambda _: (200, made)) as fake:
        result = run_cli(fake, "snapshot", "n 2")
    assert [(call.method, call.target) for call in fake.calls] == [
        ("POST", "/api/cluster/nodes/n%202/snapshot")
    ]
    assert result.output == (
        "n 2: the state is durable up to entry 90, the log begins with 50 (300 bytes freed)\n"
    )
