"""Payloads: what a value looks like as bytes, and what bytes look like in a JSON body.

A `str` travels as its UTF-8, `bytes` as they are, anything else as JSON. The reader says what it
wants back (`text`, `json` or `bytes`): the wire carries bytes and no type.
"""

import base64
import binascii
import contextlib
import json
from collections.abc import Awaitable, Mapping
from typing import Any, Literal, NoReturn

from raftflow_sdk.errors import PayloadError

Decode = Literal["text", "json", "bytes"]

NOT_ITS_RESULT = "is not its result: `await` is missing (`.result()` in a `def` workflow)"
_NOTE = "__raftflow_decode__"


def note_decode(code: object, how: Decode) -> None:
    """The wish that a decorator was given travels with the function, to the tests and replays that
    are handed the function alone."""
    with contextlib.suppress(AttributeError, TypeError):  # some callables take no notes
        setattr(getattr(code, "__func__", code), _NOTE, how)


def noted_decode(code: object, otherwise: Decode = "text") -> Decode:
    """How a function wants its input read."""
    noted: Decode = getattr(code, _NOTE, otherwise)
    return noted


def encode(value: object) -> bytes:
    """The bytes of a value."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    try:
        if isinstance(value, str):
            return value.encode()
        # NaN and Infinity are not JSON, and no other SDK could read them.
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_refuse
        ).encode()
    except (TypeError, ValueError, RecursionError) as err:
        raise PayloadError(
            f"cannot send a {type(value).__name__} as a payload ({err}); "
            "use str, bytes or a value that JSON can express"
        ) from err


def _refuse(value: object) -> NoReturn:
    if isinstance(value, Awaitable):
        raise TypeError(f"{getattr(value, '__qualname__', value)} {NOT_ITS_RESULT}")
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def decode(data: bytes, how: Decode = "text") -> Any:
    """The value in the bytes, read as the caller wants it."""
    if how == "bytes":
        return data
    try:
        text = data.decode()
    except UnicodeDecodeError as err:
        raise PayloadError(
            f'the payload ({len(data)} bytes) is not UTF-8; read it with decode="bytes"'
        ) from err
    if how == "text":
        return text
    if how != "json":
        raise PayloadError(f'decode must be "text", "json" or "bytes", not {how!r}')
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as err:
        raise PayloadError(f'the payload is not JSON ({err}); read it with decode="text"') from err


def put(body: dict[str, Any], field: str, value: object) -> None:
    """Write a value into a request body: exact text where possible, base64 otherwise."""
    data = encode(value)
    try:
        body[field] = data.decode()
    except UnicodeDecodeError:
        body[field + "_base64"] = base64.b64encode(data).decode()


def get(body: Mapping[str, Any], field: str) -> bytes:
    """Read a payload field of a response; an absent one is empty. A hidden one is no value."""
    if body.get("payload_hidden") and body.get(field, "") is None:
        raise PayloadError(f"{field} is hidden: this client's token does not see payloads")
    exact = body.get(field + "_base64")
    try:
        if exact is not None:
            return base64.b64decode(exact, validate=True)
        text = body.get(field)
        return b"" if text is None else text.encode()
    except (binascii.Error, AttributeError, TypeError, ValueError) as err:
        raise PayloadError(f"field {field!r} of the response is not a payload: {err}") from err
