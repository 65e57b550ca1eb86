"""Why a run, a task, a queue, the log, the leader or a node does not go on."""

from __future__ import annotations

from raftflow.cluster.api import why_view
from raftflow.cluster.api.handlers import why
from raftflow.cluster.api.limits import check_id
from raftflow.cluster.api.routes.request import Answer, Request, Route, optional_id
from raftflow.cluster.api.schema import ID, OPTIONAL_ID, Object, ref
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.why import model


def _answered(request: Request, found: model.Answer) -> Answer:
    return Answer(200, why_view.shown(found, request.node))


async def of_run(request: Request) -> Answer:
    run_id = optional_id(request.query(), "run_id")
    found = await why.run(
        request.node, request.namespace, request.path_id, run_id, request.caller.namespaces
    )
    return _answered(request, found)


RUN = Route(
    name="WhyRun",
    handler=of_run,
    summary="Why a run does not go on, or how it ended. One that does not exist is an answer, too.",
    query=Object(fields={"run_id": OPTIONAL_ID}),
    answers={200: ref("Why")},
)


async def of_task(request: Request) -> Answer:
    query = request.query()
    step = query.get("step", "")
    if not step:
        raise ApiError("INVALID_FIELD", "step is required: a step's name, its sequence, or 0")
    found = await why.task(
        request.node,
        request.namespace,
        request.path_id,
        optional_id(query, "run_id"),
        check_id("step", step),
        request.caller.namespaces,
    )
    return _answered(request, found)


TASK = Route(
    name="WhyTask",
    handler=of_task,
    summary="Why a step of a run is not done.",
    query=Object(
        fields={
            "step": {
                **ID,
                "description": "Its name (of several the open one, else the last), or its"
                " sequence; 0: the workflow task.",
            },
            "run_id": OPTIONAL_ID,
        },
        required=("step",),
    ),
    answers={200: ref("Why")},
)


async def of_queue(request: Request) -> Answer:
    request.query()
    found = await why.queue(
        request.node, request.namespace, request.path_id, request.caller.namespaces
    )
    return _answered(request, found)


QUEUE = Route(
    name="WhyQueue",
    handler=of_queue,
    summary="Why the tasks of a queue are not taken.",
    answers={200: ref("Why")},
)


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
