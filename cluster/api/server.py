"""Everything a node serves to the outside: JSON and page, gRPC, metrics."""

from __future__ import annotations

import asyncio
import resource
from dataclasses import replace
from functools import partial

import structlog
from aiohttp import web

from raftflow.cluster.api.admission import Admission
from raftflow.cluster.api.auth import LOOK_MS
from raftflow.cluster.api.grpc_service import GrpcServer
from raftflow.cluster.api.handlers import access, cluster
from raftflow.cluster.api.http_connection import ConnectionServer
from raftflow.cluster.api.http_server import HttpServer, listen
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.watch import Watch
from raftflow.cluster.background import end
from raftflow.cluster.config import Limits
from raftflow.cluster.listener import TlsListener
from raftflow.cluster.metrics import CONTENT_TYPE

log = structlog.get_logger("raftflow.api")

_SCRAPERS = 64
# What log, state, peers and workflows of ours have open, with room to spare.
_OWN_FILES = 512
_MOST_FILES = 1 << 20


class ApiServer:
    """Starts and stops the three listeners. Raises PortInUse, which names the address."""

    def __init__(self, node: NodeServices) -> None:
        self._node = node
        watch = Watch()
        node.replica.subscribe(watch.on_applied)
        node.tokens.follow(node.replica, node.clock)
        node.peer_reports.serve(partial(cluster.own_row, node))
        access.serve_applied(node)
        self._limits = affordable(node.config.limits)
        self._admission = Admission(self._limits, node.metrics)
        self.http = HttpServer(node, watch, self._admission, self._limits)
        self.grpc = GrpcServer(node, watch, self._admission, self._limits)
        self._metrics_web: web.Server | None = None
        self._metrics: asyncio.Server | TlsListener | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        config, tls = self._node.config, self._node.tls
        self._metrics_web = ConnectionServer(
            self._serve_metrics,
            limits=self._limits,
            refused=partial(self._admission.refusals.note, ""),
            connections=_SCRAPERS,
        )
        handshake_ms = self._limits.head_timeout_ms
        self._metrics = await listen(
            self._metrics_web, config.metrics_addr, "metrics", tls, handshake_ms=handshake_ms
        )
        await self.grpc.start(config.grpc_addr.host, config.grpc_addr.port)
        await self.http.start(config.http_addr)
        self._looking = asyncio.create_task(self._look_at_tokens(), name="look-at-tokens")

    async def stop(self) -> None:
        await end(self._looking)
        await asyncio.gather(self.http.stop(), self.grpc.stop())
        if self._metrics is not None and self._metrics_web is not None:
            self._metrics.close()
            self._metrics_web.pre_shutdown()  # those who keep a connection
            await self._metrics_web.shutdown(timeout=0.5)

    async def _look_at_tokens(self) -> None:
        """Time passes without an entry, and a copy of the state comes without effects."""
        while True:
            await asyncio.sleep(LOOK_MS / 1_000)
            self._node.tokens.look()

    async def _serve_metrics(self, request: web.BaseRequest) -> web.Response:
        try:
            caller = self._node.tokens.bearer(request.headers.get("Authorization", ""))
            caller.permit("Metrics")
        except ApiError as error:
            self._admission.refusals.note("Metrics", error, request.remote or "")
            return web.Response(status=error.situation.http, text=f"{error.message}\n")
        if request.raw_path.partition("?")[0] != "/metrics":
            return web.Response(status=404, text="metrics are at /metrics\n")
        return web.Response(
            body=self._node.metrics.render(), headers={"Content-Type": CONTENT_TYPE}
        )


def affordable(limits: Limits) -> Limits:
    """The limits, with no more connections than this process may have open beside its own files:
    without one for the log the node would have to end. The system's bound is raised first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else hard
    needed = 2 * limits.connections + _OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = min(needed, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft < needed:
            fitting = max(16, (soft - _OWN_FILES) // 2)
            log.warning(
                "connections_bounded",
                wanted=limits.connections,
                allowed=fitting,
                open_files=soft,
                remedy=f"ulimit -n {needed} (LimitNOFILE= of a systemd unit)",
            )
            return replace(limits, connections=fitting)
    return limits
