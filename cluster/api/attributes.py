"""Search attributes and memos: JSON values that the engine keeps as canonical text, so that equal
values are equal bytes on every node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from raftflow.cluster.api.limits import check_id
from raftflow.cluster.api.status import ApiError
from raftflow.engine.commands import Attributes
from raftflow.engine.limits import MAX_SEARCH_ATTRIBUTE_BYTES, MAX_SEARCH_ATTRIBUTES

_EXACT = 1 << 53  # the integers that a float holds exactly
# Far from what Python's parser follows, wherever the memo is shown later on.
_MAX_DEPTH = 100

_CANONICAL = json.JSONEncoder(
    separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False
)


def parse_attributes(field: str, values: Any, *, removable: bool = False) -> Attributes:
    """An object of scalars, sorted by name. ``removable``: null removes an attribute."""
    if values is None:
        return ()
    if not isinstance(values, dict):
        raise ApiError("INVALID_FIELD", f"{field} must be an object")
    if len(values) > MAX_SEARCH_ATTRIBUTES:
        raise ApiError(
            "INVALID_FIELD",
            f"{field} has {len(values)} names, the limit is {MAX_SEARCH_ATTRIBUTES}",
        )
    return tuple(
        (check_id(f"a name in {field}", name), _scalar(f"{field}.{name}", value, removable))
        for name, value in sorted(values.items())
    )


def _scalar(field: str, value: Any, removable: bool) -> str:
    if value is None and removable:
        return "null"
    if not isinstance(value, str | int | float | bool):
        what = "a string, a number, true or false" + (", or null" if removable else "")
        raise ApiError("INVALID_FIELD", f"{field} must be {what}")
    text = canonical(field, value)
    size = len(text.encode())
    if size > MAX_SEARCH_ATTRIBUTE_BYTES:
        raise ApiError(
            "PAYLOAD_TOO_LARGE",
            f"{field} has {size} bytes, the limit is {MAX_SEARCH_ATTRIBUTE_BYTES}",
        )
    return text


def canonical(field: str, value: Any) -> str:
    """One text for one value: 1, 1.0 and 1e0 are the same number."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        value = int(value)
    try:
        text = _CANONICAL.encode(value)
        text.encode()
    except UnicodeEncodeError:
        raise ApiError("INVALID_FIELD", f"{field} is not valid Unicode") from None
    except (ValueError, RecursionError):
        raise ApiError("INVALID_FIELD", f"{field} is not a JSON value") from None
    return text


def show_attributes(attributes: Attributes) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in attributes}


def parse_memo(value: Any, limit: int) -> str:
    """A JSON object that is only shown; "" for none."""
    if value is None:
        return ""
    if not isinstance(value, dict):
        raise ApiError("INVALID_FIELD", "memo must be an object")
    if not value:
        return ""
    if _deeper_than(value, _MAX_DEPTH):
        raise ApiError("INVALID_FIELD", f"memo nests deeper than {_MAX_DEPTH} levels")
    text = canonical("memo", value)
    size = len(text.encode())
    if size > limit:
        raise ApiError("PAYLOAD_TOO_LARGE", f"memo has {size} bytes, the limit is {limit}")
    return text


def _deeper_than(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def show_memo(memo: str) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(memo) if memo else {}
    return shown


def wanted_attributes(query: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The `attr.NAME` filters of a list: names, and values as plain text."""
    return tuple(
        (check_id(parameter, parameter.removeprefix("attr.")), text)
        for parameter, text in sorted(query.items())
        if parameter.startswith("attr.")
    )
