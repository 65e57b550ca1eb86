"""Who asks for work, and what waits for them. A token of some namespaces sees those alone."""

from __future__ import annotations

from raftflow.cluster.api.handlers import queues as handlers
from raftflow.cluster.api.routes.request import Answer, Request, Route
from raftflow.cluster.api.schema import ref


async def queues(request: Request) -> Answer:
    request.query()
    return Answer(200, await handlers.queues(request.node, request.caller.namespaces))


QUEUES = Route(
    name="ListQueues",
    handler=queues,
    summary="Queues with what waits in them, and who polls them where.",
    answers={200: ref("Queues")},
    namespaced=False,
)


async def workers(request: Request) -> Answer:
    request.query()
    return Answer(200, await handlers.workers(request.node, request.caller.namespaces))


WORKERS = Route(
    name="ListWorkers",
    handler=workers,
    summary="Workers that poll, did so lately, or have leases.",
    answers={200: ref("Workers")},
    namespaced=False,
)
