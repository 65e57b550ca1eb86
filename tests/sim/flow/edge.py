"""The API of one simulated node: all of it that needs no socket.

A JSON call goes through the routes, their validation and encoding; a gRPC call through the message
reader and the service. What the servers do around that is here: who has hung up gives tasks back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.protobuf import message_factory
from google.rpc import error_details_pb2, status_pb2
from multidict import CIMultiDict

from raftflow.cluster.api import json_routes
from raftflow.cluster.api.admission import Admission
from raftflow.cluster.api.auth import NAMESPACE_HEADER
from raftflow.cluster.api.encoding import encode, encode_answer
from raftflow.cluster.api.grpc_handlers import _reader
from raftflow.cluster.api.grpc_service import _SERVICE, WorkflowService
from raftflow.cluster.api.routes.request import Answer, Request
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.signing import signed
from raftflow.cluster.api.status import of_exception
from raftflow.cluster.api.watch import Watch
from tests.sim.checkers import Violation
from tests.sim.flow.speech import JsonCall, Refused, RpcCall

_METHODS = {
    method.name: (
        _reader(message_factory.GetMessageClass(method.input_type)),
        message_factory.GetMessageClass(method.output_type),
    )
    for method in _SERVICE.methods
}


class Caller:
    """Who called: whether it still listens, and until when. What a handler takes for its gRPC
    context."""

    def __init__(self, *, namespace: str, patience_s: float | None) -> None:
        self._metadata = ((NAMESPACE_HEADER.lower(), namespace),) if namespace else ()
        loop = asyncio.get_running_loop()
        self._until = None if patience_s is None else loop.time() + patience_s
        self._details = b""
        self.gone = False
        self.write: Callable[[Any], Any]

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    def peer(self) -> str:
        return "sim"

    def time_remaining(self) -> float | None:
        return None if self._until is None else self._until - asyncio.get_running_loop().time()

    def done(self) -> bool:
        return self.gone

    def set_trailing_metadata(self, metadata: Any) -> None:
        self._details = dict(metadata)["grpc-status-details-bin"]

    async def abort(self, _code: Any, message: str) -> None:
        info = error_details_pb2.ErrorInfo()
        status_pb2.Status.FromString(self._details).details[0].Unpack(info)
        _is_no_bug(info.reason)
        raise Refused(info.reason, message, dict(info.metadata))


class Edge:
    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._watch = Watch()
        services.replica.subscribe(self._watch.on_applied)
        self._service = WorkflowService(
            services, self._watch, Admission(services.config.limits, services.metrics)
        )

    async def call(self, call: JsonCall | RpcCall, caller: Caller) -> Any:
        """The answer's body or message, None when it has none. Raises Refused."""
        if isinstance(call, JsonCall):
            return await self._json(call, caller)
        read, gives = _METHODS[call.name]
        handle = getattr(self._service, call.name)
        answer = await handle(read(call.message), caller)
        return gives.FromString(answer.SerializeToString())

    async def stream(self, incoming: AsyncIterator[bytes], caller: Caller) -> None:
        """A worker's stream, until its worker ends it or it breaks."""
        read, _ = _METHODS["WorkerStream"]

        async def messages() -> AsyncIterator[Any]:
            async for raw in incoming:
                yield read(raw)

        await self._service.WorkerStream(messages(), caller)

    async def _json(self, call: JsonCall, caller: Caller) -> Any:
        try:
            answer = await self._route(call)
            if answer.stream is not None:
                return b"".join([piece async for piece in answer.stream])
            content = b"" if answer.body is None else await encode_answer(answer.body)
        except Exception as problem:
            error = of_exception(problem)
            if error is None:
                raise
            _is_no_bug(error.reason)
            told = json.loads(encode(error.body()))
            raise Refused(told["reason"], told["error"], told) from None
        if caller.gone:
            self._give_back(answer)
        return json.loads(content) if content else None

    async def _route(self, call: JsonCall) -> Answer:
        path, _, query = call.target.partition("?")
        methods, path_id = json_routes.match(path)
        route, services = methods[call.method], self._services
        headers: CIMultiDict[str] = CIMultiDict()
        if call.namespace:
            headers[NAMESPACE_HEADER] = call.namespace
        caller = services.tokens.bearer("")  # nobody is asked here
        caller.permit(route.name)
        namespace = caller.within(headers.get(NAMESPACE_HEADER, "")) if route.namespaced else ""
        node = signed(services, caller, "sim")
        return await route.handler(
            Request(node, self._watch, route, caller, namespace, path_id, query, headers, call.body)
        )

    def _give_back(self, answer: Answer) -> None:
        for task in answer.tasks:
            self._services.dispatch.return_task(task.namespace, task.workflow_id, task.token)


def _is_no_bug(reason: str) -> None:
    if reason == "INTERNAL":
        raise Violation("no call meets a bug: the answer is INTERNAL")
