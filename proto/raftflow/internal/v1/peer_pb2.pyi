from raftflow.proto.raftflow.internal.v1 import membership_pb2 as _membership_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PeerMessage(_message.Message):
    __slots__ = ("term", "append", "append_reply", "vote", "vote_reply", "pre_vote", "pre_vote_reply", "timeout_now", "read", "read_reply", "snapshot_offer")
    TERM_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    APPEND_REPLY_FIELD_NUMBER: _ClassVar[int]
    VOTE_FIELD_NUMBER: _ClassVar[int]
    VOTE_REPLY_FIELD_NUMBER: _ClassVar[int]
    PRE_VOTE_FIELD_NUMBER: _ClassVar[int]
    PRE_VOTE_REPLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NOW_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    READ_REPLY_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_OFFER_FIELD_NUMBER: _ClassVar[int]
    term: int
    append: AppendEntries
    append_reply: AppendReply
    vote: RequestVote
    vote_reply: VoteReply
    pre_vote: RequestVote
    pre_vote_reply: PreVoteReply
    timeout_now: TimeoutNow
    read: ReadRequest
    read_reply: ReadReply
    snapshot_offer: SnapshotOffer
    def __init__(self, term: _Optional[int] = ..., append: _Optional[_Union[AppendEntries, _Mapping]] = ..., append_reply: _Optional[_Union[AppendReply, _Mapping]] = ..., vote: _Optional[_Union[RequestVote, _Mapping]] = ..., vote_reply: _Optional[_Union[VoteReply, _Mapping]] = ..., pre_vote: _Optional[_Union[RequestVote, _Mapping]] = ..., pre_vote_reply: _Optional[_Union[PreVoteReply, _Mapping]] = ..., timeout_now: _Optional[_Union[TimeoutNow, _Mapping]] = ..., read: _Optional[_Union[ReadRequest, _Mapping]] = ..., read_reply: _Optional[_Union[ReadReply, _Mapping]] = ..., snapshot_offer: _Optional[_Union[SnapshotOffer, _Mapping]] = ...) -> None: ...

class PeerEntry(_message.Message):
    __slots__ = ("term", "payload")
    TERM_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    term: int
    payload: bytes
    def __init__(self, term: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class AppendEntries(_message.Message):
    __slots__ = ("prev_index", "prev_term", "commit_index", "round", "entries")
    PREV_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREV_TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    prev_index: int
    prev_term: int
    commit_index: int
    round: int
    entries: _containers.RepeatedCompositeFieldContainer[PeerEntry]
    def __init__(self, prev_index: _Optional[int] = ..., prev_term: _Optional[int] = ..., commit_index: _Optional[int] = ..., round: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[PeerEntry, _Mapping]]] = ...) -> None: ...

class AppendReply(_message.Message):
    __slots__ = ("success", "next_index", "received", "rejected", "hint_term", "round")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    NEXT_INDEX_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    HINT_TERM_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    success: bool
    next_index: int
    received: int
    rejected: int
    hint_term: int
    round: int
    def __init__(self, success: bool = ..., next_index: _Optional[int] = ..., received: _Optional[int] = ..., rejected: _Optional[int] = ..., hint_term: _Optional[int] = ..., round: _Optional[int] = ...) -> None: ...

class RequestVote(_message.Message):
    __slots__ = ("last_index", "last_term")
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    last_index: int
    last_term: int
    def __init__(self, last_index: _Optional[int] = ..., last_term: _Optional[int] = ...) -> None: ...

class VoteReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PreVoteReply(_message.Message):
    __slots__ = ("asked_term", "granted")
    ASKED_TERM_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    asked_term: int
    granted: bool
    def __init__(self, asked_term: _Optional[int] = ..., granted: bool = ...) -> None: ...

class TimeoutNow(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class ReadReply(_message.Message):
    __slots__ = ("id", "index")
    ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    id: int
    index: int
    def __init__(self, id: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class SnapshotOffer(_message.Message):
    __slots__ = ("snapshot_id", "index", "index_term", "size", "sha256", "round", "configuration", "configuration_index")
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    INDEX_TERM_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_INDEX_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: str
    index: int
    index_term: int
    size: int
    sha256: str
    round: int
    configuration: _membership_pb2.Configuration
    configuration_index: int
    def __init__(self, snapshot_id: _Optional[str] = ..., index: _Optional[int] = ..., index_term: _Optional[int] = ..., size: _Optional[int] = ..., sha256: _Optional[str] = ..., round: _Optional[int] = ..., configuration: _Optional[_Union[_membership_pb2.Configuration, _Mapping]] = ..., configuration_index: _Optional[int] = ...) -> None: ...
