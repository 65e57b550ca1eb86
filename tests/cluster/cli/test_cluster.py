import json

from click.testing import CliRunner
from fake_api import serving

from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.main import cli

NODE = {"role": "FOLLOWER", "term": 3, "commit_index": 90, "applied_index": 89, "lag": 1}
STATE = {
    "cluster_id": "c1",
    "node": "n2",
    "leader": "n1",
    "term": 3,
    "nodes": [
        {
            **{"id": "n1", **NODE, "role": "LEADER", "version": "0.3.0", "last_contact_ms": 12},
            **{"member": "voter", "feature_level": 3, "incarnation": "0123abcd" * 4},
        },
        {"id": "n2", **NODE, "connected": False, "last_contact_ms": None},
        {"id": "n3", **NODE, "connected": False},
    ],
    "elections": [],
}


def status(state: dict[str, object], output: str) -> tuple[str, BaseException | None]:
    with serving(lambda _: (200, state)) as fake:
        result = CliRunner().invoke(
            cli, ["cluster", "status", "--address", fake.address, "-o", output]
        )
    return result.output, result.exception


def test_plain_status() -> None:
    output, error = status(STATE, "plain")
    assert error is None
    head, columns, *rows = output.splitlines()
    assert head == "cluster c1  leader n1  term 3  (as n2 sees it)"
    assert columns.split()[:7] == ["NODE", "ROLE", "MEMBER", "TERM", "COMMIT", "APPLIED", "LAG"]
    assert rows[0].split() == [
        *("n1", "LEADER", "voter", "3", "90", "89", "1", "12", "ms", "0.3.0", "3", "0123abcd", "-"),
    ]
    assert "lost" not in rows[1], "a node does not lose contact with itself"
    assert "lost" in rows[2]


def test_what_is_under_way_with_the_members_is_said() -> None:
    output, _ = status({**STATE, "pending_change": "n4 votes once it has the log"}, "plain")
    assert output.splitlines()[1] == "pending: n4 votes once it has the log"


def test_json_status_is_what_the_node_said() -> None:
    assert json.loads(status(STATE, "json")[0]) == STATE


def test_no_leader_is_exit_status_1() -> None:
    _, error = status({**STATE, "leader": ""}, "plain")
    assert isinstance(error, CommandError)
    assert error.status == 1


def test_leadership_is_handed_over() -> None:
    handed = {"from": "n1", "leader": "n2", "term": 4}
    with serving(lambda _: (200, handed)) as fake:
        for arguments in (["n2"], []):
            command = ["cluster", "transfer", *arguments, "--address", fake.address]
            assert CliRunner().invoke(cli, command).output == "n2 leads, in term 4\n"
        shown = CliRunner().invoke(
            cli, ["cluster", "transfer", "--address", fake.address, "-o", "json"]
        )
    assert json.loads(shown.output) == handed
    assert [(call.method, call.target, call.body) for call in fake.calls] == [
        ("POST", "/api/cluster/transfer", {"to": "n2"}),
        ("POST", "/api/cluster/transfer", {}),
        ("POST", "/api/cluster/transfer", {}),
    ]
