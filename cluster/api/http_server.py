"""The HTTP side: one function between the socket and the routes, and no more.

Bodies are bounded, in size and in time, and never decompressed. A caller that hangs up cancels its
call, so that a task it would have got goes to somebody else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractContextManager, aclosing
from functools import partial
from typing import Any, cast

import structlog
from aiohttp import HttpVersion11, web
from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDict

from raftflow.cluster.api import json_routes, sessions
from raftflow.cluster.api.admission import Admission
from raftflow.cluster.api.auth import NAMESPACE_HEADER, Caller
from raftflow.cluster.api.encoding import encode, encode_answer
from raftflow.cluster.api.feed import ClusterFeed, last_words
from raftflow.cluster.api.http_connection import BrokenBody, Connection, ConnectionServer
from raftflow.cluster.api.limits import over
from raftflow.cluster.api.noting import Noted, noting
from raftflow.cluster.api.page import Page
from raftflow.cluster.api.permissions import OPERATIONS
from raftflow.cluster.api.routes.request import Answer, Methods, Request, Route
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.signing import signed
from raftflow.cluster.api.status import ApiError, internal, of_exception
from raftflow.cluster.api.validation import Fields, parse_object
from raftflow.cluster.api.watch import Watch
from raftflow.cluster.config import Address, Limits
from raftflow.cluster.errors import HistoryDamaged, PortInUse, Unavailable
from raftflow.cluster.listener import BACKLOG, TlsListener, bound
from raftflow.cluster.tls import Credentials
from raftflow.engine.ids import DEFAULT_NAMESPACE

log = structlog.get_logger("raftflow.api")

_JSON = "application/json"
_MAX_HANDSHAKES = 512
# How long a node that stops still says so to those who keep a connection.
_LAST_CALLS_S = 0.25
_CORS_HEADERS = (
    f"Authorization, Content-Type, {NAMESPACE_HEADER}, {sessions.HEADER}, traceparent, tracestate"
)
_CORS_EXPOSED = "X-Workflowd-Applied-Index, Retry-After"


class NotAllowed(ApiError):
    """The path exists, but not for this method."""

    def __init__(self, method: str, allowed: str) -> None:
        super().__init__("METHOD_NOT_ALLOWED", f"{method} is not allowed here, only {allowed}")
        self.allowed = allowed


class Unread(ApiError):
    """The body is not read to its end, and the connection ends with the answer."""

    @classmethod
    def of(cls, error: ApiError) -> Unread:
        return cls(error.reason, error.message, **error.details)


class HttpServer:
    """Serves the JSON API and the page on one address."""

    def __init__(
        self, node: NodeServices, watch: Watch, admission: Admission, limits: Limits
    ) -> None:
        self._node = node
        self._watch = watch
        self._admission = admission
        self._limits = limits
        self._page = Page()
        self._feed = ClusterFeed(node)
        self._server: asyncio.Server | TlsListener | None = None
        self._web: ConnectionServer | None = None
        self._stopping = False

    async def start(self, address: Address) -> None:
        self._web = ConnectionServer(
            self._serve,
            limits=self._limits,
            refused=partial(self._admission.refusals.note, ""),
            request_factory=self._request,
            handler_cancellation=True,
        )
        handshake_ms = self._limits.head_timeout_ms
        self._server = await listen(
            self._web, address, "http", self._node.tls, handshake_ms=handshake_ms
        )

    @property
    def port(self) -> int:
        assert self._server is not None
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    @property
    def open_connections(self) -> int:
        return self._web.open_connections if self._web is not None else 0

    async def stop(self) -> None:
        """Refuse new calls, end the polls, let the others finish. Who keeps a connection is told
        with its next call, if that comes soon: else it finds the connection closed."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
        self._node.tokens.calls.end(lambda _caller: self._going())
        if self._web is not None:
            if self._web.connections:
                await asyncio.sleep(_LAST_CALLS_S)
            self._web.pre_shutdown()  # those at rest; the others when their call is answered
            await self._web.shutdown(timeout=2.0)
        await self._feed.stop()

    def _request(
        self,
        message: RawRequestMessage,
        payload: Any,
        protocol: Any,
        writer: Any,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(
            message,
            payload,
            protocol,
            writer,
            task,
            loop,
            client_max_size=self._limits.request_body_bytes,
        )

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        begun = time.perf_counter()
        raw_path, _, query = _origin_form(http.raw_path).partition("?")
        name = "Page"
        caller: Caller | None = None
        error: ApiError | None = None
        try:
            if raw_path.startswith("/api/"):
                methods, path_id = json_routes.match(raw_path)
                if http.method == "OPTIONS":
                    return self._preflight(http, methods)
                route = _route(http, methods)
                name = route.name
                with self._noting(http, route, path_id) as call:
                    caller = self._identify(http, name)
                    caller, answer = await self._call(http, route, caller, path_id, query, call)
                answered = self._watched if route.streams else self._answered
                response = await answered(http, answer, caller)
            else:
                response = self._static(http, raw_path)
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            error = of_exception(self._going())
            assert error is not None
            response = _refused(error)
        except ConnectionError:
            raise  # the caller has hung up
        except Exception as problem:  # the last line: no caller sees a traceback
            error = of_exception(problem)
            if error is None:
                log.exception("call_failed", operation=name)
                error = internal()
            response = _refused(error)
        code = "OK" if error is None else error.situation.code.name
        self._node.metrics.request(name, code, time.perf_counter() - begun)
        actor = "" if caller is None else caller.actor
        self._admission.refusals.note(name, error, http.remote or "", actor=actor)
        self._allow(http, response)
        if self._stopping and not response.prepared:
            response.force_close()
        return response

    def _noting(
        self, http: web.BaseRequest, route: Route, path_id: str
    ) -> AbstractContextManager[Noted]:
        named = http.headers.get(NAMESPACE_HEADER, "") or DEFAULT_NAMESPACE
        return noting(self._node, route.name, named if route.namespaced else "", path_id)

    def _identify(self, http: web.BaseRequest, operation: str) -> Caller:
        if self._stopping:
            raise self._going()
        return sessions.identify(
            http, self._node.tokens, operation, is_ours=lambda origin: self._is_ours(http, origin)
        )

    async def _call(
        self,
        http: web.BaseRequest,
        route: Route,
        caller: Caller,
        path_id: str,
        query: str,
        call: Noted,
    ) -> tuple[Caller, Answer]:
        tokens = self._node.tokens
        namespace = DEFAULT_NAMESPACE
        if route.namespaced:
            namespace = call.namespace = caller.within(http.headers.get(NAMESPACE_HEADER, ""))
        actor = caller.actor
        if route.name == "CreateSession":
            # Who guesses tokens must not keep everybody else from logging in.
            actor = f"log in from {http.remote}"
        self._admission.admit(
            route.name, actor=actor, namespace=namespace if route.namespaced else ""
        )
        body = b"" if route.body is None else await self._body(http)
        if route.name == "CreateSession":
            caller = self._log_in(http, route, body)
        node = signed(self._node, caller, http.remote or "")
        request = Request(
            node,
            self._watch,
            route,
            caller,
            namespace,
            path_id,
            query,
            http.headers,
            body,
            self._node.config.http_scheme == "https",
            self._feed,
        )
        call.given = lambda: request.given
        if route.polls:
            with self._admission.holding(caller.actor), tokens.calls.waits(caller):
                answer = await route.handler(request)
        else:
            answer = await route.handler(request)
        if not OPERATIONS[route.name].changes:
            tokens.check(caller)  # who lost it meanwhile sees nothing any more
        return caller, answer

    def _log_in(self, http: web.BaseRequest, route: Route, body: bytes) -> Caller:
        assert route.body is not None
        token = Fields(parse_object(body), route.body.names).text("token")
        if not token:
            raise ApiError("INVALID_FIELD", "token is required")
        return sessions.log_in(
            http, self._node.tokens, token, is_ours=lambda origin: self._is_ours(http, origin)
        )

    async def _body(self, http: web.BaseRequest) -> bytes:
        if http.content_type != _JSON:
            raise ApiError("NOT_JSON", f"the body must be {_JSON}, not {http.content_type}")
        if http.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ApiError("NOT_JSON", "compressed bodies are not taken")
        if (
            http.content_length is not None
            and http.content_length > self._limits.request_body_bytes
        ):
            raise self._too_large(f"the body has {http.content_length} bytes")
        if http.headers.get("Expect", "").lower() == "100-continue":
            await self._continue(http)
        try:
            async with asyncio.timeout(self._limits.body_timeout_ms / 1_000):
                return await http.read()
        except TimeoutError:
            late = over(
                "REQUEST_TIMEOUT",
                "the body did not arrive in time",
                limit="limits.body_timeout_ms",
                value=self._limits.body_timeout_ms,
            )
            raise Unread.of(late) from None
        except web.HTTPRequestEntityTooLarge:
            raise self._too_large("the body is too large") from None
        except BrokenBody as broken:
            raise Unread.of(broken.refusal) from None

    def _too_large(self, what: str) -> Unread:
        most = self._limits.request_body_bytes
        return Unread.of(
            over("BODY_TOO_LARGE", what, limit="limits.request_body_bytes", value=most)
        )

    async def _continue(self, http: web.BaseRequest) -> None:
        if http.version == HttpVersion11:
            await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            http.writer.output_size = 0

    async def _answered(
        self, http: web.BaseRequest, answer: Answer, caller: Caller
    ) -> web.StreamResponse:
        headers = CIMultiDict(answer.headers or {})
        if answer.stream is not None:
            streamed = web.StreamResponse(status=answer.status, headers=headers)
            self._allow(http, streamed)
            await streamed.prepare(http)
            await _send(http, streamed, self._guarded(answer.stream, caller))
            return streamed
        if answer.body is None:
            return web.Response(status=answer.status, headers=headers)
        headers["Content-Type"] = _JSON
        if answer.tasks:
            return await self._hand_out(http, answer, headers)
        content = await encode_answer(answer.body)
        return web.Response(status=answer.status, headers=headers, body=content)

    async def _watched(
        self, http: web.BaseRequest, answer: Answer, caller: Caller
    ) -> web.StreamResponse:
        """An answer that goes on for as long as its caller may have it, and then says why not."""
        streamed = web.StreamResponse(status=answer.status, headers=answer.headers)
        pieces = cast("AsyncGenerator[bytes, None]", answer.stream)
        with self._admission.holding(caller.actor):
            self._allow(http, streamed)
            await streamed.prepare(http)
            try:
                with self._node.tokens.calls.waits(caller):
                    async with aclosing(pieces):
                        async for piece in self._guarded(pieces, caller):
                            await streamed.write(piece)
            except (ApiError, Unavailable) as problem:
                why = of_exception(problem)
                assert why is not None
                await streamed.write(last_words(why))
        await streamed.write_eof()
        return streamed

    async def _guarded(self, pieces: AsyncIterator[bytes], caller: Caller) -> AsyncIterator[bytes]:
        async for piece in pieces:
            self._node.tokens.check(caller)
            yield piece

    async def _hand_out(
        self, http: web.BaseRequest, answer: Answer, headers: CIMultiDict[str]
    ) -> web.Response:
        """Send tasks to their worker; those for one who has hung up go back at once."""
        try:
            if http.transport is None or http.transport.is_closing():
                raise ConnectionResetError
            content = await encode_answer(answer.body)
            response = web.Response(status=answer.status, headers=headers, body=content)
            self._allow(http, response)
            await response.prepare(http)
            await response.write_eof()
        except (asyncio.CancelledError, ConnectionError):
            self._give_back(answer)
            raise
        if isinstance(http.protocol, Connection):
            http.protocol.handed_out(lambda: self._give_back(answer))
        return response

    def _give_back(self, answer: Answer) -> None:
        for task in answer.tasks:
            self._node.dispatch.return_task(task.namespace, task.workflow_id, task.token)

    def _static(self, http: web.BaseRequest, path: str) -> web.Response:
        file = self._page.find(path)
        if file is None:
            raise ApiError("ROUTE_NOT_FOUND", "there is no such path; docs/protocol.md lists them")
        if http.method not in ("GET", "HEAD"):
            raise NotAllowed(http.method, "GET, HEAD")
        scheme = self._node.config.http_scheme
        members = self._node.consensus.peers().values()
        nodes = (f"{scheme}://{info.http}" for info in members if info.http)
        headers = self._page.headers(file, nodes)
        if http.headers.get("If-None-Match") == file.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(headers=headers, body=file.content)

    def _going(self) -> Unavailable:
        """The node is stopping; the leader, when it is another node, can serve."""
        status = self._node.consensus.status()
        leader = self._node.consensus.peers().get(status.leader or "")
        elsewhere = leader is not None and leader.id != self._node.config.node_id
        return Unavailable(
            "this node is shutting down",
            retry_after_ms=100,
            leader_http=leader.http if leader is not None and elsewhere else None,
        )

    # ---- pages of other members of the cluster (CORS) --------------------------------------------

    def _preflight(self, http: web.BaseRequest, methods: Methods) -> web.Response:
        response = web.Response(status=204)
        self._allow(http, response)
        if "Access-Control-Allow-Origin" in response.headers:
            response.headers["Access-Control-Allow-Methods"] = ", ".join(methods)
            response.headers["Access-Control-Allow-Headers"] = _CORS_HEADERS
            response.headers["Access-Control-Max-Age"] = "600"
        return response

    def _allow(self, http: web.BaseRequest, response: web.StreamResponse) -> None:
        origin = http.headers.get("Origin")
        if origin is None or response.prepared:
            return
        response.headers["Vary"] = "Origin"
        if self._is_members(origin):
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Allow-Credentials"] = "true"
            response.headers["Access-Control-Expose-Headers"] = _CORS_EXPOSED

    def _is_members(self, origin: str) -> bool:
        """Whether it is a page of a member of the cluster."""
        members = self._node.consensus.peers().values()
        named = origin.replace("//localhost:", "//127.0.0.1:")  # what a browser was pointed at
        scheme = self._node.config.http_scheme
        return any(member.http and named == f"{scheme}://{member.http}" for member in members)

    def _is_ours(self, http: web.BaseRequest, origin: str) -> bool:
        """A page that came from this very address, or from another member. Where a proxy ends TLS
        the page's scheme is not ours; a cookie that is SameSite does not come from another one."""
        scheme, _, host = origin.partition("://")
        here = scheme in ("http", "https") and host == http.host
        return here or self._is_members(origin)


async def listen(
    factory: Any, address: Address, what: str, tls: Credentials | None, *, handshake_ms: int
) -> asyncio.Server | TlsListener:
    """Bind and serve, or say in one sentence why not."""
    loop = asyncio.get_running_loop()
    try:
        if tls is None:
            return await loop.create_server(factory, address.host, address.port, backlog=BACKLOG)
        server = TlsListener(
            await bound(address.host, address.port),
            factory,
            tls.accepting,
            what=what,
            timeout_s=handshake_ms / 1_000,
            most=_MAX_HANDSHAKES,
        )
        await server.start_serving()
        return server
    except OSError as error:
        raise PortInUse(
            f"cannot serve {what} on {address}: {error.strerror or error}. "
            "Stop what listens there or choose another address for this node."
        ) from None


async def _send(
    http: web.BaseRequest, response: web.StreamResponse, pieces: AsyncIterator[bytes]
) -> None:
    """Write a body whose length is not known yet. What fails on the way can only be told by
    breaking off: the caller sees that the last chunk is missing."""
    try:
        async for piece in pieces:
            await response.write(piece)
    except (HistoryDamaged, ApiError, OSError) as error:
        # Without the query: what somebody put there by mistake, such as a token, is for no log.
        path = http.raw_path.partition("?")[0]
        log.warning("stream_broken_off", path=path, error=str(error))
        if http.transport is not None:
            http.transport.abort()
        raise ConnectionResetError from error
    await response.write_eof()


def _origin_form(target: str) -> str:
    """The path of a request target; clients of a proxy send it with scheme and host."""
    if target.startswith("/"):
        return target
    return "/" + target.partition("://")[2].partition("/")[2]


def _route(http: web.BaseRequest, methods: Methods) -> Route:
    route = methods.get(http.method)
    if route is None:
        allowed = ", ".join(methods)
        raise NotAllowed(http.method, allowed)
    return route


def _refused(error: ApiError) -> web.Response:
    headers = {"Content-Type": _JSON}
    retry_after_ms = error.details.get("retry_after_ms")
    if retry_after_ms is not None:
        headers["Retry-After"] = str(max(1, -(-retry_after_ms // 1_000)))
    if error.reason == "UNAUTHENTICATED":
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, NotAllowed):
        headers["Allow"] = error.allowed
    response = web.Response(status=error.situation.http, headers=headers, body=encode(error.body()))
    if isinstance(error, Unread):
        response.force_close()
    return response
