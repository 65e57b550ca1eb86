"""Who calls, and for which namespace. The one place where tokens will be checked."""

from __future__ import annotations

from collections.abc import Mapping

from raftflow.cluster.api.limits import check_id
from raftflow.engine.ids import DEFAULT_NAMESPACE

NAMESPACE_HEADER = "X-Workflowd-Namespace"


def identify(headers: Mapping[str, str]) -> str:
    """The namespace of a call. ``Authorization`` is not looked at: no node has tokens yet."""
    namespace = headers.get(NAMESPACE_HEADER, "")
    return check_id(NAMESPACE_HEADER, namespace) if namespace else DEFAULT_NAMESPACE
