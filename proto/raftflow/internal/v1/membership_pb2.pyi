from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Configuration(_message.Message):
    __slots__ = ("members", "feature_level")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    feature_level: int
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., feature_level: _Optional[int] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("id", "raft", "voter", "incarnation", "api")
    ID_FIELD_NUMBER: _ClassVar[int]
    RAFT_FIELD_NUMBER: _ClassVar[int]
    VOTER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    API_FIELD_NUMBER: _ClassVar[int]
    id: str
    raft: str
    voter: bool
    incarnation: str
    api: bool
    def __init__(self, id: _Optional[str] = ..., raft: _Optional[str] = ..., voter: bool = ..., incarnation: _Optional[str] = ..., api: bool = ...) -> None: ...
