"""`raftflow why`."""

import json

import pytest
from click.testing import CliRunner, Result
from fake_api import FakeApi, serving

from raftflow.cluster.cli.main import cli

ANSWER = {
    "subject": {"kind": "run"},
    "answer": "It waits, because nobody polls.",
    "links": [
        {
            "cause": "run_waits",
            "severity": "waiting",
            "says": "It waits for \u202eegrahc.",
            "evidence": {"status": "WAITING", "waits_for": [{"step": "charge"}]},
            "next": None,
        },
        {
            "cause": "no_poller",
            "severity": "problem",
            "says": "Nobody polls for it.",
            "evidence": {},
            "next": "start a worker",
        },
    ],
    "seen_by": "n1",
    "applied_index": 7,
}


def run_cli(fake: FakeApi, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["why", *arguments, "--address", fake.address])


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        (["run", "a/b c"], "/api/why/run/a%2Fb%20c"),
        (["run", "a", "--run-id", "r1"], "/api/why/run/a?run_id=r1"),
        (["task", "a", "charge it"], "/api/why/task/a?step=charge%20it"),
        (["queue", "x/y"], "/api/why/queue/x%2Fy"),
        (["log"], "/api/why/log"),
        (["leader"], "/api/why/leader"),
        (["node", "n2"], "/api/why/node/n2"),
    ],
)
def test_what_is_asked(arguments: list[str], target: str) -> None:
    with serving(lambda _: (200, ANSWER)) as fake:
        result = run_cli(fake, *arguments)
    assert result.exit_code == 0
    assert [call.target for call in fake.calls] == [target]


def test_the_chain_is_shown_cause_by_cause() -> None:
    with serving(lambda _: (200, ANSWER)) as fake:
        result = run_cli(fake, "run", "a", "-o", "plain")
    assert result.output.splitlines() == [
        r"It waits for \u202eegrahc.",
        '   [run_waits] status=WAITING  waits_for=[{"step": "charge"}]',
        "   because Nobody polls for it.",
        "      [no_poller]",
        "      next: start a worker",
    ]


def test_programs_get_the_answer_as_it_is() -> None:
    with serving(lambda _: (200, ANSWER)) as fake:
        result = run_cli(fake, "run", "a", "-o", "json")
    assert json.loads(result.output) == ANSWER
