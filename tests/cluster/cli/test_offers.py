"""What Tab offers: only what a shell takes for a plain word."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from fake_api import Call, Reply, serving

from raftflow.cluster.cli.main import cli
from raftflow.cluster.cli.offers import is_plain

RUNS = [
    *("order-1", "order-2", "order-1", "Ünal:7", "a/b@c.d"),
    *("order-$(reboot)", "order-`x`", "order-;x", "order 3", "order-'", "order-\n", "order-\u202e"),
    *("-rf", "~root", "order-*", "order-&", "order-\\", "=x"),
]


def respond(call: Call) -> Reply:
    path = call.target.partition("?")[0]
    runs = [{"workflow_id": each, "workflow_type": "Order"} for each in RUNS]
    return 200, {
        "/api/workflows": {"workflows": runs},
        "/api/queues": {"queues": [{"name": "fast"}, {"name": "slow"}]},
        "/api/cluster": {"nodes": [{"id": "n1"}, {"id": "n2"}]},
        "/api/namespaces": {"namespaces": [{"name": "default"}, {"name": "shop"}]},
        "/api/tokens": {
            "tokens": [{"id": "ab1", "status": "good"}, {"id": "ab2", "status": "revoked"}]
        },
    }[path]


def offered(words: list[str], begun: str) -> list[str]:
    found: list[Any] = ShellComplete(cli, {}, "raftflow", "_X").get_completions(words, begun)
    return [each.value for each in found]


@pytest.mark.parametrize(
    ("words", "begun", "expected"),
    [
        (["workflow", "show"], "order-", ["order-1", "order-2"]),
        (["workflow", "terminate"], "", ["order-1", "order-2", "Ünal:7", "a/b@c.d"]),
        (["history", "export"], "Ü", ["Ünal:7"]),
        (["workflow", "start"], "", ["Order"]),
        (["workflow", "start", "Order", "--task-queue"], "f", ["fast"]),
        (["worker", "list", "--queue"], "", ["fast", "slow"]),
        (["node", "remove"], "", ["n1", "n2"]),
        (["workflow", "list", "--namespace"], "s", ["shop"]),
        (["token", "revoke"], "", ["ab1"]),
        (["workflow", "list", "--status"], "comp", ["COMPLETED"]),
        (["audit", "list", "--call"], "Term", ["TerminateWorkflow"]),
        (["cluster"], "st", ["status"]),
    ],
)
def test_offers(
    words: list[str], begun: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(respond) as fake:
        monkeypatch.setenv("RAFTFLOW_ADDRESS", fake.address)
        assert offered(words, begun) == expected


def test_the_address_of_the_line_is_asked() -> None:
    with serving(respond) as fake:
        words = ["workflow", "show", "--address", fake.address, "--token", "t"]
        assert offered(words, "order-2") == ["order-2"]
        assert fake.calls[0].headers["Authorization"] == "Bearer t"


def test_who_does_not_answer_costs_a_moment_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        monkeypatch.setenv("RAFTFLOW_ADDRESS", f"127.0.0.1:{mute.getsockname()[1]}")
        began = time.monotonic()
        assert offered(["workflow", "show"], "order-") == []
        assert time.monotonic() - began < 5
    monkeypatch.setenv("RAFTFLOW_ADDRESS", "no such:address:x")
    assert offered(["node", "remove"], "") == []


@pytest.mark.parametrize("name", ["$x", "a b", "a;b", "", "a\tb", "a\u200bb", "a{b", "a!b", "#a"])
def test_words_that_are_more_than_words(name: str) -> None:
    assert not is_plain(name)
