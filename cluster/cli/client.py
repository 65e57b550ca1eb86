"""A small client of the JSON API over the standard library, with fail-over between nodes.

A call goes to one node after the other until one answers or the deadline is over. Repeating is
safe: every call that changes something carries a request id, which the cluster applies once.
"""

import base64
import copy
import http.client
import json
import math
import ssl
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from raftflow.cluster.cli.errors import EXIT_UNREACHABLE, CommandError, ServerError, Unreachable
from raftflow.cluster.config import Address
from raftflow_sdk.headers import header_value

DEFAULT_ADDRESS = "127.0.0.1:8233"
CONNECT_TIMEOUT_S = 2.0
# A node waits --leader-wait (5 s) for a leader before it answers 503.
ANSWER_TIMEOUT_S = 10.0
# Until a download begins, and between two pieces of it: a node may have much to prepare.
DOWNLOAD_TIMEOUT_S = 600.0
PIECE_BYTES = 1 << 20
# One answer "no leader" and one more: longer, nobody at a terminal waits without a sign.
DEADLINE_S = 6.0
PAUSE_S = 0.2
EVENT_WAIT_S = 5.0
EVENT_PAUSE_S = 0.05
MOST_SERVERS = 16
NAMESPACE_HEADER = "X-Workflowd-Namespace"
# 502 and 504 say a proxy, of the node behind it.
UNSERVED = frozenset({502, 503, 504})
CLOSED_STATUSES = frozenset(
    {"COMPLETED", "FAILED", "TERMINATED", "CANCELLED", "TIMED_OUT", "CONTINUED_AS_NEW"}
)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes
    unread: http.client.HTTPResponse | None = None  # of a download, in the place of the content

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass(frozen=True, slots=True)
class _Server:
    host: str
    port: int
    tls: bool

    def __str__(self) -> str:
        return f"{'https://' if self.tls else ''}{self.host}:{self.port}"


