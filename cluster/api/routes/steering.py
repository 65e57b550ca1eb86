"""What is done to a run from outside: signal, cancel, terminate, pause, forget."""

from __future__ import annotations

from raftflow.cluster.api.handlers import deletion, runs
from raftflow.cluster.api.handlers.common import new_request_id
from raftflow.cluster.api.routes.request import (
    Answer,
    Request,
    Route,
    optional_id,
    request_id,
)
from raftflow.cluster.api.schema import (
    COUNT,
    FLAG,
    ID,
    OPTIONAL_ID,
    REQUEST_ID,
    SENTENCE,
    Object,
    Schema,
)
from raftflow.engine.commands import CancelRun, PauseRun, SignalRun, TerminateRun, UnpauseRun

_RUN = {"run_id": OPTIONAL_ID, "request_id": REQUEST_ID}
_REFUSALS = ("WORKFLOW_NOT_FOUND", "RUN_CLOSED", "REQUEST_ID_REUSED", "UNREADABLE")


def _told(*statuses: str, **more: Schema) -> dict[int, Schema | None]:
    status: Schema = {"type": "string", "enum": list(statuses)}
    return {
        200: {
            "type": "object",
            "properties": {"status": status, **more},
            "required": ["status", *more],
        }
    }


async def signal(request: Request) -> Answer:
    fields = request.fields()
    await runs.change(
        request.node,
        SignalRun(
            namespace=request.namespace,
            workflow_id=request.path_id,
            run_id=fields.identifier("run_id", ""),
            name=fields.identifier("name"),
            payload=request.payload(fields, "payload"),
            request_id=request_id(fields),
        ),
    )
    return Answer(200, {"status": "delivered"})


SIGNAL = Route(
    name="SignalWorkflow",
    handler=signal,
    summary="Deliver a signal. It is kept until the workflow waits for it.",
    body=Object(fields={"name": ID, **_RUN}, required=("name",), payloads=("payload",)),
    answers=_told("delivered"),
    refusals=(*_REFUSALS, "LIMIT_EXCEEDED"),
)


async def terminate(request: Request) -> Answer:
    fields = request.fields()
    await runs.change(
        request.node,
        TerminateRun(
            namespace=request.namespace,
            workflow_id=request.path_id,
            run_id=fields.identifier("run_id", ""),
            reason=fields.text("reason"),
            request_id=request_id(fields),
        ),
    )
    return Answer(200, {"status": "terminated"})


TERMINATE = Route(
    name="TerminateWorkflow",
    handler=terminate,
    summary="End a run TERMINATED at once. Its code is not told.",
    body=Object(fields={"reason": SENTENCE, **_RUN}),
    answers=_told("terminated"),
    refusals=_REFUSALS,
)


async def cancel(request: Request) -> Answer:
    fields = request.fields()
    graceful = fields.flag("graceful")
    await runs.change(
        request.node,
        CancelRun(
            namespace=request.namespace,
            workflow_id=request.path_id,
            run_id=fields.identifier("run_id", ""),
            reason=fields.text("reason"),
            request_id=request_id(fields),
            graceful=graceful,
        ),
    )
    return Answer(200, {"status": "cancel_requested" if graceful else "cancelled"})


CANCEL = Route(
    name="CancelWorkflow",
    handler=cancel,
    summary="End a run CANCELLED at once; with `graceful`, tell its code, which may compensate.",
    body=Object(fields={"reason": SENTENCE, "graceful": FLAG, **_RUN}),
    answers=_told("cancelled", "cancel_requested"),
    refusals=_REFUSALS,
)


async def pause(request: Request) -> Answer:
    fields = request.fields()
    await runs.change(
        request.node,
        PauseRun(
            namespace=request.namespace,
            workflow_id=request.path_id,
            run_id=fields.identifier("run_id", ""),
            reason=fields.text("reason"),
            request_id=request_id(fields),
        ),
    )
    return Answer(200, {"status": "paused"})


PAUSE = Route(
    name="PauseWorkflow",
    handler=pause,
    summary="Hand out no decision of the run until it is unpaused. Activities in flight go on.",
    body=Object(fields={"reason": SENTENCE, **_RUN}),
    answers=_told("paused"),
    refusals=_REFUSALS,
)


async def unpause(request: Request) -> Answer:
    fields = request.fields()
    await runs.change(
        request.node,
        UnpauseRun(
            namespace=request.namespace,
            workflow_id=request.path_id,
            run_id=fields.identifier("run_id", ""),
            request_id=request_id(fields),
        ),
    )
    return Answer(200, {"status": "unpaused"})


UNPAUSE = Route(
    name="UnpauseWorkflow",
    handler=unpause,
    summary="Let a paused run go on.",
    body=Object(fields=_RUN),
    answers=_told("unpaused"),
    refusals=_REFUSALS,
)


async def delete(request: Request) -> Answer:
    query = request.query()
    forgotten = await deletion.delete(
        request.node,
        request.namespace,
        request.path_id,
        run_id=optional_id(query, "run_id"),
        request_id=optional_id(query, "request_id") or new_request_id(),
    )
    return Answer(200, {"status": "deleted", "runs": forgotten})


DELETE = Route(
    name="DeleteWorkflow",
    handler=delete,
    summary="Forget a closed run, or all runs of the id, oldest first.",
    query=Object(fields=_RUN),
    answers=_told("deleted", runs=COUNT),
    refusals=(
        "WORKFLOW_NOT_FOUND",
        "RUN_OPEN",
        "OLDER_RUNS_KEPT",
        "MESSAGES_PENDING",
        "REQUEST_ID_REUSED",
    ),
)
