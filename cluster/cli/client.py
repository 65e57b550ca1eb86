"""A small client of the JSON API over the standard library, with fail-over between nodes.

A call goes to one node after the other until one answers or the deadline is over. Repeating is
safe: every call that changes something carries a request id, which the cluster applies once.
"""

import base64
import http.client
import json
import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from raftflow.cluster.cli.errors import EXIT_UNREACHABLE, CommandError, ServerError, Unreachable
from raftflow.cluster.config import Address
from raftflow_sdk.headers import header_value

DEFAULT_ADDRESS = "127.0.0.1:8233"
CONNECT_TIMEOUT_S = 2.0
# A node waits --leader-wait (5 s) for a leader before it answers 503.
ANSWER_TIMEOUT_S = 10.0
PAUSE_S = 0.2
EVENT_WAIT_S = 5.0
EVENT_PAUSE_S = 0.05
CLOSED_STATUSES = frozenset(
    {"COMPLETED", "FAILED", "TERMINATED", "CANCELLED", "TIMED_OUT", "CONTINUED_AS_NEW"}
)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


class Client:
    """Talks to the first of `addresses` that answers, and stays with it."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        namespace: str = "",
        token: str = "",
        deadline_s: float = 20.0,
        on_delay: Callable[[str], None] | None = None,
    ) -> None:
        # Twice the same address would never count as "refused everywhere".
        self._addresses = list(dict.fromkeys(_host_and_port(each) for each in addresses))
        self._headers = {"Accept": "application/json"}
        if namespace:
            self._headers["X-Workflowd-Namespace"] = header_value("--namespace", namespace)
        if token:
            self._headers["Authorization"] = f"Bearer {header_value('--token', token)}"
        self._deadline_s = deadline_s
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

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        target = path + _query_string(query or {})
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        give_up_at = time.monotonic() + self._deadline_s
        failed: dict[str, Answer | OSError] = {}
        while True:
            outcome = self._attempt(method, target, content)
            if isinstance(outcome, Answer) and outcome.status != 503:
                return _accepted(outcome)
            failed[self._address] = outcome
            self._move_on()
            if time.monotonic() >= give_up_at or self._nobody_listens(failed):
                raise Unreachable(_unreachable(failed))
            if self._current == 0:
                self._tell_once(failed, give_up_at)
                time.sleep(PAUSE_S)

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    @property
    def _address(self) -> str:
        host, port = self._addresses[self._current]
        return f"{host}:{port}"

    def _nobody_listens(self, failed: Mapping[str, Answer | OSError]) -> bool:
        """Connections refused everywhere mean a wrong address, not an election."""
        refused = [why for why in failed.values() if isinstance(why, ConnectionRefusedError)]
        return len(refused) == len(self._addresses)

    def _tell_once(self, failed: Mapping[str, Answer | OSError], give_up_at: float) -> None:
        """Who waits at a terminal hears why, after the first round."""
        if self._on_delay:
            left_s = give_up_at - time.monotonic()
            self._on_delay(f"{_unreachable(failed)}; trying for another {left_s:.0f} s")
            self._on_delay = None

    def _move_on(self) -> None:
        self.close()
        self._current = (self._current + 1) % len(self._addresses)

    def _attempt(self, method: str, target: str, content: bytes | None) -> Answer | OSError:
        headers = dict(self._headers)
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection = self._connect()
            connection.request(method, target, body=content, headers=headers)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        except OSError as error:
            self.close()
            return error
        except http.client.HTTPException as error:
            self.close()
            return OSError(f"not an HTTP answer ({type(error).__name__})")

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            host, port = self._addresses[self._current]
            connection = http.client.HTTPConnection(host, port, timeout=CONNECT_TIMEOUT_S)
            connection.connect()
            assert connection.sock is not None
            connection.sock.settimeout(ANSWER_TIMEOUT_S)
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
    """The run once it is closed; without `run_id` the newest, through every continue-as-new."""
    give_up_at = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
    while True:
        run: dict[str, Any] = client.get(workflow_path(workflow_id), run_id=run_id)
        if on_progress:
            on_progress(run)
        status = run["status"]
        if status in CLOSED_STATUSES and (run_id or status != "CONTINUED_AS_NEW"):
            return run
        left_s = give_up_at - time.monotonic()
        if left_s <= 0:
            raise CommandError(f"{workflow_id} is still {status}", status=EXIT_UNREACHABLE)
        # The node answers at the next event. The pause bounds what a busy run costs it.
        client.request(
            "GET",
            workflow_path(workflow_id, "history"),
            query={
                "run_id": run["run_id"],
                "from": run["history_length"] + 1,
                "limit": 1,
                "wait": int(min(left_s, EVENT_WAIT_S) * 1000),
            },
        )
        time.sleep(EVENT_PAUSE_S)


def _host_and_port(address: str) -> tuple[str, int]:
    text = address.strip().removeprefix("http://").rstrip("/")
    if "://" in text:
        raise ValueError(f"--address: {address!r} is not HOST:PORT or http://HOST:PORT")
    try:
        parsed = Address.parse(f"{text}:8233" if text and ":" not in text else text)
    except ValueError as error:
        raise ValueError(f"--address: {error}") from None
    return ("127.0.0.1" if parsed.is_wildcard else parsed.host), parsed.port


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
    return f"no node answered: {reasons}"


def _problem(outcome: Answer | OSError) -> str:
    if isinstance(outcome, OSError):
        return outcome.strerror or str(outcome) or type(outcome).__name__
    try:
        return str(outcome.json()["error"])
    except (ValueError, KeyError, TypeError):
        return "HTTP 503"
