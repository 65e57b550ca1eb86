"""The audit log as the store keeps it: pages, filters, and what goes."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import populate
import pytest
from replica_rig import Rig

from raftflow.cluster.store import AuditFilter, AuditPage, CorruptRecord, trail
from raftflow.engine.commands import (
    Attributed,
    Command,
    CreateNamespace,
    Fact,
    ForgetAudit,
    MintToken,
    Origin,
    RevokeToken,
    Role,
    UpdateNamespace,
)
from raftflow.engine.state import AuditRecord


def by(who: str, command: Fact) -> Attributed:
    origin = Origin(actor=who, role=Role.ADMIN, node="n1", address="10.0.0.9")
    return Attributed(origin=origin, command=command)


def update(who: str, retention_ms: int, namespace: str = "default") -> Attributed:
    command = UpdateNamespace(namespace=namespace, retention_ms=retention_ms, request_id="")
    return by(who, command)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    started = await Rig(tmp_path / "n1").start()
    yield started
    await started.stop()


async def apply(rig: Rig, *commands: Command, advance_ms: int = 1) -> None:
    await populate.apply(rig, *commands, time_ms=rig.replica.time_ms + advance_ms)


async def listed(rig: Rig, **wanted: object) -> AuditPage:
    return await rig.store.audit_log(AuditFilter(**wanted))  # type: ignore[arg-type]


def details(records: AuditPage) -> list[int]:
    return [int(record.detail.split()[1]) for record in records.records]


async def test_filters_and_pages(rig: Rig) -> None:
    await apply(rig, by("ann", CreateNamespace(namespace="shop", retention_ms=0, request_id="")))
    for number in range(1, 6):
        await apply(rig, update("ann" if number % 2 else "ben", number), advance_ms=10)
    await apply(rig, update("ben", 7, "nowhere"), update("ben", 8, "shop"))
    assert details(await listed(rig, actor="ben")) == [8, 7, 4, 2]
    assert details(await listed(rig, outcome="NAMESPACE_NOT_FOUND")) == [7]
    assert details(await listed(rig, target="shop", call="UpdateNamespace")) == [8]
    assert details(await listed(rig, namespace="shop", oldest_first=True)) == [0, 8]
    page = await listed(rig, limit=3)
    assert details(page) == [8, 7, 5]
    assert details(await listed(rig, limit=3, cursor=page.cursor)) == [4, 3, 2]
    page = await listed(rig, limit=5, oldest_first=True)
    assert details(page) == [0, 1, 2, 3, 4]
    last = await listed(rig, limit=5, oldest_first=True, cursor=page.cursor)
    assert (details(last), last.cursor) == ([5, 7, 8], 0)


async def test_bounds_of_time(rig: Rig) -> None:
    for number in range(1, 5):
        await apply(rig, update("ann", number), advance_ms=10)
    times = [record.time_ms for record in (await listed(rig, oldest_first=True)).records]
    for oldest_first in (False, True):
        found = await listed(rig, after_ms=times[1], before_ms=times[3], oldest_first=oldest_first)
        assert sorted(details(found)) == [2, 3]
        assert found.cursor == 0
    assert details(await listed(rig, before_ms=times[0])) == []
    assert details(await listed(rig, after_ms=times[3] + 1)) == []


async def test_a_page_looks_at_so_many_rows(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "LOOKS", 2)
    for number, who in enumerate(("ann", "ben", "ben", "ben"), 1):
        await apply(rig, update(who, number))
    page = await listed(rig, actor="ann")
    assert details(page) == []
    assert details(await listed(rig, actor="ann", cursor=page.cursor)) == [1]


async def test_what_was_kept_long_enough_goes_up_to_a_row(rig: Rig) -> None:
    for number in range(1, 5):
        await apply(rig, update("ann", number), advance_ms=10)
    records = (await listed(rig, oldest_first=True)).records
    assert await rig.store.outdated_audit(records[2].time_ms, 100) == records[1].audit_no
    assert await rig.store.outdated_audit(records[2].time_ms, 1) == records[0].audit_no
    assert await rig.store.outdated_audit(records[0].time_ms, 100) == 0
    # Only what is as old as was said, whatever the leader believed.
    wish = ForgetAudit(through=records[3].audit_no, before_ms=records[2].time_ms)
    await apply(rig, wish)
    assert details(await listed(rig)) == [4, 3]


async def test_tokens_come_back_from_disk(rig: Rig) -> None:
    mint = MintToken(
        token_id="a" * 12,
        name="ci",
        role=Role.WORKER,
        namespaces=("default",),
        sees_payloads=True,
        salt=b"s" * 16,
        digest=b"d" * 32,
        lifetime_ms=5,
        parent="",
        request_id="",
    )
    await apply(rig, by("root", mint))
    await apply(rig, RevokeToken(token_id="a" * 12, request_id=""))
    before = rig.replica.catalog.tokens
    await rig.stop()
    await rig.start()
    assert rig.replica.catalog.tokens == before
    assert before["a" * 12].revoked_ms > 0


async def test_a_large_entry_is_noted_piece_by_piece(rig: Rig) -> None:
    """Places in the log are unique, also where an entry is applied in pieces."""
    await apply(rig, *[update("ann", number) for number in range(200)])
    page = await listed(rig, limit=1_000, oldest_first=True)
    assert details(page) == list(range(200))
    assert [record.audit_no & 0xFFFF for record in page.records] == list(range(200))


async def test_a_damaged_row_is_named(rig: Rig) -> None:
    await apply(rig, update("ann", 1))
    record: AuditRecord = (await listed(rig)).records[0]
    db = sqlite3.connect(rig.folder / "state.db")
    with db:
        db.execute("UPDATE audit_log SET record = x'00'")
    db.close()
    with pytest.raises(CorruptRecord, match=str(record.audit_no)):
        await listed(rig)
