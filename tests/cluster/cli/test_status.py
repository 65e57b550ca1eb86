"""`raftflow cluster status --watch`: what changed between two looks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from fake_api import Call, Reply, serving

from raftflow.cluster.cli import status
from raftflow.cluster.cli.main import cli
from raftflow.cluster.cli.status import changes

NODE = {"role": "follower", "member": "voter", "version": "0.5.0", "connected": True}


def state(leader: str | None = "n1", term: int = 3, **rows: dict[str, Any]) -> dict[str, Any]:
    nodes = [{"id": name, **NODE, **rows.get(name, {})} for name in ("n1", "n2", "n3")]
    reason = "no word from n1 for 620 ms"
    elections = [{"at": "t", "term": term, "leader": leader, "reason": reason}]
    return {
        **{"cluster_id": "c1", "node": "n2", "leader": leader, "term": term},
        **{"nodes": nodes, "elections": elections},
    }


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (state(), []),
        (state("n2", 4), ["n2 leads in term 4: no word from n1 for 620 ms"]),
        (state(None, 4), ["no leader is known (term 4)"]),
        (state(n3={"connected": False}), ["n3 is lost, as n2 sees it"]),
        (state(n2={"connected": False}), []),
        (state(n3={"member": "learner"}), ["n3 is learner"]),
        (state(n3={"version": "0.6.0"}), ["n3 runs release 0.6.0"]),
        (state() | {"pending_change": "n4 votes soon"}, ["members: n4 votes soon"]),
    ],
)
def test_what_changed(after: dict[str, Any], said: list[str]) -> None:
    assert list(changes(state(), after)) == said


def test_who_came_and_went() -> None:
    before, after = state(), state()
    after["nodes"][2] |= {"id": "n4"}
    assert list(changes(before, after)) == ["n4 is new, as voter", "n3 is gone"]


def watch(output: str, *states: dict[str, Any]) -> str:
    waiting = list(states)

    def respond(_call: Call) -> Reply:
        return 200, waiting.pop(0)

    command = ["cluster", "status", "--watch", "--every", "1ms", "--count", str(len(states))]
    with serving(respond) as fake:
        result = CliRunner().invoke(cli, [*command, "-o", output, "--address", fake.address])
    assert result.exit_code == 0, result.output
    return result.output


def test_plain_is_the_table_and_then_what_changed() -> None:
    lines = watch("plain", state(), state(), state("n2", 4)).splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("cluster c1  leader n1")
    assert lines[-1].endswith(" n2 leads in term 4: no word from n1 for 620 ms")


def test_json_is_a_document_a_line() -> None:
    said = watch("json", state(), state("n2", 4)).splitlines()
    assert [json.loads(line)["leader"] for line in said] == ["n1", "n2"]


def test_a_terminal_is_drawn_anew() -> None:
    assert "leader n2" in watch("table", state(), state("n2", 4))


def test_other_nodes_are_asked_when_the_first_is_gone() -> None:
    with serving(lambda _: (200, state("n3"))) as other:
        seen = state(n3={"http": other.address})
        gone = iter([True])

        def respond(_call: Call) -> Reply:
            return (200, seen) if next(gone, None) else (503, {"error": "it ends"})

        with serving(respond) as fake:
            command = ["cluster", "status", "--watch", "--every", "1ms", "--count", "2"]
            result = CliRunner().invoke(cli, [*command, "-o", "json", "--address", fake.address])
    assert [json.loads(line)["leader"] for line in result.output.splitlines()] == ["n1", "n3"]


def test_that_nobody_answers_is_said_once_and_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, Any] | str] = [state(), "no node answered", "no node answered", state()]
    monkeypatch.setattr(status, "look", lambda _client: answers.pop(0))
    command = ["cluster", "status", "--watch", "--every", "1ms", "--count", "4", "-o", "plain"]
    lines = CliRunner().invoke(cli, command).output.splitlines()
    assert [line for line in lines if "no node answered" in line] == lines[-1:]
