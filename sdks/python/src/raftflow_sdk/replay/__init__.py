"""Replay: workflow code against its history, the same decisions each time."""

from raftflow_sdk.replay.async_context import AsyncContext
from raftflow_sdk.replay.context import Context
from raftflow_sdk.replay.core import Suspended
from raftflow_sdk.replay.decision import Workflow, WorkflowCode, decide, is_async
from raftflow_sdk.replay.futures import Future
from raftflow_sdk.replay.markers import DEFAULT_VERSION
from raftflow_sdk.replay.replayer import Replayed, Replayer
from raftflow_sdk.replay.run import ParentClosePolicy

__all__ = [
    "DEFAULT_VERSION",
    "AsyncContext",
    "Context",
    "Future",
    "ParentClosePolicy",
    "Replayed",
    "Replayer",
    "Suspended",
    "Workflow",
    "WorkflowCode",
    "decide",
    "is_async",
]