class Client:
    """Talks to the first of `addresses` that answers, and stays with it."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        namespace: str = "",
        token: str = "",
        ca_file: Path | None = None,
        cert_file: Path | None = None,
        key_file: Path | None = None,
        deadline_s: float = DEADLINE_S,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        on_delay: Callable[[str], None] | None = None,
    ) -> None:
        # Twice the same address would never count as "refused everywhere".
        self._servers = list(dict.fromkeys(_server(each) for each in addresses))
        # Built once, and only where it is needed: to load what the system trusts takes a moment.
        speaks_tls = any(each.tls for each in self._servers)
        self._tls = _tls(ca_file, cert_file, key_file) if speaks_tls else None
        self.namespace = namespace
        self._headers = {"Accept": "application/json"}
        if namespace:
            self._headers[NAMESPACE_HEADER] = header_value("--namespace", namespace)
        if token:
            self._headers["Authorization"] = f"Bearer {header_value('--token', token)}"
        self._deadline_s = deadline_s
        self._connect_timeout_s = connect_timeout_s
        self._answer_timeout_s = answer_timeout_s
        self._on_delay = on_delay
        self._current = 0
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str, **query: Any) -> Any:
        return self.request("GET", path, query=query).json()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """A call that changes something: it carries one request id however often it is sent."""
        return self.request("POST", path, body={"request_id": uuid.uuid4().hex} | dict(body)).json()

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        return self.request("PUT", path, body={"request_id": uuid.uuid4().hex} | dict(body)).json()

    def delete(self, path: str, **query: Any) -> Any:
        return self.request("DELETE", path, query={"request_id": uuid.uuid4().hex} | query).json()

    def download(self, path: str) -> tuple[Mapping[str, str], Iterator[bytes]]:
        """Headers and content of an answer that is read as it comes. What breaks off on the way
        raises CommandError; the other nodes are asked only until one has begun."""
        self.close()
        answer = self.request("GET", path, whole=False)
        assert answer.unread is not None
        return answer.headers, self._pieces(answer.unread)

    def _pieces(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        try:
            while piece := response.read(PIECE_BYTES):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            what = str(error) or type(error).__name__
            raise CommandError(
                f"{self._servers[self._current]} broke off: {what}", status=EXIT_UNREACHABLE
            ) from None
        finally:
            self.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        whole: bool = True,
    ) -> Answer:
        target = path + _query_string(query or {})
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        give_up_at = time.monotonic() + self._deadline_s
        failed: dict[str, Answer | OSError] = {}
        doubtful = False
        while True:
            outcome = self._attempt(method, target, content, whole)
            if isinstance(outcome, Answer) and outcome.status not in UNSERVED:
                return _accepted(outcome)
            failed[str(self._servers[self._current])] = outcome
            doubtful = doubtful or _may_be_applied(outcome)
            self._move_on()
            over = time.monotonic() >= give_up_at and self._heard_enough(failed)
            if over or self._hopeless(failed):
                raise Unreachable(_unreachable(failed), maybe_applied=doubtful)
            if self._current == 0 or isinstance(outcome, Answer):
                self._tell_once(failed)
            if self._current == 0:
                time.sleep(PAUSE_S)

    def learn(self, addresses: Iterable[str]) -> None:
        """Where else the cluster is reached, should the node that was named go: as the nodes say
        it themselves, so it is tried behind the given ones."""
        tls = self._servers[0].tls
        for address in addresses:
            try:
                server = _server(f"https://{address}" if tls else address)
            except ValueError:
                continue  # what another release says may be anything
            if server not in self._servers and len(self._servers) < MOST_SERVERS:
                self._servers.append(server)

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def within(self, namespace: str) -> "Client":
        """The same calls, in another namespace."""
        other = self._copy()
        other.namespace = namespace
        other._headers[NAMESPACE_HEADER] = header_value("namespace", namespace)
        return other

    def health_of(self, address: str, *, patience_s: float) -> dict[str, Any] | None:
        """What the node at this address says of itself, while it repairs itself too; None when it
        says nothing."""
        with self._copy() as other:
            tls = self._servers[0].tls
            other._servers = [_server(f"https://{address}" if tls else address)]
            other._current = 0
            other._connect_timeout_s = other._answer_timeout_s = patience_s
            answer = other._attempt("GET", "/api/health", None, whole=True)
        if isinstance(answer, OSError):
            return None
        try:
            said = answer.json()
        except ValueError:
            return None
        return said if isinstance(said, dict) and "status" in said else None

    def _copy(self) -> "Client":
        """With a connection of its own."""
        other = copy.copy(self)
        other._headers, other._servers = dict(self._headers), list(self._servers)
        other._connection = None
        return other

    def _heard_enough(self, failed: Mapping[str, Answer | OSError]) -> bool:
        """A node that hangs may use up the time; the others are asked all the same. But each that
        answers has waited for a leader itself, and two that found none speak for the rest."""
        answered = [why for why in failed.values() if isinstance(why, Answer)]
        return len(failed) == len(self._servers) or len(answered) >= 2

    def _hopeless(self, failed: Mapping[str, Answer | OSError]) -> bool:
        """Connections refused, or a stranger's certificate, everywhere mean a wrong address or a
        missing --ca-file, not an election."""
        wrong = (ConnectionRefusedError, ssl.SSLCertVerificationError)
        return [isinstance(why, wrong) for why in failed.values()].count(True) == len(self._servers)

    def _tell_once(self, failed: Mapping[str, Answer | OSError]) -> None:
        """Who waits at a terminal hears why."""
        if self._on_delay:
            self._on_delay(f"{_unreachable(failed)}; retrying")
            self._on_delay = None

    def _move_on(self) -> None:
        self.close()
        self._current = (self._current + 1) % len(self._servers)

    def _attempt(
        self, method: str, target: str, content: bytes | None, whole: bool
    ) -> Answer | OSError:
        headers = dict(self._headers)
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection = self._connect(self._answer_timeout_s if whole else DOWNLOAD_TIMEOUT_S)
            connection.request(method, target, body=content, headers=headers)
            response = connection.getresponse()
            headers = dict(response.getheaders())
            if not whole and response.status < 400:
                return Answer(response.status, headers, b"", response)
            return Answer(response.status, headers, response.read())
        except OSError as error:
            self.close()
            return error
        except http.client.HTTPException as error:
            self.close()
            return OSError(f"not an HTTP answer ({type(error).__name__})")

    def _connect(self, answer_timeout_s: float) -> http.client.HTTPConnection:
        if self._connection is None:
            server, connect_s = self._servers[self._current], self._connect_timeout_s
            connection: http.client.HTTPConnection
            if server.tls:
                connection = http.client.HTTPSConnection(
                    server.host, server.port, timeout=connect_s, context=self._tls
                )
            else:
                connection = http.client.HTTPConnection(server.host, server.port, timeout=connect_s)
            connection.connect()
            assert connection.sock is not None
            connection.sock.settimeout(answer_timeout_s)
            self._connection = connection
        return self._connection


def workflow_path(workflow_id: str, *rest: str) -> str:
    """An id may hold slashes, quotes, spaces and emoji: all are percent-encoded. So are the ids `.`
    and `..`, which proxies would take for steps of the path."""
    encoded = quote(workflow_id, safe="")
    if workflow_id in (".", ".."):
        encoded = encoded.replace(".", "%2E")
    return "/".join(["/api/workflows", encoded, *rest])


def payload_field(name: str, content: bytes) -> dict[str, str]:
    """Text where the bytes are UTF-8, base64 where they are not: the same bytes arrive."""
    try:
        return {name: content.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode("ascii")}


def payload_bytes(document: Mapping[str, Any], name: str) -> bytes:
    if document.get("payload_hidden") and document.get(name, "") is None:
        raise CommandError(f"{name} is hidden: this token does not see payloads")
    encoded = document.get(f"{name}_base64")
    if encoded is not None:
        return base64.b64decode(encoded)
    return str(document.get(name) or "").encode("utf-8")


def wait_until_closed(
    client: Client,
    workflow_id: str,
    *,
    run_id: str = "",
    timeout_s: float | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """The run once it is closed; without `run_id` the newest, through every continue-as-new. A run
    that is closed already has no progress to tell of."""
    for looked, run in enumerate(followed(client, workflow_id, run_id, timeout_s=timeout_s)):
        over = is_over(run, run_id)
        if on_progress and (looked or not over):
            on_progress(run)
        if over:
            break
    return run


def followed(
    client: Client, workflow_id: str, run_id: str = "", *, timeout_s: float | None = None
) -> Iterator[dict[str, Any]]:
    """The run whenever something happened to it, the last time closed."""
    give_up_at = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
    while True:
        run: dict[str, Any] = client.get(workflow_path(workflow_id), run_id=run_id)
        yield run
        if is_over(run, run_id):
            return
        left_s = give_up_at - time.monotonic()
        if left_s <= 0:
            raise CommandError(f"{workflow_id} is still {run['status']}", status=EXIT_UNREACHABLE)
        # The pause bounds what a busy run costs the node.
        wait_s = min(left_s, EVENT_WAIT_S)
        events_after(client, workflow_id, run, run["history_length"], wait_s=wait_s, limit=1)
        time.sleep(EVENT_PAUSE_S)


def events_after(
    client: Client,
    workflow_id: str,
    run: Mapping[str, Any],
    seen: int,
    *,
    wait_s: float,
    limit: int,
) -> list[dict[str, Any]]:
    """Events behind the one `seen`; the node answers at the next one, or when the wait is over."""
    query = {"run_id": run["run_id"], "from": seen + 1, "limit": limit, "wait": int(wait_s * 1000)}
    answer = client.request("GET", workflow_path(workflow_id, "history"), query=query)
    found: list[dict[str, Any]] = answer.json()["events"] if answer.status == HTTPStatus.OK else []
    return found


def is_over(run: Mapping[str, Any], run_id: str) -> bool:
    """Whether nothing more comes; who named no run follows it through each continue-as-new."""
    return run["status"] in CLOSED_STATUSES and bool(run_id or run["status"] != "CONTINUED_AS_NEW")


def _server(address: str) -> _Server:
    tls = address.strip().startswith("https://")
    text = address.strip().removeprefix("https://" if tls else "http://").rstrip("/")
    if "://" in text:
        raise ValueError(f"--address: {address!r} is not HOST:PORT, http://... or https://...")
    usual_port = 443 if tls else 8233
    try:
        parsed = Address.parse(f"{text}:{usual_port}" if text and ":" not in text else text)
    except ValueError as error:
        raise ValueError(f"--address: {error}") from None
    return _Server("127.0.0.1" if parsed.is_wildcard else parsed.host, parsed.port, tls)


def _tls(ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> ssl.SSLContext:
    """Trusts what the system trusts, or only who the file names; shows a certificate if told to."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise ValueError(f"--ca-file {ca_file}: {reason}") from None
    if key_file and not cert_file:
        raise ValueError("--key-file goes with --cert-file")
    if cert_file:
        try:
            context.load_cert_chain(cert_file, key_file)
        except OSError as error:
            reason = "not a pair" if isinstance(error, ssl.SSLError) else error.strerror
            raise ValueError(f"--cert-file {cert_file}, --key-file {key_file}: {reason}") from None
    return context


