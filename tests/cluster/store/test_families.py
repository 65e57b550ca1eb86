"""Runs that belong together."""

from __future__ import annotations

from dataclasses import replace

import engine_harness as make
import pytest
from populate import apply, populate, terminate, view
from replica_rig import Rig

from raftflow.cluster.store import families, lists
from raftflow.engine.commands import ContinueAsNew
from raftflow.engine.ids import RunKey
from raftflow.engine.state import RunStatus


async def chained(rig: Rig, links: int) -> list[str]:
    """Run ids of a chain, oldest first."""
    await populate(rig, ["w"])
    found = ["run-w"]
    for number in range(1, links):
        await apply(rig, make.grant_decision(await view(rig, "w"), nonce="n"))
        token = (await view(rig, "w")).decision.token
        answer = make.complete_decision("w", token, ContinueAsNew(input=b""))
        found.append(f"run-w-{number}")
        await apply(rig, replace(answer, new_run_id=found[-1]))
    return found


def key(run_id: str) -> RunKey:
    return RunKey("default", "w", run_id)


async def links(rig: Rig, run_id: str) -> list[str]:
    found = await rig.store.chain(key(run_id))
    assert (found.older, found.newer) == (False, False)
    return [link.run_id for link in found.links]


async def test_a_chain_is_the_same_from_each_of_its_runs(rig: Rig) -> None:
    runs = await chained(rig, 4)
    for run_id in runs:
        assert await links(rig, run_id) == runs
    found = await rig.store.chain(key(runs[1]))
    continued = RunStatus.CONTINUED_AS_NEW
    assert [link.status for link in found.links] == [*[continued] * 3, RunStatus.WAITING]
    assert found.links[0].started_ms <= found.links[-1].started_ms


async def test_a_later_run_of_the_id_is_no_link(rig: Rig) -> None:
    runs = await chained(rig, 2)
    await apply(rig, terminate("w"))
    again = make.start("w", run_id="other", reuse=make.IdReusePolicy.ALLOW_DUPLICATE)
    await apply(rig, again)
    assert await links(rig, runs[0]) == runs
    assert await links(rig, "other") == ["other"]
    assert await links(rig, "unknown") == []


async def test_a_chain_ends_where_a_run_was_deleted(rig: Rig) -> None:
    runs = await chained(rig, 4)
    await apply(rig, make.delete("w", runs[1]))
    assert await links(rig, runs[0]) == runs[:1]
    assert await links(rig, runs[3]) == runs[2:]


async def test_a_long_chain_is_shown_around_the_run(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(families, "LINKS", 2)
    runs = await chained(rig, 7)
    found = await rig.store.chain(key(runs[3]))
    assert [link.run_id for link in found.links] == runs[1:6]
    assert (found.older, found.newer) == (True, True)
    found = await rig.store.chain(key(runs[1]))
    assert [link.run_id for link in found.links] == runs[:4]
    assert (found.older, found.newer) == (False, True)


async def test_summaries_come_in_the_order_asked_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await populate(rig, ["a", "b", "c"], memo='{"text":"' + "x" * 40 + '"}')
    keys = [RunKey("default", each, f"run-{each}") for each in ("c", "none", "a", "b")]
    found = await rig.store.summaries(keys)
    assert [run and run.key for run in found] == [keys[0], None, *keys[2:]]
    monkeypatch.setattr(lists, "PAGE_BYTES", 1)
    monkeypatch.setattr(lists, "_LABELS_AT_ONCE", 1)
    found = await rig.store.summaries(keys)
    assert [run and run.key for run in found] == [keys[0], None], "as many as there is room for"
