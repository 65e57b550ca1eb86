"""The client: start, observe and steer runs."""

import ssl
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from raftflow_sdk import payloads
from raftflow_sdk.connection import POLL_TIMEOUT, Connection, path_id
from raftflow_sdk.errors import RunFailed
from raftflow_sdk.payloads import Decode
from raftflow_sdk.retry import to_ms

IdReusePolicy = Literal["REJECT_DUPLICATE", "ALLOW_DUPLICATE", "ALLOW_DUPLICATE_FAILED_ONLY"]
IdConflictPolicy = Literal["FAIL", "USE_EXISTING"]

_LONG_POLL = 25.0
_NO_SUCH_EVENT = 10**9
_OPEN = frozenset({"RUNNING", "WAITING", "PAUSED", "UNKNOWN"})


@dataclass(frozen=True, slots=True)
class Started:
    """A run; `started` is False when the id's holder was there before."""

    workflow_id: str
    run_id: str
    started: bool


class Client:
    """Calls any node of the cluster. Each call is retried with the same `request_id` for
    `retry_for` seconds, so that it takes effect once, whichever node answers."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        token: str | None = None,
        namespace: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        retry_for: float = 30.0,
    ) -> None:
        self._connection = Connection(
            addresses, token=token, namespace=namespace, ssl_context=ssl_context
        )
        self._retry_for = retry_for

    def start(
        self,
        workflow_type: str,
        *,
        input: object = None,
        workflow_id: str | None = None,
        execution_timeout: float | None = None,
        id_reuse_policy: IdReusePolicy | None = None,
        id_conflict_policy: IdConflictPolicy | None = None,
        request_id: str | None = None,
    ) -> Started:
        """Start a run; without `workflow_id` the server makes one."""
        body: dict[str, Any] = {"type": workflow_type}
        optional = {
            "workflow_id": workflow_id,
            "execution_timeout_ms": None if execution_timeout is None else to_ms(execution_timeout),
            "id_reuse_policy": id_reuse_policy,
            "id_conflict_policy": id_conflict_policy,
        }
        body.update({name: value for name, value in optional.items() if value is not None})
        if input is not None:
            payloads.put(body, "input", input)
        answer = self._post("/api/workflows", body, request_id)
        return Started(answer["workflow_id"], answer["run_id"], answer["started"])

    def signal(
        self, workflow_id: str, name: str, payload: object = "", *, request_id: str | None = None
    ) -> None:
        """Deliver a signal, once. It is buffered until the run waits for it."""
        body: dict[str, Any] = {"name": name}
        payloads.put(body, "payload", payload)
        self._post(f"/api/workflows/{path_id(workflow_id)}/signal", body, request_id)

    def cancel(self, workflow_id: str, reason: str = "", *, request_id: str | None = None) -> None:
        """End the run CANCELLED at once and tell its workers."""
        self._post(f"/api/workflows/{path_id(workflow_id)}/cancel", {"reason": reason}, request_id)

    def terminate(
        self, workflow_id: str, reason: str = "", *, request_id: str | None = None
    ) -> None:
        """End the run TERMINATED at once."""
        path = f"/api/workflows/{path_id(workflow_id)}/terminate"
        self._post(path, {"reason": reason}, request_id)

    def describe(self, workflow_id: str, *, run_id: str | None = None) -> dict[str, Any]:
        """The state of a run: of the newest one of its id, or of `run_id`."""
        return self._get(f"/api/workflows/{path_id(workflow_id)}", run_id=run_id)

    def list(self, **filters: str | int) -> dict[str, Any]:
        """One page of runs, newest first: `{total, workflows: [...]}`. Filters as in the HTTP
        API: status, q, type, started_after, started_before, limit, offset, cursor."""
        return self._get("/api/workflows", **filters)

    def history(self, workflow_id: str, *, run_id: str | None = None) -> dict[str, Any]:
        """The events of a run."""
        return self._get(f"/api/workflows/{path_id(workflow_id)}/history", run_id=run_id)

    def runs(self, workflow_id: str) -> Sequence[dict[str, Any]]:
        """All runs of an id, newest first."""
        runs: Sequence[dict[str, Any]] = self._get(f"/api/workflows/{path_id(workflow_id)}/runs")[
            "runs"
        ]
        return runs

    def health(self) -> dict[str, Any]:
        """What the node that answers says of itself."""
        return self._get("/api/health")

    def result(
        self,
        workflow_id: str,
        *,
        run_id: str | None = None,
        wait: float | None = None,
        decode: Decode = "text",
    ) -> Any:
        """Wait for the end of a run and return its output; at most `wait` seconds.

        Raises `RunFailed` when it ended otherwise than COMPLETED, `TimeoutError` when it did not
        end in time.
        """
        deadline = None if wait is None else time.monotonic() + wait
        while True:
            left = _LONG_POLL if deadline is None else deadline - time.monotonic()
            if left > 0:
                self._wait_for_end(workflow_id, run_id, min(left, _LONG_POLL))
            run = self.describe(workflow_id, run_id=run_id)
            status = run["status"]
            if status == "COMPLETED":
                return payloads.decode(payloads.get(run, "output"), decode)
            # A chain goes on in a new run of the same id, unless one run was asked for.
            if status not in _OPEN and (run_id is not None or status != "CONTINUED_AS_NEW"):
                raise RunFailed(workflow_id, run["run_id"], status, run.get("error") or "")
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"workflow {workflow_id!r} is {status} after {wait} seconds")

    def _wait_for_end(self, workflow_id: str, run_id: str | None, wait: float) -> None:
        """A long poll for an event that no history has: it ends when the run does."""
        query: dict[str, Any] = {"from": _NO_SUCH_EVENT, "wait": to_ms(wait)}
        if run_id is not None:
            query["run_id"] = run_id
        self._connection.call(
            "GET",
            f"/api/workflows/{path_id(workflow_id)}/history",
            query=query,
            timeout=POLL_TIMEOUT,
            retry_for=self._retry_for,
        )

    def close(self) -> None:
        """Close the connection of the calling thread."""
        self._connection.close()

    def _post(self, path: str, body: dict[str, Any], request_id: str | None) -> dict[str, Any]:
        body["request_id"] = request_id or uuid.uuid4().hex
        answer: dict[str, Any] = self._connection.call(
            "POST", path, body, retry_for=self._retry_for
        )
        return answer

    def _get(self, path: str, **query: str | int | None) -> dict[str, Any]:
        given = {name: value for name, value in query.items() if value is not None}
        answer: dict[str, Any] = self._connection.call(
            "GET", path, query=given, retry_for=self._retry_for
        )
        return answer
