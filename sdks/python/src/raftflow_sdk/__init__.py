"""Write durable workflows in Python."""

from raftflow_sdk.activity import ActivityInfo
from raftflow_sdk.client import Client, Started
from raftflow_sdk.errors import (
    ActivityFailure,
    AlreadyExists,
    ApiError,
    CancelledFailure,
    ChildFailure,
    NondeterminismError,
    NotFound,
    PayloadError,
    RaftflowError,
    RunFailed,
    Unavailable,
    WorkflowFailure,
)
from raftflow_sdk.replay import (
    DEFAULT_VERSION,
    AsyncContext,
    Context,
    Future,
    Replayer,
    decide,
)
from raftflow_sdk.retry import RetryPolicy
from raftflow_sdk.version import VERSION as __version__
from raftflow_sdk.worker import Worker

__all__ = [
    "DEFAULT_VERSION",
    "ActivityFailure",
    "ActivityInfo",
    "AlreadyExists",
    "ApiError",
    "AsyncContext",
    "CancelledFailure",
    "ChildFailure",
    "Client",
    "Context",
    "Future",
    "NondeterminismError",
    "NotFound",
    "PayloadError",
    "RaftflowError",
    "Replayer",
    "RetryPolicy",
    "RunFailed",
    "Started",
    "Unavailable",
    "Worker",
    "WorkflowFailure",
    "__version__",
    "decide",
]
