"""Snapshots at an operator's wish: durable first, then the log goes, but not what others lack."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from raftflow.cluster import checkpoints as module
from raftflow.cluster.checkpoints import Checkpoints, Made
from raftflow.cluster.consensus.channel import Handler, PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.errors import OperationRefused, Unavailable


class Node:
    """n1: applied 100 entries, its log begins with 1 and is a file of 500 bytes."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "raft"
        self.log.mkdir()
        (self.log / "1.log").write_bytes(b"x" * 500)
        self.applied_index = 100
        self.first_index = 1
        self.flushes = 7
        self.leader = "n1"
        self.followers = {"n2": (90, True), "n3": (10, False)}
        self.checkpoints_of_store = [60, 100]  # a reader holds up the first one
        self.compacted = 0
        self.answer: bytes | Exception = b""
        self.handler: Handler | None = None
        self.checkpoints = Checkpoints(
            consensus=self,  # type: ignore[arg-type]
            replica=self,  # type: ignore[arg-type]
            store=self,  # type: ignore[arg-type]
            node_id="n1",
            log_directory=self.log,
        )

    channel = property(lambda self: self)

    def register(self, method: str, handler: Handler) -> None:
        self.handler = handler

    async def call(self, peer: str, method: str, payload: bytes, *, timeout_ms: int) -> bytes:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def peers(self) -> dict[str, None]:
        return dict.fromkeys(("n1", "n2", "n3"))

    def status(self) -> Any:
        peers = {
            name: SimpleNamespace(match_index=match, connected=connected)
            for name, (match, connected) in self.followers.items()
        }
        return SimpleNamespace(leader=self.leader, first_index=self.first_index, peers=peers)

    def stats(self) -> Any:
        return SimpleNamespace(flushes=self.flushes)

    def compact(self, index: int) -> None:
        self.compacted = index
        self.first_index = 50
        self.flushes += 1
        (self.log / "1.log").write_bytes(b"x" * 200)

    async def written(self, index: int) -> None:
        assert index == self.applied_index

    async def checkpoint(self) -> int:
        done = self.checkpoints_of_store
        return done.pop(0) if len(done) > 1 else done[0]


async def test_a_leader_keeps_what_those_that_answer_lack(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert await node.checkpoints.make("n1") == Made(100, 50, 300)
    assert node.compacted == 90


async def test_a_follower_keeps_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.leader = "n2"
    await node.checkpoints.make("n1")
    assert node.compacted == 100


async def test_where_nothing_can_go_nothing_is_waited_for(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.first_index = 50
    node.compact = lambda index: None  # type: ignore[method-assign]
    assert await node.checkpoints.make("n1") == Made(100, 50, 0)


async def test_a_state_that_is_held_up_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_S", 0.05)
    monkeypatch.setattr(module, "_AGAIN_S", 0.001)
    node = Node(tmp_path)
    node.checkpoints_of_store = [60]
    with pytest.raises(Unavailable, match="long reads hold it up"):
        await node.checkpoints.make("n1")
    assert node.handler is not None
    with pytest.raises(PeerError, match="NODE_REFUSED"):
        await node.handler("n2", b"")


async def test_another_node_is_asked(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.handler is not None
    node.answer = await node.handler("n2", b"")
    assert await node.checkpoints.make("n2") == Made(100, 50, 300)


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (PeerUnavailable("n2", sent=False), Unavailable, "n2 is not connected"),
        (PeerTimeout(), Unavailable, "did not answer"),
        (PeerError("UNKNOWN_METHOD", ""), OperationRefused, "release before 0.5"),
        (PeerError("NODE_REFUSED", "the disk is slow"), OperationRefused, "n2: the disk is slow"),
    ],
)
async def test_one_that_does_not_do_it(
    tmp_path: Path, error: Exception, raised: type[Exception], said: str
) -> None:
    node = Node(tmp_path)
    node.answer = error
    with pytest.raises(raised, match=said):
        await node.checkpoints.make("n2")


async def test_one_that_is_no_member(tmp_path: Path) -> None:
    with pytest.raises(OperationRefused, match="n9 is no member") as refused:
        await Node(tmp_path).checkpoints.make("n9")
    assert refused.value.reason == "NODE_NOT_FOUND"
