"""What a header cannot hold is refused, and a secret is never shown."""

import traceback

import pytest

from raftflow_sdk import Client, Worker
from raftflow_sdk.headers import header_value

ADDRESSES = ["http://127.0.0.1:1"]


def test_the_newline_of_a_file_is_no_part_of_the_value() -> None:
    assert header_value("token", "a secret\r\n") == "a secret"
    assert header_value("token", "a secret") == "a secret"


def test_a_value_is_sent_as_utf_8() -> None:
    assert header_value("namespace", "Büro ☕").encode("latin-1").decode() == "Büro ☕"


@pytest.mark.parametrize(
    "text", ["se\ncret", "se\r\ncret", "se\0cret", "\x7fsecret", "se\udcffcret"]
)
@pytest.mark.parametrize("field", ["token", "namespace", "traceparent", "tracestate"])
def test_an_error_names_the_field_and_not_the_value(field: str, text: str) -> None:
    def use() -> None:
        if field in ("token", "namespace"):
            Worker(ADDRESSES, **{field: text})  # type: ignore[arg-type]
        else:
            Client(ADDRESSES, retry_for=0).start("Order", **{field: text})  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=f"^{field}: character . of . is a line break") as caught:
        use()
    shown = "".join(traceback.format_exception(caught.value))
    assert text not in shown
    assert repr(text)[1:-1] not in shown


def test_bytes_are_refused_without_showing_them() -> None:
    with pytest.raises(TypeError, match=r"^token is a str, not bytes$"):
        Client(ADDRESSES, token=b"secret")  # type: ignore[arg-type]
