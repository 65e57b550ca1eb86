"""Bytes in, same bytes out; times to the microsecond, for ever in one form."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.api.payloads import parse_time, put_payload, take_payload, timestamp
from raftflow.cluster.api.status import ApiError


@given(st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode()))
def test_payloads_survive_json(data: bytes) -> None:
    view: dict[str, Any] = {}
    put_payload(view, "f", data)
    assert len(view) == 1
    assert take_payload(json.loads(json.dumps(view)), "f") == data


def test_absent_and_null_are_none() -> None:
    assert take_payload({}, "f") is None
    assert take_payload({"f": None, "f_base64": None}, "f") is None
    assert take_payload({"f": ""}, "f") == b""


@pytest.mark.parametrize("value", ["?", "YQ", "YQ==\n", 1, "ä"])
def test_base64_is_strict(value: Any) -> None:
    with pytest.raises(ApiError, match="f_base64"):
        take_payload({"f_base64": value}, "f")


@given(st.integers(0, 250_000_000_000_000))
def test_times_have_one_form_and_come_back(time_ms: int) -> None:
    text = timestamp(time_ms)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}000Z", text)
    assert parse_time(text, "t") == time_ms


@pytest.mark.parametrize(
    "text", ["", "now", "2025-01-01", "2025-01-01T00:00:00", "2025-13-01T00:00:00Z", "²"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match="started_after must be a time"):
        parse_time(text, "started_after")


def test_offsets_are_understood() -> None:
    assert parse_time("1970-01-01T01:00:00+01:00", "t") == 0
