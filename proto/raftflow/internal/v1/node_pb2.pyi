from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ForwardRequest(_message.Message):
    __slots__ = ("command_id", "command")
    COMMAND_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    command_id: str
    command: bytes
    def __init__(self, command_id: _Optional[str] = ..., command: _Optional[bytes] = ...) -> None: ...

class Poll(_message.Message):
    __slots__ = ("poll_id", "kind", "namespace", "task_queue", "names", "worker_id", "request_id", "max")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Poll.Kind]
        KIND_DECISION: _ClassVar[Poll.Kind]
        KIND_ACTIVITY: _ClassVar[Poll.Kind]
    KIND_UNSPECIFIED: Poll.Kind
    KIND_DECISION: Poll.Kind
    KIND_ACTIVITY: Poll.Kind
    POLL_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TASK_QUEUE_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    poll_id: str
    kind: Poll.Kind
    namespace: str
    task_queue: str
    names: _containers.RepeatedScalarFieldContainer[str]
    worker_id: str
    request_id: str
    max: int
    def __init__(self, poll_id: _Optional[str] = ..., kind: _Optional[_Union[Poll.Kind, str]] = ..., namespace: _Optional[str] = ..., task_queue: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., worker_id: _Optional[str] = ..., request_id: _Optional[str] = ..., max: _Optional[int] = ...) -> None: ...

class Demand(_message.Message):
    __slots__ = ("reset", "parked", "withdrawn")
    RESET_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    reset: bool
    parked: _containers.RepeatedCompositeFieldContainer[Poll]
    withdrawn: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, reset: bool = ..., parked: _Optional[_Iterable[_Union[Poll, _Mapping]]] = ..., withdrawn: _Optional[_Iterable[str]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("namespace", "workflow_id", "lease_token", "worker_id", "details")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    workflow_id: str
    lease_token: str
    worker_id: str
    details: bytes
    def __init__(self, namespace: _Optional[str] = ..., workflow_id: _Optional[str] = ..., lease_token: _Optional[str] = ..., worker_id: _Optional[str] = ..., details: _Optional[bytes] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("held", "cancelled", "message")
    HELD_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    held: bool
    cancelled: bool
    message: str
    def __init__(self, held: bool = ..., cancelled: bool = ..., message: _Optional[str] = ...) -> None: ...

class ClockSample(_message.Message):
    __slots__ = ("wall_ms", "sent_us", "echo_us", "held_us")
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    SENT_US_FIELD_NUMBER: _ClassVar[int]
    ECHO_US_FIELD_NUMBER: _ClassVar[int]
    HELD_US_FIELD_NUMBER: _ClassVar[int]
    wall_ms: int
    sent_us: int
    echo_us: int
    held_us: int
    def __init__(self, wall_ms: _Optional[int] = ..., sent_us: _Optional[int] = ..., echo_us: _Optional[int] = ..., held_us: _Optional[int] = ...) -> None: ...

class StateDigest(_message.Message):
    __slots__ = ("index", "digest")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    index: int
    digest: bytes
    def __init__(self, index: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class StateDigests(_message.Message):
    __slots__ = ("first", "digests")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    first: int
    digests: bytes
    def __init__(self, first: _Optional[int] = ..., digests: _Optional[bytes] = ...) -> None: ...

class FirstDifference(_message.Message):
    __slots__ = ("index", "exact", "parts")
    class PartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    INDEX_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    index: int
    exact: bool
    parts: _containers.ScalarMap[str, int]
    def __init__(self, index: _Optional[int] = ..., exact: bool = ..., parts: _Optional[_Mapping[str, int]] = ...) -> None: ...
