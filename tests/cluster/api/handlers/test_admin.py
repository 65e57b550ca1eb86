"""Readiness, and who may join."""

from __future__ import annotations

from pathlib import Path

import pytest
from single_node import SingleNode, config_for, services

from raftflow.cluster.api.handlers import admin
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.errors import FeatureUnavailable
from raftflow.cluster.features import Levels
from raftflow.engine.commands import RELEASE_0_3, RELEASE_0_4


@pytest.mark.parametrize(
    ("leader", "silence_s", "ready"),
    [("n1", 0.0, True), ("n2", 1.0, True), ("n2", 2.0, False), ("n2", None, False), ("", 0, False)],
)
async def test_readiness(tmp_path: Path, leader: str, silence_s: float | None, ready: bool) -> None:
    single = SingleNode()
    single.leader = leader or None  # type: ignore[assignment]
    single.silence_s = silence_s
    state = admin.readiness(services(single, config_for((1, 2, 3), tmp_path)))
    assert state["ready"] is ready
    assert ("error" in state) is not ready


async def test_a_node_without_a_vote_is_not_ready(tmp_path: Path) -> None:
    class Learner(SingleNode):
        no_vote = "it is a learner"

    state = admin.readiness(services(Learner(), config_for((1, 2, 3), tmp_path)))
    assert (state["ready"], state["error"]) == (False, "it is a learner")


@pytest.mark.parametrize(
    ("node_id", "raft", "said"),
    [
        ("../n4", "h:1", "id: use 1 to 64"),
        ("n 4", "h:1", "id: use 1 to 64"),
        ("-n4", "h:1", "id: use 1 to 64"),
        ("n4", "h", "raft: 'h' is not host:port"),
        ("n4", "h:0", "raft: .* 1 to 65535"),
        ("n4", "::1:9233", r"raft: .* \[address\]:port"),
        ("n4", "[::]:9233", "raft: nobody can connect"),
        ("n4", ":9233", "raft: nobody can connect"),
    ],
)
async def test_a_node_that_cannot_be_added(
    tmp_path: Path, node_id: str, raft: str, said: str
) -> None:
    node = services(SingleNode(), config_for((1, 2, 3), tmp_path))
    with pytest.raises(ApiError, match=said) as caught:
        await admin.add_node(node, node_id, raft)
    assert caught.value.reason == "INVALID_FIELD"


async def test_an_ipv6_address_keeps_its_brackets(tmp_path: Path) -> None:
    node = services(SingleNode(), config_for((1, 2, 3), tmp_path))
    added = await admin.add_node(node, "n4", " [2001:db8::4]:9233 ")
    assert (added["raft"], added["member"]) == ("[2001:db8::4]:9233", "learner")


async def test_an_api_node_needs_that_all_know_what_it_is(tmp_path: Path) -> None:
    config = config_for((1, 2, 3), tmp_path)
    newest, older = (
        Levels(members=dict, agreed=lambda level=level: level)  # type: ignore[misc]
        for level in (RELEASE_0_4, RELEASE_0_3)
    )
    added = await admin.add_node(services(SingleNode(), config, newest), "n4", "h:1", api=True)
    assert added["member"] == "api"
    with pytest.raises(FeatureUnavailable, match="nodes that never vote: this needs feature level"):
        await admin.add_node(services(SingleNode(), config, older), "n4", "h:1", api=True)
