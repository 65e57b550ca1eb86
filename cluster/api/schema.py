"""What the JSON API takes and gives, as JSON Schema. The routes read a request by the very objects
that the OpenAPI document shows: a field that is not described is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from raftflow.cluster.api.limits import MAX_SENTENCE_BYTES, MAX_TOKEN_BYTES
from raftflow.engine.ids import MAX_ID_BYTES
from raftflow.engine.limits import MAX_DURATION_MS

Schema = dict[str, Any]

_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"

# The limit is in bytes: that many characters are allowed only as far as they are ASCII.
ID: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_ID_BYTES,
    "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$",
}
TOKEN: Schema = {**ID, "maxLength": MAX_TOKEN_BYTES}
# These become file names and metric labels.
NODE_ID: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 64,
    "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$",
    "example": "n4",
}
NODE_ADDRESS: Schema = {
    "type": "string",
    "minLength": 3,
    "maxLength": 512,
    "description": "Its Raft port as the other nodes reach it: `host:port` or `[v6]:port`.",
    "example": "10.0.0.4:9233",
}
# An absent id may also be written as "".
OPTIONAL_ID: Schema = {**ID, "minLength": 0, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]*$"}
REQUEST_ID: Schema = {
    **OPTIONAL_ID,
    "description": "The same again, on any node, within ten minutes: one effect, the same answer.",
}
POLL_REQUEST_ID: Schema = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_-]{0,64}$",
    "description": "The same again after a broken poll: what that was granted comes back.",
}
# What polls name in a comma-separated list.
TYPE_NAME: Schema = {**ID, "pattern": r"^[^,\u0000-\u001f\u007f-\u009f]+$"}
NAMES: Schema = {
    "type": "string",
    "pattern": OPTIONAL_ID["pattern"],
    "description": "Names separated by commas; none: any.",
}
SENTENCE: Schema = {"type": "string", "description": f"At most {MAX_SENTENCE_BYTES} bytes."}
FLAG: Schema = {"type": "boolean"}
TEXT: Schema = {"type": "string"}
TIME: Schema = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$",
}
OPTIONAL_TIME: Schema = {
    "anyOf": [{"type": "string", "maxLength": 0}, {"type": "string", "format": "date-time"}]
}
SCALAR: Schema = {"type": ["string", "number", "boolean"]}


def integer(least: int = 0, most: int = MAX_DURATION_MS, **more: Any) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, **more}


COUNT = integer(0, 1 << 53)


def choice(kinds: type[IntEnum], default: IntEnum) -> Schema:
    return {"type": "string", "enum": list(kinds.__members__), "default": default.name}


def array(items: Schema, most: int | None = None) -> Schema:
    return {"type": "array", "items": items} | ({} if most is None else {"maxItems": most})


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def payload(name: str) -> dict[str, Schema]:
    """The two fields of a payload: exact text, or base64 of any bytes."""
    return {
        name: {"type": "string", "description": "The bytes as UTF-8 text."},
        f"{name}_base64": {
            "type": "string",
            "contentEncoding": "base64",
            "pattern": _BASE64,
            "description": f"The bytes of `{name}` in base64.",
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """A JSON object of a request, or the parameters of a query. Of the two forms of a payload one
    at most may be given. ``null`` is the same as leaving an optional field out."""

    fields: Mapping[str, Schema]
    required: tuple[str, ...] = ()
    payloads: tuple[str, ...] = ()
    exclusive: tuple[tuple[str, str], ...] = ()  # pairs of which one at most may be given
    # All that may be given, derived.
    properties: Mapping[str, Schema] = field(init=False)
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        both = dict(self.fields)
        for name in self.payloads:
            both |= payload(name)
        object.__setattr__(self, "properties", both)
        object.__setattr__(self, "names", frozenset(both))

    def schema(self) -> Schema:
        shown: Schema = {
            "type": "object",
            "properties": {
                name: each if name in self.required else nullable(each)
                for name, each in self.properties.items()
            },
            "additionalProperties": False,
        }
        if self.required:
            shown["required"] = list(self.required)
        pairs = [*self.exclusive, *((name, f"{name}_base64") for name in self.payloads)]
        if pairs:
            shown["allOf"] = [self._not_both(pair) for pair in pairs]
        return shown

    def _not_both(self, pair: tuple[str, str]) -> Schema:
        given = {name: _given(self.properties[name]) for name in pair}
        return {"not": {"properties": given, "required": list(pair)}}


def _given(schema: Schema) -> Schema:
    """Neither null nor an empty list."""
    if schema.get("type") == "array":
        return {"type": "array", "minItems": 1}
    return {"not": {"type": "null"}}


def nullable(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    kind = schema.get("type")
    if kind is None:
        return schema
    shown = {**schema, "type": [*(kind if isinstance(kind, list) else [kind]), "null"]}
    if "enum" in schema:
        shown["enum"] = [*schema["enum"], None]
    return shown
