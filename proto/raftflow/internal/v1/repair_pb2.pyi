from raftflow.proto.raftflow.internal.v1 import membership_pb2 as _membership_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LogMap(_message.Message):
    __slots__ = ("prev_index", "prev_term", "runs", "points")
    PREV_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREV_TERM_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    prev_index: int
    prev_term: int
    runs: _containers.RepeatedCompositeFieldContainer[LogRun]
    points: _containers.RepeatedCompositeFieldContainer[LogPoint]
    def __init__(self, prev_index: _Optional[int] = ..., prev_term: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[LogRun, _Mapping]]] = ..., points: _Optional[_Iterable[_Union[LogPoint, _Mapping]]] = ...) -> None: ...

class LogRun(_message.Message):
    __slots__ = ("first", "last", "term")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    term: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., term: _Optional[int] = ...) -> None: ...

class LogPoint(_message.Message):
    __slots__ = ("index", "term")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ...) -> None: ...

class ReadLog(_message.Message):
    __slots__ = ("first", "last", "anchor_index", "anchor_term")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_INDEX_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_TERM_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    anchor_index: int
    anchor_term: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., anchor_index: _Optional[int] = ..., anchor_term: _Optional[int] = ...) -> None: ...

class LogEntries(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[LoggedEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[LoggedEntry, _Mapping]]] = ...) -> None: ...

class LoggedEntry(_message.Message):
    __slots__ = ("term", "payload")
    TERM_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    term: int
    payload: bytes
    def __init__(self, term: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class WantCopy(_message.Message):
    __slots__ = ("least_index",)
    LEAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    least_index: int
    def __init__(self, least_index: _Optional[int] = ...) -> None: ...

class OfferedCopy(_message.Message):
    __slots__ = ("index", "term", "size", "sha256", "snapshot_id", "configuration", "configuration_index")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    size: int
    sha256: str
    snapshot_id: str
    configuration: _membership_pb2.Configuration
    configuration_index: int
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ..., snapshot_id: _Optional[str] = ..., configuration: _Optional[_Union[_membership_pb2.Configuration, _Mapping]] = ..., configuration_index: _Optional[int] = ...) -> None: ...
