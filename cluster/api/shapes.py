"""The shapes of the JSON API that more than one call shows, and those of answers. An answer may
gain fields in later releases; a caller ignores what it does not know."""

from __future__ import annotations

from collections.abc import Mapping

from raftflow.cluster.api.decisions import COMMANDS
from raftflow.cluster.api.schema import (
    COUNT,
    FLAG,
    ID,
    SCALAR,
    TEXT,
    TIME,
    Schema,
    array,
    nullable,
    payload,
    ref,
)
from raftflow.cluster.api.status import TABLE
from raftflow.cluster.api.why_view import WHY_SHAPES
from raftflow.cluster.ports import NAMES
from raftflow.cluster.work_facts import ACTIVITY, WORKFLOW
from raftflow.engine.commands import Role
from raftflow.engine.limits import MAX_SEARCH_ATTRIBUTES
from raftflow.engine.state import RunStatus, StepKind, StepStatus

_ATTRIBUTE_NAMES = {"propertyNames": ID, "maxProperties": MAX_SEARCH_ATTRIBUTES}
_STATUS: Schema = {"type": "string", "enum": list(RunStatus.__members__)}
_STEP_STATUS: Schema = {"type": "string", "enum": list(StepStatus.__members__)}
_OPTIONAL_COUNT = nullable(COUNT)
_OPTIONAL_TEXT = nullable(TEXT)
_MEMBER: Schema = {"type": "string", "enum": ["voter", "learner", "api", "removed"]}

_ROLE: Schema = {"type": "string", "enum": [role.name.lower() for role in Role]}
_AUTH: Schema = {"type": "string", "enum": ["on", "off"]}
_TOKEN = {
    "id": TEXT,
    "name": TEXT,
    "role": _ROLE,
    "namespaces": array(TEXT),
    "sees_payloads": FLAG,
    "created_at": TIME,
    "status": {"type": "string", "enum": ["good", "revoked", "expired", "over"]},
}
# Whether all nodes have told, and if not, who has not and why.
_TOLD: dict[str, Schema] = {
    "complete": FLAG,
    "missing": array(TEXT),
    "reasons": {"type": "object", "additionalProperties": TEXT},
    "truncated": FLAG,
}
_TOKEN_TIMES = {"expires_at": TIME, "revoked_at": TIME, "parent": TEXT}


def _shape(required: Mapping[str, Schema], **optional: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
    }


def _said(status: str, optional: Mapping[str, Schema] | None = None, **more: Schema) -> Schema:
    said: Schema = {"type": "string", "enum": [status]}
    return _shape({"status": said, **more}, **(optional or {}))


def _shown(*names: str) -> dict[str, Schema]:
    """Payloads for who may see them; `null` and `payload_hidden` for who may not."""
    shown: dict[str, Schema] = {"payload_hidden": FLAG}
    for name in names:
        shown |= payload(name)
        shown[name] = nullable(shown[name])
    return shown


_RUN_HEAD = {
    "workflow_id": ID,
    "run_id": TEXT,
    "workflow_type": TEXT,
    "status": _STATUS,
    "history_length": COUNT,
}
_SUMMARY = {
    **_RUN_HEAD,
    "started_at": TIME,
    "updated_at": TIME,
    "task_queue": TEXT,
    "search_attributes": ref("SearchAttributes"),
    "memo": {"type": "object"},
}
_TASK_HEAD = {"workflow_id": ID, "run_id": TEXT, "workflow_type": TEXT}


def _commands() -> dict[str, Schema]:
    """One schema a command type, told apart by `type`."""
    shapes = {}
    for kind, command in COMMANDS.items():
        shape = command.takes.schema()
        shape["properties"] = {**shape["properties"], "type": {"type": "string", "const": kind}}
        shapes[f"Command_{kind}"] = shape
    names = {kind: f"#/components/schemas/Command_{kind}" for kind in COMMANDS}
    shapes["Command"] = {
        "oneOf": [{"$ref": name} for name in names.values()],
        "discriminator": {"propertyName": "type", "mapping": names},
    }
    return shapes


