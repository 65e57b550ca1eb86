"""The gRPC API: the calls of `workflow.v1.WorkflowService` over the shared handlers."""

from __future__ import annotations

import asyncio
import copy
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import closing
from typing import Any, TypeVar
from urllib.parse import unquote

import structlog
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc import aio
from grpc_health.v1 import _async as aio_health
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import _async as aio_reflection
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from raftflow.cluster.api import grpc_answers as answers
from raftflow.cluster.api import grpc_messages as messages
from raftflow.cluster.api.admission import Admission
from raftflow.cluster.api.auth import NAMESPACE_HEADER, Caller, Tokens
from raftflow.cluster.api.grpc_fields import number, request_id, run_of
from raftflow.cluster.api.grpc_handlers import generic_handler
from raftflow.cluster.api.grpc_tls import grpc_credentials
from raftflow.cluster.api.handlers import access, admin, deletion, runs, tasks
from raftflow.cluster.api.handlers.common import register_types
from raftflow.cluster.api.limits import MAX_GRPC_POLL_MS, MAX_POLL_MS, check_id
from raftflow.cluster.api.noting import noting
from raftflow.cluster.api.permissions import OPERATIONS
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.signing import signed
from raftflow.cluster.api.status import ERROR_DOMAIN, ApiError, internal, of_exception
from raftflow.cluster.api.watch import Watch
from raftflow.cluster.api.worker_stream import WorkerStreams
from raftflow.cluster.config import Limits
from raftflow.cluster.dispatch import Poll
from raftflow.cluster.errors import PortInUse, Unavailable
from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1 import service_pb2_grpc

log = structlog.get_logger("raftflow.api")

_SERVICE = pb.DESCRIPTOR.services_by_name["WorkflowService"]
SERVICE = _SERVICE.full_name

# A poll answers this much before the caller's deadline, so that the answer arrives.
_DEADLINE_MARGIN_MS = 200
_MAX_SEND_BYTES = 256 << 20
_KEEPALIVE_MS = 20_000
_IDLE_MS = 300_000
_MAX_STREAMS = 4_096  # calls at once over one connection

Context = aio.ServicerContext[Any, Any]
Q = TypeVar("Q")
R = TypeVar("R")


class GrpcServer:
    """Serves the API, health and reflection on one address."""

    def __init__(
        self, node: NodeServices, watch: Watch, admission: Admission, limits: Limits
    ) -> None:
        self._node = node
        self._limits = limits
        self._service = WorkflowService(node, watch, admission)
        self._health = aio_health.HealthServicer()
        self._server: aio.Server | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        server = aio.server(options=_options(self._limits))
        handler = generic_handler(
            _SERVICE, self._service, body_timeout_ms=self._limits.body_timeout_ms
        )
        server.add_generic_rpc_handlers((handler,))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflected = _Reflection(names, self._node.tokens)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflected, server)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._node.tls is None:
                self.port = server.add_insecure_port(address)
            else:
                self.port = server.add_secure_port(address, grpc_credentials(self._node.tls))
        except RuntimeError:
            self.port = 0
        if self.port == 0:
            raise PortInUse(
                f"cannot serve grpc on {address}: the address is in use or not ours. "
                "Stop what listens there or choose another address for this node."
            )
        await server.start()
        self._server = server
        for name in ("", SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self) -> None:
        if self._server is None:
            return
        await self._health.enter_graceful_shutdown()
        stopping = asyncio.create_task(self._server.stop(grace=1.0))
        ended = Unavailable("this node is shutting down", retry_after_ms=100)
        self._node.tokens.calls.end(lambda _caller: ended)
        await stopping


