"""Search attributes and memos as canonical text; the filters of a list."""

from __future__ import annotations

from typing import Any

import pytest

from raftflow.cluster.api.attributes import (
    parse_attributes,
    parse_memo,
    show_attributes,
    wanted_attributes,
)
from raftflow.cluster.api.status import ApiError


def test_equal_values_are_equal_bytes() -> None:
    one = parse_attributes("a", {"b": 1.0, "a": "ä", "c": True, "d": -0.0, "e": 0.5})
    other = parse_attributes("a", {"e": 5e-1, "d": 0, "c": True, "b": 1, "a": "\u00e4"})
    assert one == other
    assert one == (("a", '"ä"'), ("b", "1"), ("c", "true"), ("d", "0"), ("e", "0.5"))
    assert show_attributes(one) == {"a": "ä", "b": 1, "c": True, "d": 0, "e": 0.5}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "f must be an object"),
        ({"a": {}}, "f.a must be a string, a number, true or false"),
        ({"a": None}, "f.a must be a string, a number, true or false"),
        ({"": 1}, "must not be empty"),
        ({"a\x00": 1}, "control character"),
        ({"a": "\ud800"}, "f.a is not valid Unicode"),
        ({"a": float("inf")}, "f.a is not a JSON value"),
        ({"a": "x" * 2_047}, "f.a has 2049 bytes, the limit is 2048"),
        ({str(number): 1 for number in range(101)}, "f has 101 names, the limit is 100"),
    ],
)
def test_what_is_no_attribute(values: Any, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse_attributes("f", values)
    assert message in refused.value.message


def test_null_removes_where_something_can_be_removed() -> None:
    assert parse_attributes("f", {"a": None}, removable=True) == (("a", "null"),)


def test_memos_are_objects_of_any_json() -> None:
    assert parse_memo(None, 10) == parse_memo({}, 10) == ""
    assert parse_memo({"b": [1.5, None], "a": {"ü": "x"}}, 100) == '{"a":{"ü":"x"},"b":[1.5,null]}'
    with pytest.raises(ApiError, match="memo has 11 bytes, the limit is 10"):
        parse_memo({"a": "xxxxx"[:3]}, 10)
    with pytest.raises(ApiError, match="memo must be an object"):
        parse_memo([1], 10)


def test_filters_are_names_and_plain_text() -> None:
    query = {"attr.b": "2", "status": "RUNNING", "attr.a b": "x"}
    assert wanted_attributes(query) == (("a b", "x"), ("b", "2"))
    with pytest.raises(ApiError, match="must not be empty"):
        wanted_attributes({"attr.": "x"})
