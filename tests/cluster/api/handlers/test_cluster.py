"""The cluster as one node shows it: what each says itself, and what is known of the silent."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from single_node import SingleNode, config_for, services

from raftflow.cluster.api.auth import Tokens
from raftflow.cluster.api.handlers import cluster
from raftflow.cluster.config import Address
from raftflow.cluster.consensus.channel import PeerTimeout
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import Election, Role
from raftflow.cluster.node import _tell_if_open
from raftflow.cluster.peer_reports import METHOD


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
        assert method == METHOD
        if peer == "n3":
            raise PeerTimeout
        return json.dumps({"role": "follower", "term": 4, "applied_index": 8}).encode()


async def test_silent_nodes_are_shown_too(tmp_path: Path) -> None:
    node = services(ThreeNodes(), config_for((1, 2, 3), tmp_path))
    node.peer_reports.serve(partial(cluster.own_row, node))
    shown = await cluster.describe(node)
    rows = {row["id"]: row for row in shown["nodes"]}
    assert list(rows) == ["n1", "n2", "n3"]
    assert (rows["n1"]["match_index"], rows["n1"]["last_contact_ms"]) == (11, 0)
    assert (rows["n2"]["role"], rows["n2"]["lag"], rows["n2"]["match_index"]) == ("follower", 2, 9)
    assert rows["n2"]["last_contact_ms"] == 20
    assert (rows["n3"]["role"], rows["n3"]["connected"]) == ("unknown", False)
    assert rows["n3"]["lag"] is None
    assert [rows[name]["reachable"] for name in rows] == [True, True, False]
    assert (rows["n1"]["log_bytes"], rows["n1"]["store_bytes"], rows["n1"]["fsync_ms"]) == (
        1,
        2,
        0.4,
    )
    assert shown["leader_since"].endswith("Z")
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
    row = cluster.own_row(node)
    assert (row["role"], row["term"], row["commit_index"]) == ("leader", 4, 10)


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
    assert cluster.own_row(node)["auth"] == said
    assert (await cluster.describe(node))["auth"] == summary
    with structlog.testing.capture_logs() as logged:
        _tell_if_open(replace(config, auth="on" if on else ""))
    assert [each["event"] for each in logged] == (["auth_off"] if said == "exposed" else [])