def _options(limits: Limits) -> list[tuple[str, int]]:
    return [
        # Otherwise a second process would share the port in silence.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", limits.request_body_bytes),
        ("grpc.max_send_message_length", _MAX_SEND_BYTES),
        ("grpc.max_metadata_size", limits.header_bytes),
        ("grpc.absolute_max_metadata_size", limits.header_bytes),
        # A worker whose machine is gone would otherwise hold its polls for hours.
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS // 2),
        # Who connects and is silent goes, so that others find a place.
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.server_handshake_timeout_ms", limits.head_timeout_ms),
        ("grpc.http2.settings_timeout", limits.head_timeout_ms),
        ("grpc.max_connection_idle_ms", _IDLE_MS),
        ("grpc.max_concurrent_streams", _MAX_STREAMS),
    ]


def answering(
    call: Callable[[Any, Q, Context], Awaitable[R]],
) -> Callable[[Any, Q, Context], Awaitable[R]]:
    """Turn what a call raises into a status with details, and count the call."""
    operation = call.__name__

    @functools.wraps(call)
    async def answer(self: WorkflowService, request: Q, context: Context) -> R:
        begun = time.perf_counter()
        error: ApiError | None = None
        actor = ""
        try:
            tokens = self.node.tokens
            caller = tokens.bearer(_authorization(context))
            actor = caller.actor
            caller.permit(operation)
            if isinstance(request, ApiError):
                raise request
            seen = self.seen_by(caller, _address(context))
            with noting(self.node, operation, seen.named_by(request, context)) as noted:
                noted.of_message(request)
                seen.admit(operation, request, context)
                response = await call(seen, request, context)
            if not OPERATIONS[operation].changes:
                tokens.check(caller)  # who lost it meanwhile sees nothing any more
            return response
        except Exception as problem:  # the last line: no caller sees a traceback
            error = of_exception(problem)
            if error is None:
                log.exception("call_failed", operation=operation)
                error = internal()
        finally:
            code = "OK" if error is None else error.situation.code.name
            self.node.metrics.request(operation, code, time.perf_counter() - begun)
            self.admission.refusals.note(operation, error, _address(context), actor=actor)
        await refuse(context, error)
        raise AssertionError("abort raises")

    return answer


async def refuse(context: Context, error: ApiError) -> None:
    """End the call with google.rpc.ErrorInfo beside the sentence."""
    info = error_details_pb2.ErrorInfo(
        domain=ERROR_DOMAIN,
        reason=error.reason,
        metadata=messages.error_metadata(error),
    )
    detail = any_pb2.Any()
    detail.Pack(info)
    status = status_pb2.Status(
        code=error.situation.code.value[0], message=error.message, details=[detail]
    )
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(error.situation.code, error.message)


