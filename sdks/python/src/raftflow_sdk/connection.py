"""One way to call the cluster: JSON over keep-alive HTTP, any node of several, until it answers.

Each thread has a channel of its own, which stays with the node that serves it. Threads start at
different nodes, so that the parked polls of a worker do not all hang on one. A node that is gone
or answers 503 is left for the leader it names, else for the next in the list. Every mutating call
of this SDK carries an id or a token, so that sending it again is always safe.
"""

import http.client
import json
import random
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from raftflow_sdk.errors import AlreadyExists, ApiError, NotFound, RaftflowError, Unavailable
from raftflow_sdk.headers import header_value
from raftflow_sdk.retry import backoffs
from raftflow_sdk.trust import File, TlsFiles, Trust

Body = dict[str, Any]

# More than a node's own patience with an election (5 s).
REQUEST_TIMEOUT = 8.0
# A long poll, waiting for an election included, ends within 30 s.
POLL_TIMEOUT = 40.0
CONNECT_TIMEOUT = 3.0
DEFAULT_PORT = 8233
# Rate limit, and what a node or a proxy before it says when it cannot serve.
_TRY_AGAIN = frozenset({429, 502, 503, 504})


def path_id(workflow_id: str) -> str:
    """An id as a path segment: slashes, quotes, spaces and emoji are fine in ids."""
    return quote(workflow_id, safe="")


