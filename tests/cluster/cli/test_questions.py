"""What the doctor asks, and that a node which tells less is no reason to say nothing."""

from __future__ import annotations

from typing import Any

import pytest
from fake_api import Call, Reply, serving

from raftflow.cluster.cli import questions
from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.findings import Told
from raftflow.cluster.cli.questions import ask_beside, ask_states

NODES = [{"id": "n1", "applied_index": 7}, {"id": "n2", "applied_index": None, "http": "?"}]
STATE = {"node": "n1", "leader": "n1", "nodes": NODES}
QUOTA = {"name": "shop", "max_open_runs": 10}


class Node:
    def __init__(self, **answers: Any) -> None:
        self.answers = {"/api/cluster": STATE} | {f"/api/{k}": v for k, v in answers.items()}
        self.asked: list[tuple[str, str]] = []

    def __call__(self, call: Call) -> Reply:
        path = call.target.partition("?")[0]
        self.asked.append((call.headers.get("X-Workflowd-Namespace", ""), call.target))
        answer = self.answers.get(path, (404, {"error": "no such path"}))
        if callable(answer):
            answer = answer(call)
        return answer if isinstance(answer, tuple) else (200, answer)


def ask(node: Node, **state: Any) -> Told:
    with serving(node) as fake, Client([fake.address], deadline_s=0.0) as client:
        return ask_beside(client, [STATE | state])


def test_an_old_release_and_a_small_token() -> None:
    assert ask(Node()) == Told(namespaces=[{"name": "default"}])
    refused = (403, {"error": "not for you"})
    assert ask(Node(namespaces=refused, **{"cluster/ports": refused})).ports is None


def test_what_a_new_release_tells() -> None:
    why = {"links": []}
    node = Node(
        **{"cluster/ports": {"ports": []}, "why/node/n1": why, "why/node/n2": why, "why/log": why}
    )
    told = ask(node)
    assert (told.ports, told.why, told.why_log) == ({"ports": []}, {"n1": why, "n2": why}, why)
    assert told.why_leader is None
    node = Node(**{"why/node/n1": why, "why/leader": why})
    told = ask(node, leader=None)
    assert (told.why, told.why_log, told.why_leader) == ({"n1": why}, None, why)
    assert told.namespaces == (), "without a leader nobody answers that, and each waits"


def test_a_closed_port_is_dialled_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "PORTS_AGAIN_S", 0.0)
    answers = [{"ports": [{"reachable": False}]}, {"ports": [{"reachable": True}]}]
    told = ask(Node(**{"cluster/ports": lambda _: (200, answers.pop(0))}))
    assert told.ports == {"ports": [{"reachable": True}]}


def test_open_runs_by_count_and_by_list() -> None:
    namespaces = {"namespaces": [QUOTA]}
    counted = {"by_status": {"RUNNING": 3, "WAITING": 4, "COMPLETED": 9}}
    [found] = ask(Node(namespaces=namespaces, **{"workflow-counts": counted})).namespaces
    assert found["open_runs"] == 7

    def listed(call: Call) -> Reply:
        exact = "RUNNING" not in call.target
        stuck = [{"workflow_id": "w"}] if "UNKNOWN" in call.target else []
        return 200, {"total": 2, "total_exact": exact, "workflows": stuck}

    node = Node(namespaces=namespaces, workflows=listed)
    [found] = ask(node).namespaces
    assert found["open_runs"] is None, "too many to be counted"
    assert (found["unknown_runs"], found["unknown_run"]) == (2, "w")
    assert {namespace for namespace, target in node.asked if "workflows?" in target} == {"shop"}


def test_a_silent_node_is_asked_itself() -> None:
    with serving(lambda _: (503, {"status": "repairing", "error": "it waits"})) as silent:
        nodes = [NODES[0], {"id": "n2", "applied_index": None, "http": silent.address}]
        assert ask(Node(), nodes=nodes).directly == {
            "n2": {"status": "repairing", "error": "it waits"}
        }
    with serving(lambda _: (200, {"status": "ok", "node": "n9"})) as another:
        nodes = [NODES[0], {"id": "n2", "applied_index": None, "http": another.address}]
        assert ask(Node(), nodes=nodes).directly == {}
    nodes = [NODES[0], {"id": "n2", "applied_index": None, "http": "127.0.0.1:1"}]
    assert ask(Node(), nodes=nodes).directly == {}


def test_states_are_asked_until_all_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "PAUSE_S", 0.0)

    def rows(index: int, other: int) -> dict[str, Any]:
        at = {"n1": index, "n2": other}
        nodes = [
            {"id": name, "applied_index": each, "state_digest": "aa"} for name, each in at.items()
        ]
        return STATE | {"nodes": nodes}

    answers = [rows(1, 2), rows(3, 4), rows(5, 5), rows(6, 7)]
    with serving(lambda _: (200, answers.pop(0))) as fake, Client([fake.address]) as client:
        assert len(ask_states(client)) == 3
