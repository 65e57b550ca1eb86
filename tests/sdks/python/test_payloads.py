"""Payloads: bytes in, the same bytes out."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftflow_sdk import payloads
from raftflow_sdk.errors import PayloadError


@given(st.binary())
def test_any_bytes_survive_the_wire(data: bytes) -> None:
    body: dict[str, object] = {}
    payloads.put(body, "f", data)
    assert payloads.get(json.loads(json.dumps(body)), "f") == data


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_travels_as_text(text: str) -> None:
    body: dict[str, object] = {}
    payloads.put(body, "f", text)
    assert body == {"f": text}
    assert payloads.decode(payloads.get(body, "f")) == text


@pytest.mark.slow
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("aé😀/\"'"), inner),
    )
)
def test_other_values_travel_as_json(value: object) -> None:
    assert payloads.decode(payloads.encode(value), "json") == value


def test_a_payload_is_base64_only_when_text_is_not_exact() -> None:
    body: dict[str, object] = {}
    payloads.put(body, "f", b"\xff")
    assert body == {"f_base64": "/w=="}


def test_an_absent_field_is_empty() -> None:
    assert payloads.get({}, "f") == b""
    assert payloads.get({"f": None}, "f") == b""


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}, "\ud800"])
def test_what_cannot_be_sent_says_so(value: object) -> None:
    with pytest.raises(PayloadError, match="cannot send"):
        payloads.encode(value)


@pytest.mark.parametrize(
    ("data", "how", "remedy"),
    [(b"\xff", "text", "bytes"), (b"\xff", "json", "bytes"), (b"no json", "json", "text")],
)
def test_what_cannot_be_read_names_the_way_out(data: bytes, how: str, remedy: str) -> None:
    with pytest.raises(PayloadError, match=f'decode="{remedy}"'):
        payloads.decode(data, how)  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [{"f_base64": "?"}, {"f_base64": 3}, {"f": 3}])
def test_a_field_that_is_no_payload_is_named(body: dict[str, object]) -> None:
    with pytest.raises(PayloadError, match="'f'"):
        payloads.get(body, "f")


def test_what_is_hidden_is_no_value() -> None:
    """An empty result would be taken for one."""
    for body in ({"payload_hidden": True, "output": None}, {"payload_hidden": True, "input": None}):
        (field,) = [name for name in body if name != "payload_hidden"]
        with pytest.raises(PayloadError, match=f"{field} is hidden"):
            payloads.get(body, field)
    assert payloads.get({"payload_hidden": True, "input": None}, "output") == b""
