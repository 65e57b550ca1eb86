"""Runs: start, list, describe, history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from raftflow.cluster.api import views
from raftflow.cluster.api.attributes import parse_attributes, parse_memo, wanted_attributes
from raftflow.cluster.api.encoding import Rows
from raftflow.cluster.api.handlers import runs
from raftflow.cluster.api.handlers.runs import HistoryPage
from raftflow.cluster.api.limits import (
    DEFAULT_LIST_LIMIT,
    MAX_HISTORY_LIMIT,
    MAX_LIST_LIMIT,
    MAX_OFFSET,
    MAX_POLL_MS,
)
from raftflow.cluster.api.payloads import hidden, parse_time
from raftflow.cluster.api.routes.request import (
    ATTRIBUTE_FILTERS,
    NOTHING_CAME,
    Answer,
    Request,
    Route,
    number,
    optional_id,
    request_id,
)
from raftflow.cluster.api.schema import (
    ID,
    OPTIONAL_ID,
    OPTIONAL_TIME,
    REQUEST_ID,
    SCALAR,
    TEXT,
    Object,
    Schema,
    choice,
    integer,
    ref,
)
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.validation import Fields
from raftflow.cluster.store.views import RunFilter
from raftflow.engine.commands import IdConflictPolicy, IdReusePolicy, StartRun
from raftflow.engine.ids import DEFAULT_TASK_QUEUE, RunKey
from raftflow.engine.state import RunStatus

SIGNAL = Object(fields={"name": ID}, required=("name",), payloads=("payload",))


async def start(request: Request) -> Answer:
    fields = request.fields()
    signal = _signal(fields)
    command = StartRun(
        namespace=request.namespace,
        workflow_id=fields.identifier("workflow_id", ""),
        run_id="",
        workflow_type=fields.identifier("type"),
        task_queue=fields.identifier("task_queue", DEFAULT_TASK_QUEUE),
        input=request.payload(fields, "input"),
        execution_timeout_ms=fields.integer("execution_timeout_ms", 0),
        id_reuse_policy=fields.choice(
            "id_reuse_policy", IdReusePolicy, IdReusePolicy.REJECT_DUPLICATE
        ),
        id_conflict_policy=fields.choice(
            "id_conflict_policy", IdConflictPolicy, IdConflictPolicy.FAIL
        ),
        request_id=request_id(fields),
        # Several are none, and several lists are one: W3C Trace Context.
        traceparent=",".join(request.headers.getall("traceparent", ())),
        tracestate=",".join(request.headers.getall("tracestate", ())),
        search_attributes=parse_attributes(
            "search_attributes", fields.values.get("search_attributes")
        ),
        memo=parse_memo(fields.values.get("memo"), request.node.config.limits.payload_bytes),
        signal_name="" if signal is None else signal.identifier("name"),
        signal_payload=b"" if signal is None else request.payload(signal, "payload"),
    )
    run = await runs.start(request.node, command)
    return Answer(
        201 if run.started else 200,
        {"workflow_id": run.workflow_id, "run_id": run.run_id, "started": run.started},
    )


def _signal(fields: Fields) -> Fields | None:
    value = fields.values.get("signal")
    return None if value is None else Fields(value, SIGNAL.names, path="signal.")


START = Route(
    name="StartWorkflow",
    handler=start,
    summary="Start a run; with `signal`, or give the signal to the open run of the id.",
    body=Object(
        fields={
            "type": ID,
            "workflow_id": OPTIONAL_ID,
            "execution_timeout_ms": integer(),
            "id_reuse_policy": choice(IdReusePolicy, IdReusePolicy.REJECT_DUPLICATE),
            "id_conflict_policy": choice(IdConflictPolicy, IdConflictPolicy.FAIL),
            "task_queue": OPTIONAL_ID,
            "search_attributes": ref("SearchAttributes"),
            "memo": {"type": "object"},
            "signal": SIGNAL.schema(),
            "request_id": REQUEST_ID,
        },
        required=("type",),
        payloads=("input",),
    ),
    answers={201: ref("Started"), 200: ref("Started")},
    refusals=(
        "TYPE_NOT_REGISTERED",
        "WORKFLOW_ID_IN_USE",
        "REQUEST_ID_REUSED",
        "LIMIT_EXCEEDED",
        "QUOTA_EXCEEDED",
        "UNREADABLE",
    ),
)


async def list_runs(request: Request) -> Answer:
    query = request.query()
    wanted = replace(
        _filter(request, query),
        statuses=_statuses(query.get("status", "")),
        limit=number(query, "limit", DEFAULT_LIST_LIMIT, least=0, most=MAX_LIST_LIMIT),
        offset=number(query, "offset", 0, least=0, most=MAX_OFFSET),
        cursor=query.get("cursor", ""),
    )
    page, index = await runs.list_runs(request.node, wanted)
    return Answer(200, views.run_page(wanted, page), {"X-Workflowd-Applied-Index": str(index)})


async def count_runs(request: Request) -> Answer:
    counts, index = await runs.count_runs(request.node, _filter(request, request.query()))
    return Answer(200, views.run_counts(counts), {"X-Workflowd-Applied-Index": str(index)})


def _filter(request: Request, query: Mapping[str, str]) -> RunFilter:
    after, before = query.get("started_after"), query.get("started_before")
    return RunFilter(
        namespace=request.namespace,
        query=query.get("q", ""),
        workflow_type=optional_id(query, "type"),
        task_queue=optional_id(query, "task_queue"),
        started_after_ms=parse_time(after, "started_after") if after else None,
        started_before_ms=parse_time(before, "started_before") if before else None,
        attributes=wanted_attributes(query),
    )


def _statuses(text: str) -> tuple[RunStatus, ...]:
    found = []
    for name in filter(None, text.split(",")):
        status = RunStatus.__members__.get(name.upper())
        if status is None:
            raise ApiError(
                "INVALID_FIELD", f"status must be one of {', '.join(RunStatus.__members__)}"
            )
        found.append(status)
    return tuple(found)


_NAMES = "|".join(RunStatus.__members__)
_FILTERS: Mapping[str, Schema] = {
    "q": {"type": "string", "description": "A part of the id or type, in any case."},
    "type": OPTIONAL_ID,
    "task_queue": OPTIONAL_ID,
    "started_after": OPTIONAL_TIME,
    "started_before": OPTIONAL_TIME,
    ATTRIBUTE_FILTERS: {
        "type": "object",
        "propertyNames": {**ID, "pattern": r"^attr\.[^\u0000-\u001f\u007f-\u009f]+$"},
        "additionalProperties": SCALAR,
        "description": "`attr.NAME=value`: runs whose search attribute has that value.",
    },
}

LIST = Route(
    name="ListWorkflows",
    handler=list_runs,
    summary="List runs, newest first, from the store of the node that answers.",
    query=Object(
        fields={
            "status": {
                "type": "string",
                "pattern": f"^(({_NAMES})(,({_NAMES}))*)?$",
                "description": "One or several, separated by commas.",
            },
            **_FILTERS,
            "limit": integer(0, MAX_LIST_LIMIT, default=DEFAULT_LIST_LIMIT),
            "offset": integer(0, MAX_OFFSET, default=0),
            "cursor": TEXT,
        }
    ),
    answers={200: ref("RunPage")},
)

COUNT = Route(
    name="CountWorkflows",
    handler=count_runs,
    summary="Count runs by status, in the store of the node that answers.",
    query=Object(fields=_FILTERS),
    answers={200: ref("RunCounts")},
)


async def describe(request: Request) -> Answer:
    run_id = optional_id(request.query(), "run_id")
    found = await runs.describe(request.node, request.namespace, request.path_id, run_id)
    view = views.described(found)
    return Answer(200, view if request.caller.sees_payloads else hidden(view))


DESCRIBE = Route(
    name="DescribeWorkflow",
    handler=describe,
    summary="Describe the newest run of an id, or the one named.",
    query=Object(fields={"run_id": OPTIONAL_ID}),
    answers={200: ref("Run")},
    refusals=("WORKFLOW_NOT_FOUND", "HISTORY_DAMAGED"),
)


async def runs_of(request: Request) -> Answer:
    cursor = request.query().get("cursor", "")
    found, more = await runs.runs_of(request.node, request.namespace, request.path_id, cursor)
    body: dict[str, Any] = {"runs": Rows(found, views.run_summary)}
    if more:
        body["next_cursor"] = more
    return Answer(200, body)


RUNS = Route(
    name="ListRuns",
    handler=runs_of,
    summary="The runs of an id, newest first.",
    query=Object(fields={"cursor": TEXT}),
    answers={200: ref("Runs")},
    refusals=("WORKFLOW_NOT_FOUND",),
)


async def history(request: Request) -> Answer:
    query = request.query()
    binary = query.get("format", "json") == "binary"
    text = query.get("q", "")
    if not binary and query.get("format", "json") != "json":
        raise ApiError("INVALID_FIELD", "format must be json or binary")
    if binary:
        request.caller.may_see_payloads()
    key = RunKey(request.namespace, request.path_id, optional_id(query, "run_id"))
    first = number(query, "from", 1, least=1, most=10**9)
    limit = number(query, "limit", MAX_HISTORY_LIMIT, least=1, most=MAX_HISTORY_LIMIT)
    wait_ms = number(query, "wait", 0, least=0, most=MAX_POLL_MS)
    if text and (binary or wait_ms):
        raise ApiError("INVALID_FIELD", "q goes with neither wait nor format=binary")
    page: HistoryPage | None
    if text:
        matches = partial(views.mentions, text=text, sees_payloads=request.caller.sees_payloads)
        page = await runs.search_history(
            request.node, key, first=first, limit=limit, matches=matches
        )
    else:
        page = await runs.history(
            request.node, request.watch, key, first=first, limit=limit, wait_ms=wait_ms
        )
    if page is None:
        return NOTHING_CAME
    if not binary:
        view = views.history_page(page)
        return Answer(200, view if request.caller.sees_payloads else hidden(view))
    return Answer(
        200,
        headers={
            "Content-Type": "application/octet-stream",
            "Content-Disposition": f'attachment; filename="{page.run.key.run_id}.history"',
        },
        stream=runs.whole_history(request.node, page),
    )


HISTORY = Route(
    name="GetHistory",
    handler=history,
    summary="The events of a run, or its `.history` file; with `wait`, once there is one.",
    query=Object(
        fields={
            "run_id": OPTIONAL_ID,
            "q": {"type": "string", "description": "Only events with this in any value."},
            "from": integer(1, 10**9, default=1),
            "limit": integer(1, MAX_HISTORY_LIMIT, default=MAX_HISTORY_LIMIT),
            "wait": integer(0, MAX_POLL_MS, default=0),
            "format": {"type": "string", "enum": ["json", "binary"], "default": "json"},
        }
    ),
    answers={200: ref("HistoryPage"), 204: None},
    refusals=("WORKFLOW_NOT_FOUND", "HISTORY_DAMAGED"),
    polls=True,
)