@dataclass(frozen=True, slots=True)
class Address:
    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        parts = urlsplit(text if "://" in text else f"http://{text}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"an address looks like http://host:port, not {text!r}")
        return cls(parts.scheme, parts.hostname, parts.port or DEFAULT_PORT)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    data: bytes | None
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: Any
    retry_after: float = 0.0
    repeated: bool = False  # the request may have had an answer before, which did not arrive

    def field(self, name: str, default: Any = None) -> Any:
        return self.body.get(name, default) if isinstance(self.body, dict) else default

    def wait_for(self) -> float:
        """Seconds that the node asks us to wait; the field is finer than the header."""
        exact = self.field("retry_after_ms")
        return exact / 1000 if isinstance(exact, int) else self.retry_after


class _Lost(RaftflowError):
    """The exchange broke off; `sent` says whether the node may have seen the request."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class _Channel:
    """The keep-alive connection of one thread, at one address at a time."""

    def __init__(self, addresses: Sequence[Address], turn: int, trust: Trust) -> None:
        self._addresses = addresses
        self._turn = turn
        self._trust = trust
        self._http: http.client.HTTPConnection | None = None
        self.hung_up = False
        self.address = addresses[turn % len(addresses)]

    def exchange(self, request: _Request, timeout: float) -> _Answer:
        """One request, one answer. Raises `_Lost`."""
        kept, sent = self._http, False
        try:
            if kept is not None and kept.sock is not None:
                sent = True
                try:
                    return self._send(kept, request, timeout)
                except ConnectionError:
                    if self.hung_up:
                        raise
                    self.drop()  # closed while idle, most likely: ask again on a fresh one
            fresh = self._connect(timeout)
            repeated, sent = sent, True
            return replace(self._send(fresh, request, timeout), repeated=repeated)
        except (OSError, http.client.HTTPException) as err:
            self.drop()
            raise _Lost(f"{self.address}: {err or type(err).__name__}", sent=sent) from err

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        address, patience = self.address, min(timeout, CONNECT_TIMEOUT)
        if address.scheme == "https":
            self._http = http.client.HTTPSConnection(
                address.host, address.port, timeout=patience, context=self._trust.context()
            )
        else:
            self._http = http.client.HTTPConnection(address.host, address.port, timeout=patience)
        self._http.connect()
        return self._http

    def _send(
        self, connection: http.client.HTTPConnection, request: _Request, timeout: float
    ) -> _Answer:
        connection.sock.settimeout(timeout)
        connection.request(request.method, request.path, request.data, dict(request.headers))
        if self.hung_up:
            self.hang_up()  # it came before there was a request to leave
        response = connection.getresponse()
        raw = response.read()
        if response.status == 204:
            return _Answer(204, None)
        if response.getheader("Content-Type") == "application/octet-stream":
            return _Answer(response.status, raw)
        try:
            body = json.loads(raw)
        except ValueError as err:
            if response.status < 400:
                raise http.client.HTTPException(f"the answer is not JSON: {raw[:80]!r}") from err
            body = {"error": raw[:200].decode(errors="replace")}  # a proxy's page
        return _Answer(response.status, body, _seconds(response.getheader("Retry-After")))

    def move(self, leader: str | None) -> None:
        """Leave the node, for the leader that it named or for the next in the list."""
        self.drop()
        if leader:
            try:
                self.address = Address.parse(f"{self.address.scheme}://{leader}")
                return
            except ValueError:
                pass  # a hint that says nothing; the list does
        self._turn += 1
        self.address = self._addresses[self._turn % len(self._addresses)]

    def hang_up(self) -> None:
        """Stop sending, still listen: the node sees that nobody waits, while an answer that is
        on its way arrives. Called from another thread."""
        self.hung_up = True
        sock = self._http.sock if self._http is not None else None
        if sock is not None:
            try:
                # Of the plain socket: an SSL socket's own would read no more, either.
                socket.socket.shutdown(sock, socket.SHUT_WR)
            except OSError:
                pass  # the exchange is already over

    def drop(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None


class Connection:
    """Calls to a cluster; safe to share between threads."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        token: str | None = None,
        namespace: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        ca_file: File | None = None,
        cert_file: File | None = None,
        key_file: File | None = None,
    ) -> None:
        if isinstance(addresses, str) or not addresses:
            raise ValueError('addresses is a list such as ["http://127.0.0.1:8233"]')
        self._addresses = [Address.parse(text) for text in addresses]
        self._trust = Trust(ssl_context, TlsFiles(ca_file, cert_file, key_file))
        if any(address.scheme == "https" for address in self._addresses):
            self._trust.context()  # what cannot be read is told now
        self._headers: dict[str, str] = {}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {header_value('token', token)}"
        if namespace is not None:
            self._headers["X-Workflowd-Namespace"] = header_value("namespace", namespace)
        self._next_turn = random.randrange(len(self._addresses))
        self._local = threading.local()
        self._lock = threading.Lock()
        self._polling: set[_Channel] = set()
        self._hung_up = False

    def __str__(self) -> str:
        return ", ".join(map(str, self._addresses))

    def call(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = REQUEST_TIMEOUT,
        retry_for: float = 30.0,
    ) -> Any:
        """The JSON of the answer (its bytes, if it is a file), None for 204. Tries until there is
        one or `retry_for` is over.

        Raises `ApiError` when the cluster refuses, `Unavailable` when no node answers.
        """
        return self.settle(
            method,
            path,
            body,
            query=query,
            headers=headers,
            timeout=timeout,
            retry_for=retry_for,
        )[0]

    def settle(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = REQUEST_TIMEOUT,
        retry_for: float = 30.0,
    ) -> tuple[Any, bool]:
        """The same, and whether an earlier try may have had an answer that never arrived."""
        request = self._request(method, path, body, query, headers)
        channel = self._channel()
        deadline = time.monotonic() + retry_for
        pauses = backoffs(0.05, 1.0)
        tried, maybe_applied = 0, False
        while True:
            answer: _Answer | None = None
            try:
                answer = channel.exchange(request, timeout)
            except _Lost as err:
                maybe_applied |= err.sent
                news = str(err)
            else:
                if answer.status not in _TRY_AGAIN:
                    maybe_applied |= answer.repeated
                    return _result(answer, request, maybe_applied), maybe_applied
                maybe_applied |= answer.field("maybe_applied", answer.status in (502, 504))
                news = f"{channel.address}: {answer.status} {answer.field('error', '')}"
            tried += 1
            pause = 0.0
            if answer is None or answer.status != 429:
                channel.move(answer.field("leader_http") if answer else None)
            if tried % len(self._addresses) == 0 or (answer and answer.status == 429):
                # Everyone was asked once: now there is something to wait for.
                pause = max(next(pauses), answer.wait_for() if answer else 0.0)
            if time.monotonic() + pause >= deadline:
                raise Unavailable(
                    f"{method} {path}: no answer ({news}); addresses: {self}",
                    maybe_applied=maybe_applied and method != "GET",
                )
            time.sleep(pause)

    def poll(self, path: str, query: Mapping[str, Any]) -> Any:
        """One long poll at one node; None when nothing came or the connection hangs up."""
        channel = self._channel()
        with self._lock:
            if self._hung_up:
                return None
            self._polling.add(channel)
        try:
            return self.call("GET", path, query=query, timeout=POLL_TIMEOUT, retry_for=0)
        except Unavailable:
            if self._hung_up:
                return None
            raise
        finally:
            with self._lock:
                self._polling.discard(channel)
                if channel.hung_up:
                    channel.hung_up = False
                    channel.drop()

    def hang_up(self) -> None:
        """End all polls, now and later. Other calls go on."""
        with self._lock:
            self._hung_up = True
            for channel in self._polling:
                channel.hang_up()

    def close(self) -> None:
        """Close the connection of the calling thread; a later call opens another."""
        channel: _Channel | None = getattr(self._local, "channel", None)
        if channel is not None:
            channel.drop()
            del self._local.channel

    def _channel(self) -> _Channel:
        channel: _Channel | None = getattr(self._local, "channel", None)
        if channel is None:
            with self._lock:
                turn = self._next_turn
                self._next_turn += 1
            channel = _Channel(self._addresses, turn, self._trust)
            self._local.channel = channel
        return channel

    def _request(
        self,
        method: str,
        path: str,
        body: Body | None,
        query: Mapping[str, Any] | None,
        more_headers: Mapping[str, str] | None,
    ) -> _Request:
        target = f"{path}?{urlencode(query)}" if query else path
        more = {name: header_value(name, text) for name, text in (more_headers or {}).items()}
        headers = {**self._headers, **more}
        if body is None:
            return _Request(method, target, None, headers)
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        headers["Content-Type"] = "application/json"
        return _Request(method, target, data, headers)


def _seconds(header: str | None) -> float:
    """The number in a Retry-After header; a date says no more to us than its absence."""
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        return 0.0


def _result(answer: _Answer, request: _Request, maybe_applied: bool) -> Any:
    if answer.status < 400:
        return answer.body
    kind = ApiError
    if answer.status == 404:
        kind = NotFound
    elif answer.field("code") == "ALREADY_EXISTS":
        kind = AlreadyExists
    message = answer.field("error") or f"HTTP status {answer.status}"
    raise kind(
        f"{request.method} {request.path}: {message}",
        status=answer.status,
        code=answer.field("code", ""),
        reason=answer.field("reason", ""),
        cancelled=bool(answer.field("cancelled", False)),
        run_id=answer.field("run_id", ""),
        maybe_applied=maybe_applied,
    )