class WorkflowService(service_pb2_grpc.WorkflowServiceServicer):
    """One method a call: read the message, run the handler, write the answer. Each call has the
    service as its caller sees it."""

    def __init__(self, node: NodeServices, watch: Watch, admission: Admission) -> None:
        self.node = node
        self.admission = admission
        self._caller = node.tokens.anybody
        self._watch = watch
        self._streams = WorkerStreams(node)

    def seen_by(self, caller: Caller, address: str) -> WorkflowService:
        seen = copy.copy(self)
        seen.node = signed(self.node, caller, address)
        seen._caller = caller
        return seen

    # ---- activity tasks -------------------------------------------------------------------------

    @answering
    async def PollTask(self, request: pb.PollTaskRequest, context: Context) -> pb.Task:
        poll = messages.poll(
            request.activities, "activities", request, self._namespace(request, context)
        )
        found = await self._wait(poll, tasks.poll_activity, context)
        return answers.activity_task(found[0], found[1:]) if found else pb.Task()

    @answering
    async def CompleteTask(
        self, request: pb.CompleteTaskRequest, context: Context
    ) -> pb.CompleteTaskResponse:
        namespace = self._namespace(request, context)
        command = messages.complete_activity(request, namespace, self.node.config)
        eager = messages.eager(request, namespace)
        found = await tasks.complete_activity(self.node, command, eager)
        response = pb.CompleteTaskResponse()
        if found and self._received(found, context):
            response.workflow_task.CopyFrom(answers.decision_task(found[0]))
        return response

    @answering
    async def Heartbeat(
        self, request: pb.HeartbeatRequest, context: Context
    ) -> pb.HeartbeatResponse:
        messages.check_heartbeat(request, self.node.config)
        await tasks.heartbeat(
            self.node,
            namespace=self._namespace(request, context),
            workflow_id=request.workflow_id,
            lease_token=request.lease_token,
            worker_id=request.worker_id,
            details=request.details if request.HasField("details") else None,
        )
        return pb.HeartbeatResponse()

    # ---- runs -----------------------------------------------------------------------------------

    @answering
    async def StartWorkflow(
        self, request: pb.StartWorkflowRequest, context: Context
    ) -> pb.StartWorkflowResponse:
        namespace = self._namespace(request, context)
        command = messages.start(request, namespace, _metadata(context), self.node.config)
        run = await runs.start(self.node, command)
        return pb.StartWorkflowResponse(
            workflow_id=run.workflow_id, run_id=run.run_id, started=run.started
        )

    @answering
    async def SignalWorkflow(
        self, request: pb.SignalWorkflowRequest, context: Context
    ) -> pb.SignalWorkflowResponse:
        namespace = self._namespace(request, context)
        await runs.change(self.node, messages.signal(request, namespace, self.node.config))
        return pb.SignalWorkflowResponse()

    @answering
    async def TerminateWorkflow(
        self, request: pb.TerminateWorkflowRequest, context: Context
    ) -> pb.TerminateWorkflowResponse:
        await runs.change(self.node, messages.terminate(request, self._namespace(request, context)))
        return pb.TerminateWorkflowResponse()

    @answering
    async def CancelWorkflow(
        self, request: pb.CancelWorkflowRequest, context: Context
    ) -> pb.CancelWorkflowResponse:
        await runs.change(self.node, messages.cancel(request, self._namespace(request, context)))
        return pb.CancelWorkflowResponse()

    @answering
    async def PauseWorkflow(
        self, request: pb.PauseWorkflowRequest, context: Context
    ) -> pb.PauseWorkflowResponse:
        await runs.change(self.node, messages.pause(request, self._namespace(request, context)))
        return pb.PauseWorkflowResponse()

    @answering
    async def UnpauseWorkflow(
        self, request: pb.UnpauseWorkflowRequest, context: Context
    ) -> pb.UnpauseWorkflowResponse:
        await runs.change(self.node, messages.unpause(request, self._namespace(request, context)))
        return pb.UnpauseWorkflowResponse()

    @answering
    async def DeleteWorkflow(
        self, request: pb.DeleteWorkflowRequest, context: Context
    ) -> pb.DeleteWorkflowResponse:
        workflow_id, run_id = run_of(request)
        forgotten = await deletion.delete(
            self.node,
            self._namespace(request, context),
            workflow_id,
            run_id=run_id,
            request_id=request_id(request),
        )
        return pb.DeleteWorkflowResponse(runs=forgotten)

    @answering
    async def DescribeWorkflow(
        self, request: pb.DescribeWorkflowRequest, context: Context
    ) -> pb.DescribeWorkflowResponse:
        workflow_id, run_id = run_of(request)
        namespace = self._namespace(request, context)
        found = await runs.describe(self.node, namespace, workflow_id, run_id)
        response = answers.described(found)
        return response if self._caller.sees_payloads else answers.hidden(response)

    @answering
    async def ListWorkflows(
        self, request: pb.ListWorkflowsRequest, context: Context
    ) -> pb.ListWorkflowsResponse:
        wanted = messages.run_filter(request, self._namespace(request, context))
        page, index = await runs.list_runs(self.node, wanted)
        return answers.run_page(page, index)

    @answering
    async def GetHistory(
        self, request: pb.GetHistoryRequest, context: Context
    ) -> pb.GetHistoryResponse:
        self._caller.may_see_payloads()
        wanted = messages.history(request, self._namespace(request, context))
        page = await self._tracked(
            runs.history(
                self.node,
                self._watch,
                wanted.key,
                first=wanted.first,
                limit=wanted.limit,
                wait_ms=min(wanted.wait_ms, self._patience_ms(context, MAX_POLL_MS)),
            )
        )
        if page is None:
            return pb.GetHistoryResponse()
        return pb.GetHistoryResponse(
            run_id=page.run.key.run_id,
            status=page.run.status.name,
            history_length=page.length,
            records=page.records,
        )

    # ---- namespaces -----------------------------------------------------------------------------

    @answering
    async def CreateNamespace(
        self, request: pb.CreateNamespaceRequest, context: Context
    ) -> pb.CreateNamespaceResponse:
        await admin.change_namespace(self.node, messages.create_namespace(request))
        return pb.CreateNamespaceResponse()

    @answering
    async def UpdateNamespace(
        self, request: pb.UpdateNamespaceRequest, context: Context
    ) -> pb.UpdateNamespaceResponse:
        await admin.change_namespace(self.node, messages.update_namespace(request))
        return pb.UpdateNamespaceResponse()

    @answering
    async def SetNamespaceQuota(
        self, request: pb.SetNamespaceQuotaRequest, context: Context
    ) -> pb.SetNamespaceQuotaResponse:
        await admin.change_namespace(self.node, messages.set_quota(request))
        return pb.SetNamespaceQuotaResponse()

    @answering
    async def ListNamespaces(
        self, request: pb.ListNamespacesRequest, context: Context
    ) -> pb.ListNamespacesResponse:
        return answers.namespaces(await admin.namespaces(self.node))

    # ---- tokens and the audit log ---------------------------------------------------------------

    @answering
    async def MintToken(
        self, request: pb.MintTokenRequest, context: Context
    ) -> pb.MintTokenResponse:
        self._caller.may_mint(sees_payloads=request.sees_payloads)
        minted = await access.mint(
            self.node,
            name=check_id("name", request.name),
            role=messages.role(request),
            namespaces=tuple(dict.fromkeys(request.namespaces)),
            sees_payloads=request.sees_payloads,
            lifetime_ms=number("lifetime_ms", request.lifetime_ms),
            request_id=request_id(request),
        )
        return answers.minted(minted)

    @answering
    async def ListTokens(
        self, request: pb.ListTokensRequest, context: Context
    ) -> pb.ListTokensResponse:
        found, status = await access.tokens(self.node), self.node.tokens.status
        return pb.ListTokensResponse(tokens=[answers.token(each, status(each)) for each in found])

    @answering
    async def RevokeToken(
        self, request: pb.RevokeTokenRequest, context: Context
    ) -> pb.RevokeTokenResponse:
        token_id = access.id_of(request.id)
        reached = await access.revoke(self.node, token_id, request_id(request))
        return pb.RevokeTokenResponse(applied_by=reached.applied_by, not_yet=reached.not_yet)

    @answering
    async def ListAudit(
        self, request: pb.ListAuditRequest, context: Context
    ) -> pb.ListAuditResponse:
        wanted = messages.audit_filter(request)
        return answers.audit_page(await access.audit_log(self.node, wanted))

    # ---- workflow tasks -------------------------------------------------------------------------

    @answering
    async def RegisterWorkflowTypes(
        self, request: pb.RegisterWorkflowTypesRequest, context: Context
    ) -> pb.RegisterWorkflowTypesResponse:
        command = messages.register_types(request, self._namespace(request, context))
        await register_types(self.node, command)
        return pb.RegisterWorkflowTypesResponse()

    @answering
    async def PollWorkflowTask(
        self, request: pb.PollWorkflowTaskRequest, context: Context
    ) -> pb.WorkflowTask:
        poll = messages.poll(request.types, "types", request, self._namespace(request, context))
        found = await self._wait(poll, tasks.poll_decision, context)
        return answers.decision_task(found[0], found[1:]) if found else pb.WorkflowTask()

    @answering
    async def CompleteWorkflowTask(
        self, request: pb.CompleteWorkflowTaskRequest, context: Context
    ) -> pb.CompleteWorkflowTaskResponse:
        namespace = self._namespace(request, context)
        found = await tasks.complete_decision(
            self.node,
            messages.decision_token(request, namespace),
            lambda task: messages.decision_answer(request, task, self.node.config),
        )
        if not self._received(found, context):
            found = ()
        return pb.CompleteWorkflowTaskResponse(
            activity_tasks=[answers.activity_task(task) for task in found]
        )

    # ---- worker streams -------------------------------------------------------------------------

    @answering
    async def WorkerStream(
        self, request: AsyncIterator[pb.WorkerMessage], context: Context
    ) -> None:
        def namespace_of(message: Any) -> str:
            return self._namespace(message, context)

        await self._tracked(self._streams.serve(self.node, request, context.write, namespace_of))

    # ---- shared ---------------------------------------------------------------------------------

    def named_by(self, request: Any, context: Context) -> str:
        """The namespace that the call is in; "" where it is in none."""
        return self._namespace(request, context) if hasattr(request, "namespace") else ""

    def admit(self, operation: str, request: Any, context: Context) -> None:
        namespace = self.named_by(request, context)
        self.admission.admit(operation, actor=self._caller.actor, namespace=namespace)

    def _namespace(self, request: Any, context: Context) -> str:
        sent = _metadata(context)
        return self._caller.within(request.namespace or sent.get(NAMESPACE_HEADER.lower(), ""))

    def _patience_ms(self, context: Context, most: int) -> int:
        remaining = context.time_remaining()
        if remaining is None:
            return min(most, MAX_POLL_MS)
        return max(0, min(most, int(remaining * 1_000) - _DEADLINE_MARGIN_MS))

    async def _wait(
        self, poll: Poll, ask: Callable[..., Coroutine[Any, Any, Sequence[Any]]], context: Context
    ) -> Sequence[Any]:
        """Park a poll until the caller's deadline is near."""
        patience_ms = self._patience_ms(context, MAX_GRPC_POLL_MS)
        found = await self._tracked(ask(self.node, poll, timeout_ms=patience_ms))
        return found if self._received(found, context) else ()

    def _received(self, found: Sequence[Any], context: Context) -> bool:
        """Tasks for a caller who has hung up go back."""
        if not context.done():
            return True
        for task in found:
            self.node.dispatch.return_task(task.namespace, task.workflow_id, task.token)
        return False

    async def _tracked(self, waiting: Coroutine[Any, Any, R]) -> R:
        """Await what may take long: it ends with the node, or with the caller's token."""
        with (
            closing(waiting),
            self.admission.polling(self._caller.actor),
            self.node.tokens.calls.waits(self._caller),
        ):
            return await waiting


class _Reflection(aio_reflection.ReflectionServicer):  # type: ignore[misc]
    """For whoever has any token."""

    def __init__(self, names: Sequence[str], tokens: Tokens) -> None:
        super().__init__(names)
        self._tokens = tokens

    async def ServerReflectionInfo(
        self, request_iterator: AsyncIterator[Any], context: Context
    ) -> AsyncIterator[Any]:
        try:
            self._tokens.bearer(_authorization(context)).permit("Reflect")
        except ApiError as error:
            await refuse(context, error)
        async for answer in super().ServerReflectionInfo(request_iterator, context):
            yield answer


def _address(context: Context) -> str:
    """The host of `ipv4:host:port` or `ipv6:[host]:port`."""
    kind, _, rest = (context.peer() or "").partition(":")
    host = rest.rpartition(":")[0] if kind in ("ipv4", "ipv6") else rest
    return unquote(host).strip("[]")


def _authorization(context: Context) -> str:
    return _metadata(context).get("authorization", "")


def _metadata(context: Context) -> dict[str, str]:
    """The text headers of a call."""
    found = context.invocation_metadata() or ()
    return {key: value for key, value in found if isinstance(value, str)}
