"""`raftflow queue list`, `raftflow worker list`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fake_api import Reply, serving

from raftflow.cluster.cli.errors import CommandError, ServerError
from raftflow.cluster.cli.main import cli
from raftflow.cluster.cli.queues import duration

POLLER = {"node": "n1", "worker": "w1", "types": ["*"], "polls": 2, "since": "t"}
QUEUES = {
    "queues": [
        {
            **{"name": "default", "namespace": "default", "kind": "activity", "queued": 7},
            **{"oldest_ms": 90_000, "leases": 3, "expired_total": 1},
            "pollers": [POLLER, POLLER | {"node": "n3", "polls": 1, "types": ["pay", "pack"]}],
        },
        {
            **{"name": "evil\x1b[2J", "namespace": "shop", "kind": "workflow", "queued": None},
            **{"oldest_ms": None, "leases": None, "expired_total": None, "pollers": []},
        },
    ],
    "complete": False,
    "missing": ["n2"],
    "reasons": {"n2": "not connected"},
    "truncated": False,
}
WORKERS = {
    "workers": [
        {
            **{"id": "w1", "node": "n1", "namespace": "default", "queues": ["default"]},
            **{"polls": 2, "leases": 3, "last_seen": "2026-01-01T00:00:00.000000Z"},
        },
        {
            **{"id": "w2", "node": "n2", "namespace": "shop", "queues": ["other"]},
            **{"polls": 0, "leases": None, "last_seen": None},
        },
    ],
    "complete": True,
    "missing": [],
}


def run(answer: Any, *arguments: str, status: int = 200) -> Result:
    def respond(_call: object) -> Reply:
        return status, answer

    with serving(respond) as fake:
        return CliRunner().invoke(cli, [*arguments, "--address", fake.address])


def test_queues_as_columns() -> None:
    lines = run(QUEUES, "queue", "list", "-o", "plain").output.splitlines()
    assert lines[1].split() == [
        *("default", "activity", "default", "7", "90", "s", "3", "1"),
        *("n1:2", "n3:1", "for", "pack,", "pay"),
    ]
    assert lines[2].split() == [r"evil\x1b[2J", "workflow", "shop", "-", "-", "-", "-", "-"]
    assert lines[3] == "n2 did not tell (not connected): what it alone knows is missing"


def test_queues_of_a_kind_and_of_a_namespace() -> None:
    def names(*arguments: str) -> list[str]:
        found = json.loads(run(QUEUES, "queue", "list", *arguments, "-o", "json").output)
        return [each["name"] for each in found["queues"]]

    assert names("--kind", "activity") == ["default"]
    assert names("--namespace", "shop") == ["evil\x1b[2J"]
    assert len(names()) == 2


def test_workers() -> None:
    lines = run(WORKERS, "worker", "list", "-o", "plain").output.splitlines()
    assert lines[1].split()[:5] == ["w1", "n1", "default", "2", "3"]
    assert lines[1].endswith("d ago  default")
    only = json.loads(run(WORKERS, "worker", "list", "--queue", "other", "-o", "json").output)
    assert [each["id"] for each in only["workers"]] == ["w2"]


@pytest.mark.parametrize("noun", ["queue", "worker"])
def test_a_release_that_does_not_tell(noun: str) -> None:
    result = run({"error": "no such path"}, noun, "list", status=404)
    assert isinstance(result.exception, CommandError)
    assert "of a release before 0.5" in str(result.exception)
    refused = run({"error": "not for you"}, noun, "list", status=403)
    assert isinstance(refused.exception, ServerError)


def test_durations_as_people_say_them() -> None:
    said = [duration(each) for each in (None, 0, 340, 1_500, 119_000, 120_000, 7_200_000)]
    assert said == [None, "0 ms", "340 ms", "2 s", "119 s", "2 min", "2 h"]
    assert duration(30 * 86_400_000) == "30 d"
