from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from peers import hello_of

from raftflow.cluster.consensus.handshake import Boot, HandshakeError, Hello
from raftflow.cluster.consensus.ledger import PeerLedger
from raftflow.cluster.durable import replace_durably


def boot(number: int, *, boot_id: str = "", incarnation: str = "disk-a") -> Hello:
    return replace(
        hello_of("n2"), boots=number, boot_id=boot_id or f"b{number}", incarnation=incarnation
    )


async def remembered(directory: Path, *hellos: Hello) -> PeerLedger:
    """As the next process finds it."""
    ledger = PeerLedger.open(str(directory))
    for hello in hellos:
        ledger.judge(hello)
        ledger.note(hello)
    await ledger.written()
    return PeerLedger.open(str(directory))


async def test_the_same_start_and_later_ones_are_welcome(tmp_path: Path) -> None:
    ledger = await remembered(tmp_path, boot(3))
    ledger.judge(boot(3))
    ledger.judge(boot(4))
    assert not ledger.note(boot(3))
    assert ledger.note(boot(4))


@pytest.mark.parametrize("old", [boot(2), boot(3, boot_id="other"), boot(1)])
async def test_an_old_copy_is_refused(tmp_path: Path, old: Hello) -> None:
    ledger = await remembered(tmp_path, boot(2), boot(3))
    with pytest.raises(HandshakeError, match="old copy") as caught:
        ledger.judge(old)
    assert caught.value.reason == "stale_data"


async def test_another_disk_is_another_story(tmp_path: Path) -> None:
    ledger = await remembered(tmp_path, boot(7), boot(1, incarnation="disk-b"))
    assert ledger.newest("n2") == Boot("disk-b", 1, "b1")
    assert ledger.first_seen == {"n2": "disk-a"}
    with pytest.raises(HandshakeError):
        ledger.judge(boot(6))


async def test_a_node_of_an_earlier_release_says_nothing(tmp_path: Path) -> None:
    ledger = await remembered(tmp_path, boot(0, boot_id="x"))
    ledger.judge(boot(0, boot_id="y"))
    assert not ledger.note(boot(0, boot_id="y"))
    assert ledger.note(boot(1))
    ledger.judge(boot(0, boot_id="z"))


async def test_what_is_not_written_must_be(tmp_path: Path) -> None:
    ledger = PeerLedger.open(str(tmp_path))
    assert ledger.note(boot(1))
    assert ledger.note(boot(1))  # the second connection waits as well
    await ledger.written()
    assert not ledger.note(boot(1))


@pytest.mark.parametrize("content", ["", "[]", '{"format": 2}', '{"format":1,"peers":{"n2":[1]}}'])
def test_a_damaged_file_is_set_aside(tmp_path: Path, content: str) -> None:
    (tmp_path / "peers.json").write_text(content)
    assert PeerLedger.open(str(tmp_path)).newest("n2") is None
    assert (tmp_path / "peers.json.damaged").read_text() == content


async def test_a_node_that_is_known_by_another_disk_counts_by_that(tmp_path: Path) -> None:
    """Also after its next start, when the peers know the new disk as well."""
    ledger = PeerLedger.open(str(tmp_path))
    mine = replace(hello_of("n1"), incarnation="new")
    for seen in (Boot("", 0, ""), Boot("new", 1, "x")):
        ledger.note_own(mine, seen)
        assert ledger.first_seen == {}
    ledger.note_own(mine, Boot("old", 9, "x"))
    assert ledger.first_seen == {"n1": "old"}
    assert ledger.note(boot(1))
    await ledger.written()
    assert PeerLedger.open(str(tmp_path)).first_seen == {"n1": "old", "n2": "disk-a"}


async def test_a_write_that_nobody_waits_for_any_more_does_not_meet_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, writing = threading.Event(), threading.Lock()

    def slowly(path: str, content: bytes) -> None:
        assert writing.acquire(blocking=False), "two write the same file at once"
        begun.set()
        time.sleep(0.02)
        replace_durably(path, content)
        writing.release()

    monkeypatch.setattr("raftflow.cluster.consensus.ledger.replace_durably", slowly)
    ledger = PeerLedger.open(str(tmp_path))
    ledger.note(boot(1))
    given_up = asyncio.create_task(ledger.written())
    await asyncio.to_thread(begun.wait, 60)
    given_up.cancel()
    ledger.note(boot(2))
    await ledger.written()
    assert PeerLedger.open(str(tmp_path)).newest("n2") == boot(2).boot
