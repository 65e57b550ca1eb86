"""One picture for all who look: at once when something changes, and once a second."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from eventually import eventually
from single_node import SingleNode, config_for, services

from raftflow.cluster.api import feed as module
from raftflow.cluster.api.feed import ClusterFeed
from raftflow.cluster.api.handlers import cluster

NOBODY: frozenset[str] = frozenset()


class Rig:
    def __init__(self, tmp_path: Path) -> None:
        self.node = SingleNode()
        self.services = services(self.node, config_for((1, 2, 3), tmp_path))
        self.services.peer_reports.serve(lambda: cluster.own_row(self.services))
        self.feed = ClusterFeed(self.services)
        self.pictures = 0

    def listen(self, namespaces: frozenset[str] = NOBODY) -> Listener:
        return Listener(self.feed.events(namespaces))


class Listener:
    """Reads a stream of events as a browser does."""

    def __init__(self, pieces: Any) -> None:
        self.pieces: AsyncIterator[bytes] = pieces
        self.close = pieces.aclose

    async def picture(self) -> dict[str, Any]:
        async for piece in self.pieces:
            if piece.startswith(b"event: cluster\ndata: "):
                assert piece.endswith(b"\n\n")
                body = piece.removeprefix(b"event: cluster\ndata: ")
                assert b"\n" not in body[:-2]
                shown: dict[str, Any] = json.loads(body)
                return shown
        raise AssertionError("the stream ended")


@pytest.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    made = Rig(tmp_path)
    described = cluster.describe

    async def count(*arguments: Any, **named: Any) -> dict[str, Any]:
        made.pictures += 1
        return await described(*arguments, **named)

    monkeypatch.setattr(cluster, "describe", count)
    yield made
    await made.feed.stop()


async def test_a_picture_is_what_the_cluster_call_answers(rig: Rig) -> None:
    listener = rig.listen()
    seen = await listener.picture()
    asked = await cluster.describe(rig.services)
    assert set(seen) == set(asked)
    assert [row["id"] for row in seen["nodes"]] == ["n1"]
    await listener.close()


async def test_a_change_is_told_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_S", 60)
    listener = rig.listen()
    assert (await listener.picture())["leader"] == "n1"
    rig.node.silence_s = None  # nobody is heard
    assert (await listener.picture())["leader"] is None
    await listener.close()


async def test_without_a_change_it_is_told_once_in_a_while(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.05)
    listener = rig.listen()
    for _ in range(3):
        await listener.picture()
    await listener.close()


async def test_while_nothing_comes_a_comment_does(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVERY_S", 60)
    monkeypatch.setattr(module, "_COMMENT_EVERY_S", 0.01)
    listener = rig.listen()
    await listener.picture()
    assert await anext(listener.pieces) == b": still here\n\n"
    await listener.close()


async def test_many_share_a_picture(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_S", 60)
    listeners = [rig.listen() for _ in range(50)]
    seen = await asyncio.gather(*(listener.picture() for listener in listeners))
    assert len({json.dumps(each) for each in seen}) == 1
    assert rig.pictures == 1
    assert len(rig.feed) == 50
    for listener in listeners:
        await listener.close()


async def test_each_sees_what_it_may(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    violations = [{"namespace": "shop"}, {"namespace": "bank"}]
    monkeypatch.setattr(
        SingleNode, "report", lambda _self: {"checked": 2, "violations": violations}
    )
    for namespaces, found in ((NOBODY, 2), (frozenset({"shop"}), 1)):
        listener = rig.listen(namespaces)
        row = (await listener.picture())["nodes"][0]
        assert len(row["invariants"]["violations"]) == found
        await listener.close()


async def test_the_work_ends_with_the_last_one_who_listens(rig: Rig) -> None:
    first, second = rig.listen(), rig.listen()
    await first.picture()
    await second.picture()
    await first.close()
    assert rig.feed._work is not None
    work = rig.feed._work
    await second.close()
    assert len(rig.feed) == 0
    await eventually(work.done)
    again = rig.listen()
    await again.picture()
    await again.close()


async def test_who_reads_slowly_gets_the_newest(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    slow = rig.listen()
    await slow.picture()
    rig.node.silence_s = None
    before = rig.pictures
    await eventually(lambda: rig.pictures >= before + 4)
    assert (await slow.picture())["leader"] is None
    await slow.close()


async def test_a_failure_ends_the_streams_and_the_next_begins_anew(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any, **__: Any) -> Any:
        raise LookupError

    with monkeypatch.context() as broken:
        broken.setattr(cluster, "describe", fails)
        async with aclosing(rig.feed.events(NOBODY)) as pieces:
            assert [piece async for piece in pieces] == [b"retry: 1000\n\n"]
    listener = rig.listen()
    await listener.picture()
    await listener.close()
