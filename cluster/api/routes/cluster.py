"""The cluster as it is, as it was in the last hour, and as it changes."""

from __future__ import annotations

from raftflow.cluster.api.handlers import cluster as handlers
from raftflow.cluster.api.routes.request import Answer, Request, Route, number
from raftflow.cluster.api.schema import NODE_ID, Object, integer, ref

_MINUTES = 60


async def describe(request: Request) -> Answer:
    request.query()
    shown = await handlers.describe(request.node)
    return Answer(200, handlers.seen_by(shown, request.caller.namespaces))


DESCRIBE = Route(
    name="DescribeCluster",
    handler=describe,
    summary="Every node, as it says itself; the elections that this node saw.",
    answers={200: ref("Cluster")},
    namespaced=False,
)


async def history(request: Request) -> Answer:
    minutes = number(request.query(), "minutes", _MINUTES, least=1, most=_MINUTES)
    return Answer(200, handlers.history(request.node, minutes))


HISTORY = Route(
    name="GetClusterHistory",
    handler=history,
    summary="Figures of the last hour, as this node has them.",
    query=Object(fields={"minutes": integer(1, _MINUTES, default=_MINUTES)}),
    answers={200: ref("ClusterHistory")},
    namespaced=False,
)


async def transfer(request: Request) -> Answer:
    to = request.fields().identifier("to", "")
    return Answer(200, await handlers.transfer(request.node, to))


TRANSFER = Route(
    name="TransferLeadership",
    handler=transfer,
    summary="Hand leadership over, to the voter that is named or to the one with most of the log.",
    body=Object(fields={"to": NODE_ID}),
    answers={200: ref("Transferred")},
    refusals=("NODE_NOT_FOUND", "NODE_REFUSED"),
    namespaced=False,
)


async def snapshot(request: Request) -> Answer:
    request.query()
    return Answer(200, await handlers.snapshot(request.node, request.path_id))


SNAPSHOT = Route(
    name="SnapshotNode",
    handler=snapshot,
    summary="Make a node's state durable on its disk now, and drop what its log needs no longer.",
    answers={200: ref("SnapshotMade")},
    refusals=("NODE_NOT_FOUND", "NODE_REFUSED"),
    namespaced=False,
)


async def events(request: Request) -> Answer:
    request.query()
    assert request.feed is not None
    return Answer(
        200,
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"},
        stream=request.feed.events(request.caller.namespaces),
    )


EVENTS = Route(
    name="WatchCluster",
    handler=events,
    summary="The cluster as server-sent events: `cluster`, with what DescribeCluster answers, at"
    " every change and once a second.",
    answers={200: None},
    refusals=("TOO_MANY_POLLS",),
    streams=True,
    namespaced=False,
)
