"""The cluster as one node shows it: what each says itself, and what is known of the silent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from single_node import SingleNode, config_for, services

from raftflow.cluster.api.auth import Tokens
from raftflow.cluster.api.handlers import admin
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.config import Address
from raftflow.cluster.consensus.channel import PeerTimeout
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import Election, Role
from raftflow.cluster.errors import FeatureUnavailable
from raftflow.cluster.features import Levels
from raftflow.cluster.node import _tell_if_open
from raftflow.engine.commands import RELEASE_0_3, RELEASE_0_4


class ThreeNodes(SingleNode):
    """n1 leads; n2 answers and lags by two; n3 is silent."""

    def status(self) -> Any:
        return SimpleNamespace(
            role=Role.LEADER,
            term=4,
            leader="n1",
            commit_index=10,
            heard_commit_index=10,
            first_index=1,
            flushed_index=11,
            leader_contact_s=0.0,
            leader_heard=lambda _within_ms: "n1",
            peers={
                "n2": SimpleNamespace(match_index=9, last_contact_s=0.02),
                "n3": SimpleNamespace(match_index=3, last_contact_s=None),
            },
            elections=(Election(0.0, 4, "n1", "elected"),),
            configuration=Configuration(
                (
                    Member("n1", "n1:9233", incarnation="d1"),
                    Member("n2", "n2:9233", incarnation="d2"),
                    Member("n3", "n3:9233", voter=False),
                ),
                3,
            ),
            configuration_index=7,
            committed_configuration_index=7,
        )

    def peers(self) -> Any:
        return {
            name: SimpleNamespace(
                id=name,
                http=f"{name}:8233",
                grpc=f"{name}:7233",
                raft=f"{name}:9233",
                metrics=f"{name}:9090",
                version="0.1.0",
                feature_level=3 if name != "n3" else 0,
                incarnation="" if name == "n3" else f"d{name[1]}",
                connected=name != "n3",
            )
            for name in ("n1", "n2", "n3")
        }

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        assert method == admin.STATUS_METHOD
        if peer == "n3":
            raise PeerTimeout
        return json.dumps({"role": "follower", "term": 4, "applied_index": 8}).encode()


async def test_silent_nodes_are_shown_too(tmp_path: Path) -> None:
    node = services(ThreeNodes(), config_for((1, 2, 3), tmp_path))
    shown = await admin.cluster(node)
    rows = {row["id"]: row for row in shown["nodes"]}
    assert list(rows) == ["n1", "n2", "n3"]
    assert (rows["n1"]["match_index"], rows["n1"]["last_contact_ms"]) == (11, 0)
    assert (rows["n2"]["role"], rows["n2"]["lag"], rows["n2"]["match_index"]) == ("follower", 2, 9)
    assert rows["n2"]["last_contact_ms"] == 20
    assert (rows["n3"]["role"], rows["n3"]["connected"]) == ("unknown", False)
    assert rows["n3"]["lag"] is None
    assert [rows[name]["feature_level"] for name in rows] == [3, 3, 0]
    assert [rows[name]["member"] for name in rows] == ["voter", "voter", "learner"]
    assert [rows[name]["incarnation"] for name in rows] == ["d1", "d2", None]
    assert shown["configuration_index"] == 7
    assert shown["pending_change"] == "n3 votes once it has the log: it is not connected"
    assert shown["elections"][0]["leader"] == "n1"
    assert set(rows["n1"]) == set(rows["n3"])


async def test_the_row_that_peers_ask_for(tmp_path: Path) -> None:
    single = ThreeNodes()
    node = services(single, config_for((1, 2, 3), tmp_path))
    admin.serve_status(node)
    row = json.loads(await single.handlers[admin.STATUS_METHOD]("n2", b""))
    assert (row["role"], row["term"], row["commit_index"]) == ("leader", 4, 10)


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
    node = services(ThreeNodes(), config_for((1, 2, 3), tmp_path))
    with pytest.raises(ApiError, match=said) as caught:
        await admin.add_node(node, node_id, raft)
    assert caught.value.reason == "INVALID_FIELD"


async def test_an_ipv6_address_keeps_its_brackets(tmp_path: Path) -> None:
    node = services(ThreeNodes(), config_for((1, 2, 3), tmp_path))
    added = await admin.add_node(node, "n4", " [2001:db8::4]:9233 ")
    assert (added["raft"], added["member"]) == ("[2001:db8::4]:9233", "learner")


@pytest.mark.parametrize(
    ("on", "host", "said", "summary"),
    [
        (True, "0.0.0.0", "on", "on"),
        (False, "127.0.0.1", "off", "off"),
        (False, "0.0.0.0", "exposed", "off"),
    ],
)
async def test_whether_anybody_is_asked_for_a_token(
    tmp_path: Path, on: bool, host: str, said: str, summary: str
) -> None:
    config = replace(config_for((1, 2, 3), tmp_path), http_addr=Address(host, 1))
    node = replace(services(SingleNode(), config), tokens=Tokens(on=on))
    assert admin.own_row(node)["auth"] == said
    assert (await admin.cluster(node))["auth"] == summary
    with structlog.testing.capture_logs() as logged:
        _tell_if_open(replace(config, auth="on" if on else ""))
    assert [each["event"] for each in logged] == (["auth_off"] if said == "exposed" else [])


async def test_an_api_node_needs_that_all_know_what_it_is(tmp_path: Path) -> None:
    config = config_for((1, 2, 3), tmp_path)
    newest, older = (
        Levels(members=dict, agreed=lambda level=level: level)  # type: ignore[misc]
        for level in (RELEASE_0_4, RELEASE_0_3)
    )
    added = await admin.add_node(services(ThreeNodes(), config, newest), "n4", "h:1", api=True)
    assert added["member"] == "api"
    with pytest.raises(FeatureUnavailable, match="nodes that never vote: this needs feature level"):
        await admin.add_node(services(ThreeNodes(), config, older), "n4", "h:1", api=True)
