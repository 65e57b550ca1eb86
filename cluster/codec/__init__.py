"""The only map between protobuf messages and the engine's types."""

if __name__ != "raftflow.cluster.codec":
    raise ImportError("import this package as raftflow.cluster.codec")

from raftflow.cluster.codec.commands import (
    SCHEMA_VERSION,
    UndecodableEntry,
    decode_command,
    decode_entry,
    encode_command,
    encode_entry,
)
from raftflow.cluster.codec.events import decode_event, encode_event
from raftflow.cluster.codec.replies import (
    decode_answer,
    decode_reply,
    encode_answer,
    encode_reply,
)
from raftflow.cluster.codec.shapes import UnknownValue

__all__ = [
    "SCHEMA_VERSION",
    "UndecodableEntry",
    "UnknownValue",
    "decode_answer",
    "decode_command",
    "decode_entry",
    "decode_event",
    "decode_reply",
    "encode_answer",
    "encode_command",
    "encode_entry",
    "encode_event",
    "encode_reply",
]