SHAPES: Mapping[str, Schema] = {
    **_commands(),
    **WHY_SHAPES,
    "SearchAttributes": {"type": "object", "additionalProperties": SCALAR, **_ATTRIBUTE_NAMES},
    "AttributeChanges": {
        "type": "object",
        "additionalProperties": nullable(SCALAR),
        "description": "null removes an attribute.",
        **_ATTRIBUTE_NAMES,
    },
    "Error": _shape(
        {
            "error": TEXT,
            "code": TEXT,
            "reason": {"type": "string", "enum": sorted(TABLE)},
        },
        maybe_applied=FLAG,
        request_id=TEXT,
        retry_after_ms=COUNT,
        leader_http=TEXT,
        cancelled=FLAG,
        run_id=TEXT,
        cause=TEXT,
        feature=TEXT,
        needs_level=COUNT,
        level=COUNT,
        held_back_by=array(TEXT),
    ),
    "Started": _shape({"workflow_id": ID, "run_id": TEXT, "started": FLAG}),
    "RunSummary": _shape(_SUMMARY, closed_at=TIME),
    "Runs": _shape({"runs": array(ref("RunSummary"))}, next_cursor=TEXT),
    "RunPage": _shape(
        {
            "total": COUNT,
            "total_exact": FLAG,
            "offset": COUNT,
            "limit": COUNT,
            "workflows": array(ref("RunSummary")),
        },
        next_cursor=TEXT,
    ),
    "RunCounts": _shape(
        {
            "total": COUNT,
            "exact": FLAG,
            "by_status": {
                "type": "object",
                "propertyNames": _STATUS,
                "additionalProperties": COUNT,
            },
        }
    ),
    "Family": _shape(
        {
            "workflow_id": ID,
            "run_id": TEXT,
            "parent": nullable(ref("Relative")),
            "children": _shape({"items": array(ref("Relative")), "total": COUNT}, next_cursor=TEXT),
            "chain": array(_shape({"run_id": TEXT, "status": _STATUS, "started_at": TIME})),
            "chain_more": _shape({"older": FLAG, "newer": FLAG}),
        }
    ),
    "Relative": {
        **_shape(
            {"workflow_id": ID, "run_id": TEXT, "kept": FLAG, "sequence": COUNT},
            step_name=TEXT,
            step_status=_STEP_STATUS,
            workflow_type=TEXT,
            status=_STATUS,
            history_length=COUNT,
            started_at=TIME,
            updated_at=TIME,
            closed_at=TIME,
            task_queue=TEXT,
            search_attributes=ref("SearchAttributes"),
            memo={"type": "object"},
        ),
        "description": "As in a list where the run is `kept`.",
    },
    "Run": _shape(
        {
            **_SUMMARY,
            "steps": array(ref("Step")),
            "signals": array(ref("Signal")),
            "waiting_on": array(ref("Waiting")),
        },
        closed_at=TIME,
        execution_timeout_ms=COUNT,
        error=TEXT,
        error_type=TEXT,
        parent=ref("Parent"),
        continued_from_run_id=TEXT,
        continued_to_run_id=TEXT,
        cancel_requested_at=TIME,
        cancel_reason=TEXT,
        traceparent=TEXT,
        tracestate=TEXT,
        **_shown("input", "output"),
    ),
    "Parent": _shape({"workflow_id": ID, "run_id": TEXT, "sequence": COUNT}),
    "Step": _shape(
        {
            "step_name": TEXT,
            "sequence": COUNT,
            "kind": {"type": "string", "enum": list(StepKind.__members__)},
            "status": _STEP_STATUS,
        },
        attempts=COUNT,
        error=TEXT,
        error_type=TEXT,
        non_retryable=FLAG,
        resolved_event_id=COUNT,
        resolved_at=TIME,
        marker=TEXT,
        workflow_type=TEXT,
        workflow_id=TEXT,
        run_id=TEXT,
        parent_close_policy=TEXT,
        scheduled_at=TIME,
        task_queue=TEXT,
        priority=COUNT,
        next_attempt_at=TIME,
        started_at=TIME,
        worker_id=TEXT,
        node=TEXT,
        last_error=TEXT,
        past_attempts=array(ref("Attempt")),
        fire_at=TIME,
        signal_name=TEXT,
        **_shown("input", "output"),
    ),
    "Attempt": _shape(
        {"attempt": COUNT, "started_at": TIME, "ended_at": TIME},
        worker_id=TEXT,
        node=TEXT,
        error=TEXT,
    ),
    "Signal": _shape(
        {"name": TEXT}, event_id=COUNT, received_at=TIME, taken_by=COUNT, **_shown("payload")
    ),
    "Waiting": _shape(
        {"kind": TEXT, "step_name": TEXT, "sequence": COUNT, "detail": TEXT, "since": TIME},
        until=TIME,
    ),
    "HistoryPage": _shape({**_RUN_HEAD, "events": array(ref("Event"))}, next_from=COUNT),
    "Event": {
        **_shape({"event_id": COUNT, "type": TEXT, "time": TIME}),
        "description": "And the fields of its type.",
    },
    "Registered": _said("registered", workflow_types=array(TEXT)),
    "WorkflowTask": _shape(
        {
            **_TASK_HEAD,
            "task_token": TEXT,
            "history_length": COUNT,
            "started_at": TIME,
            "traceparent": TEXT,
            "tracestate": TEXT,
            "suggest_continue_as_new_at": COUNT,
            "cancel_requested_event_id": COUNT,
            "cancel_requested_at": TEXT,
            "cancel_reason": TEXT,
            "steps": array(ref("Step")),
            "signals": array(ref("Signal")),
        },
        **payload("input"),
    ),
    "WorkflowTasks": _shape({"tasks": array(ref("WorkflowTask"))}),
    "ActivityTask": _shape(
        {
            **_TASK_HEAD,
            "step_name": TEXT,
            "sequence": COUNT,
            "attempt": COUNT,
            "lease_token": TEXT,
            "lease_duration_ms": COUNT,
        },
        start_to_close_timeout_ms=COUNT,
        traceparent=TEXT,
        tracestate=TEXT,
        **payload("input"),
        **payload("heartbeat_details"),
    ),
    "ActivityTasks": _shape({"tasks": array(ref("ActivityTask"))}),
    "DecisionCompleted": _said("completed", {"activity_tasks": array(ref("ActivityTask"))}),
    "ActivityCompleted": _said("completed", {"workflow_task": ref("WorkflowTask")}),
    "Extended": _said("extended"),
    "Namespace": _shape(
        {"name": ID, "retention_ms": COUNT},
        created_at=TIME,
        max_open_runs=COUNT,
        starts_per_second=COUNT,
    ),
    "Quota": _shape({"name": ID, "max_open_runs": COUNT, "starts_per_second": COUNT}),
    "Namespaces": _shape({"namespaces": array(ref("Namespace"))}),
    "Token": _shape(_TOKEN, **_TOKEN_TIMES),
    "MintedToken": _shape(
        {"token": TEXT, **_TOKEN, "not_yet": array(TEXT)},
        **_TOKEN_TIMES,
    ),
    "Tokens": _shape({"tokens": array(ref("Token"))}),
    "TokenRevoked": _shape(
        {
            "id": TEXT,
            "status": {"type": "string", "enum": ["revoked"]},
            "applied_by": array(TEXT),
            "not_yet": array(TEXT),
        }
    ),
    "Session": _shape(
        {
            "auth": _AUTH,
            "actor": TEXT,
            "role": _ROLE,
            "namespaces": array(TEXT),
            "sees_payloads": FLAG,
            "session": FLAG,
            "operations": array(TEXT),
        },
        expires_at=TIME,
    ),
    "AuditEntry": _shape(
        {
            "id": TEXT,
            "at": TIME,
            "actor": TEXT,
            "role": _ROLE,
            "node": TEXT,
            "address": TEXT,
            "call": TEXT,
            "outcome": TEXT,
        },
        token_id=TEXT,
        namespace=TEXT,
        target=TEXT,
        run_id=TEXT,
        detail=TEXT,
    ),
    "AuditPage": _shape({"entries": array(ref("AuditEntry"))}, next_cursor=TEXT),
    "Health": _shape(
        {
            "status": TEXT,
            "version": TEXT,
            "uptime_seconds": {"type": "number"},
            "workflows_active": COUNT,
            "task_queue_depth": COUNT,
            "workflow_task_queue_depth": COUNT,
            "node": TEXT,
            "role": TEXT,
            "leader": _OPTIONAL_TEXT,
            "term": COUNT,
        }
    ),
    "Readiness": _shape(
        {"ready": FLAG, "leader": _OPTIONAL_TEXT, "lag": COUNT},
        error=TEXT,
        code=TEXT,
        reason=TEXT,
        maybe_applied=FLAG,
    ),
    "Queues": _shape({"queues": array(ref("Queue")), **_TOLD}),
    "Queue": _shape(
        {
            "name": TEXT,
            "namespace": ID,
            "kind": {"type": "string", "enum": [WORKFLOW, ACTIVITY]},
            "queued": _OPTIONAL_COUNT,
            "oldest_ms": _OPTIONAL_COUNT,
            "leases": _OPTIONAL_COUNT,
            "expired_total": _OPTIONAL_COUNT,
            "pollers": array(ref("Poller")),
        }
    ),
    "Poller": _shape(
        {"node": TEXT, "worker": TEXT, "types": array(TEXT), "polls": COUNT, "since": TIME}
    ),
    "Workers": _shape({"workers": array(ref("Worker")), **_TOLD}),
    "Worker": _shape(
        {
            "id": TEXT,
            "node": TEXT,
            "namespace": ID,
            "queues": array(TEXT),
            "polls": COUNT,
            "leases": _OPTIONAL_COUNT,
            "last_seen": nullable(TIME),
        }
    ),
    "Cluster": _shape(
        {
            "cluster_id": _OPTIONAL_TEXT,
            "node": TEXT,
            "leader": _OPTIONAL_TEXT,
            "leader_since": nullable(TIME),
            "term": COUNT,
            "auth": _AUTH,
            "feature_level": COUNT,
            "configuration_index": COUNT,
            "nodes": array(ref("Node")),
            "elections": array(ref("Election")),
        },
        pending_change=_OPTIONAL_TEXT,
    ),
    "Process": _shape(
        {
            "open_files": _OPTIONAL_COUNT,
            "open_files_limit": _OPTIONAL_COUNT,
            "connections": _OPTIONAL_COUNT,
            "connections_limit": _OPTIONAL_COUNT,
            "connections_wanted": _OPTIONAL_COUNT,
        }
    ),
    "Ports": _shape(
        {
            "node": TEXT,
            "ports": array(ref("Port")),
            "missing": array(TEXT),
            "reasons": {"type": "object", "additionalProperties": TEXT},
        }
    ),
    "Port": _shape(
        {
            "from": TEXT,
            "to": TEXT,
            "port": {"type": "string", "enum": list(NAMES)},
            "address": TEXT,
            "reachable": {
                "type": ["boolean", "null"],
                "description": "null: it is bound to its own machine, and nobody dialled it.",
            },
            "problem": _OPTIONAL_TEXT,
        }
    ),
    "Node": _shape(
        {
            "id": TEXT,
            "role": TEXT,
            "connected": FLAG,
            "reachable": {**FLAG, "description": "It answered within two heartbeats."},
            "member": _MEMBER,
        },
        http=TEXT,
        grpc=TEXT,
        raft=TEXT,
        metrics=TEXT,
        term=_OPTIONAL_COUNT,
        commit_index=_OPTIONAL_COUNT,
        applied_index=_OPTIONAL_COUNT,
        match_index=_OPTIONAL_COUNT,
        lag=_OPTIONAL_COUNT,
        last_contact_ms=_OPTIONAL_COUNT,
        state_digest=_OPTIONAL_TEXT,
        digest_compared_index=_OPTIONAL_COUNT,
        first_index=_OPTIONAL_COUNT,
        snapshot_index=_OPTIONAL_COUNT,
        snapshot_age_seconds={"type": ["number", "null"]},
        log_bytes=_OPTIONAL_COUNT,
        store_bytes=_OPTIONAL_COUNT,
        disk_free_bytes=_OPTIONAL_COUNT,
        fsync_ms={"type": ["number", "null"], "description": "99th percentile of a minute."},
        loop_lag_ms={"type": ["number", "null"], "description": "The longest of ten seconds."},
        version=_OPTIONAL_TEXT,
        uptime_seconds={"type": ["number", "null"]},
        started_at=nullable(TIME),
        feature_level=_OPTIONAL_COUNT,
        incarnation=_OPTIONAL_TEXT,
        clock_skew_ms={"type": ["integer", "null"]},
        peers={"type": ["object", "null"], "description": "Its setting `peers`: id to address."},
        invariants={
            "type": ["object", "null"],
            "description": "What its background checks looked at, and the first that do not hold.",
        },
        repair={"type": ["string", "null"], "description": "What it lacks after damage, and why."},
        auth={
            "type": ["string", "null"],
            "enum": ["on", "off", "exposed", None],
            "description": "Whether it asks for tokens; `exposed`: no, and others reach it.",
        },
        no_vote={
            "type": ["string", "null"],
            "description": "Why it counts in no majority at present.",
        },
        process={
            "anyOf": [ref("Process"), {"type": "null"}],
            "description": "What its process has open, and may have open.",
        },
        certificates={
            "type": ["object", "null"],
            "description": "Seconds until each certificate that it uses is over, by its use.",
        },
    ),
    "ClusterHistory": _shape(
        {
            "node": TEXT,
            "every_ms": COUNT,
            "from": TIME,
            "samples": {
                "type": "object",
                "description": "By name, oldest first; null where nothing is known.",
                "additionalProperties": array({"type": ["number", "null"]}),
            },
        }
    ),
    "Transferred": _shape({"from": TEXT, "leader": TEXT, "term": COUNT}),
    "SnapshotMade": _shape(
        {"id": TEXT, "index": COUNT, "first_index": COUNT, "bytes_freed": COUNT}
    ),
    "MemberChanged": _shape(
        {"id": TEXT, "member": _MEMBER, "index": COUNT, "cluster_id": _OPTIONAL_TEXT}, raft=TEXT
    ),
    "Election": _shape({"at": TIME, "term": COUNT, "leader": _OPTIONAL_TEXT, "reason": TEXT}),
}
