"""A run's family."""

from __future__ import annotations

from typing import Any

from raftflow.cluster.api.encoding import Rows
from raftflow.cluster.api.handlers import families
from raftflow.cluster.api.handlers.families import Family
from raftflow.cluster.api.limits import DEFAULT_LIST_LIMIT, MAX_LIST_LIMIT
from raftflow.cluster.api.payloads import timestamp
from raftflow.cluster.api.routes.request import Answer, Request, Route, number, optional_id
from raftflow.cluster.api.schema import OPTIONAL_ID, TEXT, Object, integer, ref
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.views import run_summary
from raftflow.cluster.store.views import ChainLink, RunSummary
from raftflow.engine.ids import RunKey
from raftflow.engine.state import Step

_MAX_SEQUENCE_DIGITS = 9


async def family(request: Request) -> Answer:
    query = request.query()
    found = await families.family(
        request.node,
        RunKey(request.namespace, request.path_id, optional_id(query, "run_id")),
        after=_sequence(query.get("cursor", "")),
        limit=number(query, "limit", DEFAULT_LIST_LIMIT, least=1, most=MAX_LIST_LIMIT),
    )
    return Answer(200, _view(found))


FAMILY = Route(
    name="DescribeFamily",
    handler=family,
    summary="The parent, the children and the chain of the newest run of an id, or the one named.",
    query=Object(
        fields={
            "run_id": OPTIONAL_ID,
            "limit": integer(1, MAX_LIST_LIMIT, default=DEFAULT_LIST_LIMIT),
            "cursor": TEXT,
        }
    ),
    answers={200: ref("Family")},
    refusals=("WORKFLOW_NOT_FOUND", "HISTORY_DAMAGED"),
)


def _sequence(cursor: str) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= _MAX_SEQUENCE_DIGITS):
        raise ApiError("INVALID_FIELD", "cursor is not one that a page gave out")
    return int(cursor)


def _view(found: Family) -> dict[str, Any]:
    run, chain = found.run, found.chain
    children: dict[str, Any] = {"items": Rows(found.children, _child), "total": found.total}
    if found.next_cursor:
        children["next_cursor"] = str(found.next_cursor)
    parent = None
    if run.parent_workflow_id:
        parent = _relative(run.parent_workflow_id, run.parent_run_id, "", found.parent)
        parent["sequence"] = run.parent_sequence
    return {
        "workflow_id": run.key.workflow_id,
        "run_id": run.key.run_id,
        "parent": parent,
        "children": children,
        "chain": [_link(link) for link in chain.links],
        "chain_more": {"older": chain.older, "newer": chain.newer},
    }


def _child(item: tuple[Step, RunSummary | None]) -> dict[str, Any]:
    step, run = item
    view = _relative(step.workflow_id, step.run_id, step.workflow_type, run)
    view |= {"sequence": step.sequence, "step_name": step.name, "step_status": step.status.name}
    return view


def _relative(
    workflow_id: str, run_id: str, workflow_type: str, run: RunSummary | None
) -> dict[str, Any]:
    """As in a list, or what is known of a run that is not kept."""
    if run is not None:
        return {**run_summary(run), "kept": True}
    view: dict[str, Any] = {"workflow_id": workflow_id, "run_id": run_id, "kept": False}
    if workflow_type:
        view["workflow_type"] = workflow_type
    return view


def _link(link: ChainLink) -> dict[str, Any]:
    return {
        "run_id": link.run_id,
        "status": link.status.name,
        "started_at": timestamp(link.started_ms),
    }
