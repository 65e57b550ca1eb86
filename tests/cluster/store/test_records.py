"""The framing of every row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.store.records import BadRecord, frame, unframe


@given(st.binary(max_size=64))
def test_a_record_comes_back(payload: bytes) -> None:
    assert unframe(frame(payload)) == payload


def test_the_bytes_of_a_record() -> None:
    assert frame(b"123456789").hex() == "09000000" + "839206e3" + b"123456789".hex()


@given(st.binary(min_size=1, max_size=32), st.data())
def test_any_flipped_bit_is_noticed(payload: bytes, data: st.DataObject) -> None:
    record = bytearray(frame(payload))
    position = data.draw(st.integers(0, len(record) - 1))
    record[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BadRecord):
        unframe(bytes(record))


@given(st.binary(max_size=16), st.integers(1, 8))
def test_a_cut_record_is_noticed(payload: bytes, cut: int) -> None:
    with pytest.raises(BadRecord):
        unframe(frame(payload)[:-cut])
