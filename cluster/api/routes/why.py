"""Why a run, a task, a queue, the log, the leader or a node does not go on."""

from __future__ import annotations

from raftflow.cluster.api import why_view
from raftflow.cluster.api.handlers import why
from raftflow.cluster.api.routes.request import Answer, Request, Route
from raftflow.cluster.api.schema import ref
from raftflow.cluster.why import model


def _answered(request: Request, found: model.Answer) -> Answer:
    return Answer(200, why_view.shown(found, request.node))


async def of_log(request: Request) -> Answer:
    request.query()
    return _answered(request, await why.log(request.node))


LOG = Route(
    name="WhyLog",
    handler=of_log,
    summary="Why the log does not grow, or is not compacted.",
    answers={200: ref("Why")},
    namespaced=False,
)


async def of_leader(request: Request) -> Answer:
    request.query()
    return _answered(request, await why.leader(request.node))


LEADER = Route(
    name="WhyLeader",
    handler=of_leader,
    summary="Why there is no leader, or why this one leads.",
    answers={200: ref("Why")},
    namespaced=False,
)


async def of_node(request: Request) -> Answer:
    request.query()
    return _answered(request, await why.one_node(request.node, request.path_id))


NODE = Route(
    name="WhyNode",
    handler=of_node,
    summary="Why a node is behind, cut off, or about to end itself.",
    answers={200: ref("Why")},
    refusals=("NODE_NOT_FOUND",),
    namespaced=False,
)
