"""Who may make which call: one table, by the names of operations that both APIs share.

docs/security.md shows the same table, and a test compares; another makes every call with every kind
of token. A call that is not in it cannot be made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from raftflow.engine.commands import Role


@dataclass(frozen=True, slots=True)
class Permission:
    """``least`` as the documentation says it. ``whole_cluster``: it concerns all namespaces, and no
    token of some may. ``changes``: something is different afterwards."""

    least: str
    roles: frozenset[Role]
    whole_cluster: bool = False
    changes: bool = False


OPEN = Permission("nobody", frozenset())
_ANY = Permission("any", frozenset(Role))
_LOOK = Permission("viewer", frozenset({Role.VIEWER, Role.USER, Role.ADMIN}))
_USE = Permission("user", frozenset({Role.USER, Role.ADMIN}), changes=True)
_RULE = Permission("admin", frozenset({Role.ADMIN}), whole_cluster=True, changes=True)
_LOOK_AT_RULE = Permission("admin", frozenset({Role.ADMIN}), whole_cluster=True)
# Handing out a task changes something, too. A session takes none: no page works.
WORK = Permission("worker", frozenset({Role.WORKER, Role.ADMIN}), changes=True)

OPERATIONS: Mapping[str, Permission] = {
    "Health": OPEN,
    "Ready": OPEN,
    "Page": OPEN,
    "CreateSession": OPEN,  # its body is the token
    "DescribeApi": _ANY,
    "Reflect": _ANY,
    "DescribeSession": _ANY,
    "EndSession": Permission("any", frozenset(Role), changes=True),
    "Metrics": Permission("viewer", _LOOK.roles, whole_cluster=True),
    "DescribeCluster": _LOOK,
    "CheckPorts": Permission("viewer", _LOOK.roles, whole_cluster=True),
    "GetClusterHistory": _LOOK,
    "WatchCluster": _LOOK,
    "ListQueues": _LOOK,
    "ListWorkers": _LOOK,
    "ListWorkflows": _LOOK,
    "CountWorkflows": _LOOK,
    "DescribeWorkflow": _LOOK,
    "ListRuns": _LOOK,
    "DescribeFamily": _LOOK,
    "GetHistory": _LOOK,
    "StartWorkflow": _USE,
    "SignalWorkflow": _USE,
    "TerminateWorkflow": _USE,
    "CancelWorkflow": _USE,
    "PauseWorkflow": _USE,
    "UnpauseWorkflow": _USE,
    "DeleteWorkflow": _USE,
    "RegisterWorkflowTypes": WORK,
    "PollWorkflowTask": WORK,
    "CompleteWorkflowTask": WORK,
    "PollTask": WORK,
    "CompleteTask": WORK,
    "Heartbeat": WORK,
    "WorkerStream": WORK,
    "WhyRun": _LOOK,
    "WhyTask": _LOOK,
    "WhyQueue": _LOOK,
    "WhyLog": Permission("viewer", _LOOK.roles, whole_cluster=True),
    "WhyLeader": Permission("viewer", _LOOK.roles, whole_cluster=True),
    "WhyNode": Permission("viewer", _LOOK.roles, whole_cluster=True),
    "ListNamespaces": Permission("viewer", _LOOK.roles, whole_cluster=True),
    "CreateNamespace": _RULE,
    "UpdateNamespace": _RULE,
    "SetNamespaceQuota": _RULE,
    "AddNode": _RULE,
    "RemoveNode": _RULE,
    "TransferLeadership": _RULE,
    "SnapshotNode": _RULE,
    "TakeBackup": _RULE,
    "MintToken": _RULE,
    "ListTokens": _LOOK_AT_RULE,
    "RevokeToken": _RULE,
    "ListAudit": _LOOK_AT_RULE,
}
# The calls that the audit log keeps.
KEPT = tuple(name for name, permission in OPERATIONS.items() if permission.changes)