def _query_string(query: Mapping[str, Any]) -> str:
    given = {key: value for key, value in query.items() if value not in (None, "")}
    return "?" + urlencode(given, quote_via=quote) if given else ""


def _accepted(answer: Answer) -> Answer:
    if answer.status < 400:
        return answer
    try:
        body = answer.json()
    except ValueError:
        body = {}
    raise ServerError(answer.status, body if isinstance(body, dict) else {})


def _unreachable(failed: Mapping[str, Answer | OSError]) -> str:
    reasons = "; ".join(f"{each}: {_problem(why)}" for each, why in failed.items())
    if any(isinstance(why, Answer) for why in failed.values()):
        return f"no node could serve the call: {reasons}"
    if all(isinstance(why, ConnectionRefusedError) for why in failed.values()):
        reasons += " (does a node run there? Name nodes with --address or RAFTFLOW_ADDRESS)"
    if any(isinstance(why, ssl.SSLCertVerificationError) for why in failed.values()):
        reasons += " (a private CA is named with --ca-file or RAFTFLOW_CA_FILE)"
    hung_up = [each for each, why in failed.items() if _hung_up(why)]
    if any(not each.startswith("https://") for each in hung_up):
        reasons += " (a node that speaks TLS is named https://HOST:PORT)"
    elif hung_up:  # in TLS 1.3 a client without a certificate learns of it behind the handshake
        reasons += " (where nodes ask for a certificate, --cert-file and --key-file show one)"
    return f"no node answered: {reasons}"


def _hung_up(why: Answer | OSError) -> bool:
    """The other side ended the talk. Which of these says so is a race between its alert, its end
    of the connection and what is still being sent to it."""
    if isinstance(why, ssl.SSLError) and "CERTIFICATE_REQUIRED" in str(why):
        return True
    return isinstance(why, ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError) and (
        not isinstance(why, ConnectionRefusedError)
    )


def _may_be_applied(outcome: Answer | OSError) -> bool:
    """What any attempt left in the air: the last one may well say that it proposed nothing."""
    if isinstance(outcome, OSError):
        return False
    try:
        return outcome.json().get("maybe_applied") is True
    except (ValueError, AttributeError):
        return False


def _problem(outcome: Answer | OSError) -> str:
    if isinstance(outcome, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {outcome.verify_message}"
    if isinstance(outcome, OSError):
        return outcome.strerror or str(outcome) or type(outcome).__name__
    try:
        return str(outcome.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {outcome.status}"
