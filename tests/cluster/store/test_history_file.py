"""History files: whole, torn, damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftflow.cluster.codec.events import encode_event
from raftflow.cluster.store.history_file import HistoryFileDamaged, export, iterate, verify
from raftflow.cluster.store.records import frame
from raftflow.engine.events import Event, SignalReceived, TimerFired

EVENTS = [
    Event(1, 10, SignalReceived(name="go", payload=b"x" * 40, request_id="")),
    Event(2, 11, TimerFired(sequence=1)),
    Event(3, 12, TimerFired(sequence=2)),
    Event(4, 13, SignalReceived(name="stop", payload=b"", request_id="r")),
]
RECORDS = [frame(encode_event(event)) for event in EVENTS]


@pytest.fixture
def path(tmp_path: Path) -> str:
    target = str(tmp_path / "order.history")
    assert export(target, RECORDS) == sum(map(len, RECORDS))
    return target


def test_export_and_read_back(path: str, tmp_path: Path) -> None:
    found = list(iterate(path))
    assert [each.event for each in found] == EVENTS
    assert b"".join(each.record for each in found) == Path(path).read_bytes()
    verdict = verify(path)
    assert (verdict.events, verdict.torn_bytes) == (4, 0)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["order.history"]


def test_a_cut_at_every_byte_is_a_torn_tail(path: str) -> None:
    content = Path(path).read_bytes()
    ends = [sum(map(len, RECORDS[:n])) for n in range(len(RECORDS) + 1)]
    for cut in range(len(content) + 1):
        Path(path).write_bytes(content[:cut])
        whole = max(end for end in ends if end <= cut)
        verdict = verify(path)
        assert (verdict.whole_bytes, verdict.torn_bytes) == (whole, cut - whole)


def test_a_flip_of_every_bit_but_the_last_records_is_named(path: str) -> None:
    content = bytearray(Path(path).read_bytes())
    last = len(content) - len(RECORDS[-1])
    starts = [sum(map(len, RECORDS[:n])) for n in range(len(RECORDS))]
    for position in range(last):
        offset = max(start for start in starts if start <= position)
        for bit in range(8):
            content[position] ^= 1 << bit
            Path(path).write_bytes(content)
            with pytest.raises(HistoryFileDamaged, match=rf"order\.history: offset {offset}: "):
                verify(path)
            content[position] ^= 1 << bit


def test_ids_are_dense(path: str) -> None:
    export(path, [RECORDS[0], RECORDS[2]])
    with pytest.raises(HistoryFileDamaged, match="event 3 follows event 1"):
        verify(path)


def test_an_empty_file_is_an_empty_history(path: str) -> None:
    export(path, [])
    assert verify(path).events == 0
