"""Refused calls are kept for whoever asks why, with what was known of them when they were refused.

Neither what any stranger can cause is kept, nor what says nothing about a run or a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError, of_exception
from raftflow.cluster.why.refused import REASONS

# What the caller hears names the namespaces of its token, which are not for everybody.
_NOT_ALLOWED = "its token lacks the role, or the namespace, that this needs"


@dataclass(slots=True)
class Noted:
    """A call, as far as it is known. ``given``: the fields of its body, once they were read."""

    namespace: str
    target: str = ""
    given: Callable[[], Mapping[str, Any]] = dict

    def of_message(self, message: Any) -> None:
        """The same of a gRPC message."""
        self.given = lambda: {
            name: getattr(message, name)
            for name in ("workflow_id", "step_name", "sequence")
            if hasattr(message, name)
        }


@contextmanager
def noting(node: NodeServices, operation: str, namespace: str, target: str = "") -> Iterator[Noted]:
    """What is refused within is noted; the error goes on its way."""
    call = Noted(namespace, target)
    try:
        yield call
    except Exception as problem:
        error = of_exception(problem)
        if error is not None and error.reason in REASONS:
            _note(node, operation, call, error)
        raise


def _note(node: NodeServices, operation: str, call: Noted, error: ApiError) -> None:
    if call.namespace not in node.replica.catalog.namespaces:
        return
    given = call.given()
    target = call.target or given.get("workflow_id")
    step = given.get("step_name") or given.get("sequence") or ""
    node.refused.note(
        operation,
        namespace=call.namespace,
        target=target if isinstance(target, str) else "",
        step=str(step) if isinstance(step, str | int) else "",
        reason=error.reason,
        message=_NOT_ALLOWED if error.reason == "PERMISSION_DENIED" else error.message,
        limit=error.details.get("limit", ""),
        value=error.details.get("value", 0),
    )
