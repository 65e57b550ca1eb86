"""A black-box client: each call goes to one node over one API, once, and is written down."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from typing import Any

import grpc

from raftflow.proto.workflow.v1 import service_pb2_grpc
from tests.jepsen.api import GRPC, JSON, Request
from tests.jepsen.cluster import Cluster
from tests.jepsen.history import INFO, INVOKE, History, Op
from tests.jepsen.outcomes import BROKEN, Outcome, of_answer, of_connection, of_http, of_rpc

DEADLINE_S = 8.0
_CHANNEL_OPTIONS = (
    ("grpc.enable_retries", 0),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.use_local_subchannel_pool", 1),
)


class Channels:
    """One gRPC channel a node, shared by the clients of a run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._channels: dict[str, grpc.Channel] = {}
        self._lock = threading.Lock()

    def stub(self, node: str) -> Any:
        address = self._cluster.grpc(node)
        with self._lock:
            if address not in self._channels:
                self._channels[address] = grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)
            return service_pb2_grpc.WorkflowServiceStub(self._channels[address])

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()


class Client:
    """One process of the history: one call at a time. Nothing is tried twice in here; who wants to
    repeat a call makes another, with the same request id, and it is written down as such."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        channels: Channels,
        *,
        process: str,
        rng: random.Random,
    ) -> None:
        self.cluster = cluster
        self.rng = rng
        self._history = history
        self._channels = channels
        self._name = process
        self._life = 0

    @property
    def process(self) -> str:
        """A client whose call ended `info` lives on under another name: its last call may yet
        happen, beside those that follow."""
        return f"{self._name}.{self._life}" if self._life else self._name

    def call(
        self,
        f: str,
        request: Request,
        *,
        key: str = "",
        value: Any = None,
        node: str = "",
        api: str = "",
        deadline_s: float = DEADLINE_S,
        keep: Any = None,
    ) -> Outcome:
        """`value` is what the history says was asked; `keep` makes what it remembers of an answer,
        when that is less than what the caller gets."""
        node = node or self.rng.choice(self.cluster.ids())
        api = api or self.rng.choice((JSON, GRPC))
        self._note(INVOKE, f, key, value, node, api, "")
        outcome = self.perform(request, node=node, api=api, deadline_s=deadline_s)
        shown = outcome.body if keep is None or not outcome.ok else keep(outcome.body)
        if not outcome.ok:
            shown = None
        self._note(outcome.kind, f, key, shown, node, api, outcome.error)
        if outcome.kind == INFO:
            self._life += 1
        return outcome

    def perform(
        self, request: Request, *, node: str, api: str, deadline_s: float = DEADLINE_S
    ) -> Outcome:
        """The call itself, unwritten."""
        try:
            if api == JSON:
                return self._http(request, self.cluster.http(node), deadline_s + request.wait_s)
            return self._rpc(request, node, deadline_s)
        except (OSError, http.client.HTTPException) as error:
            return of_connection(error)
        except ValueError as error:  # an answer that came whole and makes no sense
            return Outcome(INFO, None, f"{BROKEN} answer: {error}"[:300])

    def pause(self) -> None:
        """Between two tries of the same call."""
        time.sleep(self.rng.uniform(0.1, 0.4))

    def note(
        self,
        kind: str,
        f: str,
        *,
        key: str = "",
        value: Any = None,
        time_ns: int = 0,
        node: str = "",
        api: str = "",
        error: str = "",
    ) -> None:
        """Write down something that `call` cannot: what several calls came to, or began earlier."""
        self._history.record(
            Op(
                self._name,
                f,
                kind,
                key=key,
                value=value,
                time_ns=time_ns,
                node=node,
                api=api,
                error=error,
            )
        )

    def _note(
        self, kind: str, f: str, key: str, value: Any, node: str, api: str, error: str
    ) -> None:
        self._history.record(
            Op(self.process, f, kind, key=key, value=value, node=node, api=api, error=error)
        )

    def _http(self, request: Request, address: str, deadline_s: float) -> Outcome:
        host, _, port = address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=deadline_s)
        until = time.monotonic() + deadline_s
        try:
            body = None if request.body is None else json.dumps(request.body)
            headers = {"Content-Type": "application/json"} if body else {}
            connection.request(request.method, request.path, body, headers)
            if connection.sock is not None:
                connection.sock.settimeout(max(0.05, until - time.monotonic()))
            answer = connection.getresponse()
            raw = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            return of_http(answer.status, _parsed_error(raw))
        if request.raw:
            return of_answer(request.read_json(raw))
        return of_answer(request.read_json(json.loads(raw) if raw else None))

    def _rpc(self, request: Request, node: str, deadline_s: float) -> Outcome:
        call = getattr(self._channels.stub(node), request.rpc)
        # A poll ends a little before its caller's deadline.
        timeout = request.wait_s + 1.0 if request.wait_s else deadline_s
        try:
            answer = call(request.message, timeout=timeout)
        except grpc.RpcError as error:
            return of_rpc(error)
        return of_answer(request.read_rpc(answer))


def _parsed_error(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError:
        body = {"error": raw.decode(errors="replace")}
    return body if isinstance(body, dict) else {"error": str(body)}
