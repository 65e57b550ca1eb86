"""The client: start, observe and steer runs."""

import json
import ssl
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from raftflow_sdk import payloads
from raftflow_sdk.connection import POLL_TIMEOUT, Connection, path_id
from raftflow_sdk.errors import RunFailed
from raftflow_sdk.payloads import Decode
from raftflow_sdk.retry import in_seconds, to_ms
from raftflow_sdk.trust import File

IdReusePolicy = Literal["REJECT_DUPLICATE", "ALLOW_DUPLICATE", "ALLOW_DUPLICATE_FAILED_ONLY"]
Scalar = str | int | float | bool
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
    `retry_for` seconds, so that it takes effect once, whichever node answers. All durations are
    seconds.

    Every call raises `ApiError` when the cluster refuses it (`NotFound`, `AlreadyExists`), and
    `Unavailable` when no node answered in time. It blocks; in asyncio code call it by
    `await asyncio.to_thread(client.start, "Order")`. Threads may share one client.
    """

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
        retry_for: float = 30.0,
    ) -> None:
        self._connection = Connection(
            addresses,
            token=token,
            namespace=namespace,
            ssl_context=ssl_context,
            ca_file=ca_file,
            cert_file=cert_file,
            key_file=key_file,
        )
        self._retry_for = in_seconds("retry_for", retry_for)

    def start(
        self,
        workflow_type: str,
        *,
        input: object = None,
        workflow_id: str | None = None,
        task_queue: str | None = None,
        execution_timeout: float | None = None,
        id_reuse_policy: IdReusePolicy | None = None,
        id_conflict_policy: IdConflictPolicy | None = None,
        search_attributes: Mapping[str, Scalar] | None = None,
        memo: Mapping[str, Any] | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
        request_id: str | None = None,
    ) -> Started:
        """Start a run; without `workflow_id` the server makes one.

        Runs are found by `search_attributes`; a `memo` is only shown. `traceparent` and
        `tracestate` (W3C) make the run a child span.
        """
        body = _start(
            workflow_type,
            input,
            workflow_id=workflow_id,
            task_queue=task_queue,
            execution_timeout_ms=_ms(execution_timeout),
            id_reuse_policy=id_reuse_policy,
            id_conflict_policy=id_conflict_policy,
            search_attributes=search_attributes and dict(search_attributes),
            memo=memo and dict(memo),
        )
        return self._start(body, request_id, _given(traceparent=traceparent, tracestate=tracestate))

    def signal_with_start(
        self,
        workflow_type: str,
        workflow_id: str,
        signal_name: str,
        payload: object = "",
        *,
        input: object = None,
        task_queue: str | None = None,
        execution_timeout: float | None = None,
        id_reuse_policy: IdReusePolicy | None = None,
        search_attributes: Mapping[str, Scalar] | None = None,
        memo: Mapping[str, Any] | None = None,
        request_id: str | None = None,
    ) -> Started:
        """Give the signal to the open run of that id, or start one that gets it, in one step."""
        body = _start(
            workflow_type,
            input,
            workflow_id=workflow_id,
            task_queue=task_queue,
            execution_timeout_ms=_ms(execution_timeout),
            id_reuse_policy=id_reuse_policy,
            search_attributes=search_attributes and dict(search_attributes),
            memo=memo and dict(memo),
        )
        body["signal"] = {"name": signal_name}
        payloads.put(body["signal"], "payload", payload)
        return self._start(body, request_id, {})

    def _start(
        self, body: dict[str, Any], request_id: str | None, headers: Mapping[str, str]
    ) -> Started:
        answer = self._send("POST", "/api/workflows", body, request_id, headers=headers)
        return Started(answer["workflow_id"], answer["run_id"], answer["started"])

    def signal(
        self,
        workflow_id: str,
        name: str,
        payload: object = "",
        *,
        run_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """Deliver a signal, once. It is buffered until the run waits for it."""
        body: dict[str, Any] = {"name": name, **_given(run_id=run_id)}
        payloads.put(body, "payload", payload)
        self._send("POST", f"{_path(workflow_id)}/signal", body, request_id)

    def cancel(
        self,
        workflow_id: str,
        reason: str = "",
        *,
        graceful: bool = False,
        run_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """End the run CANCELLED at once and tell its workers. With `graceful` its code is told
        instead, which may compensate before it ends."""
        more = {"graceful": True} if graceful else {}
        self._steer(workflow_id, "cancel", request_id, reason=reason, run_id=run_id, **more)

    def terminate(
        self,
        workflow_id: str,
        reason: str = "",
        *,
        run_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """End the run TERMINATED at once; its code is not told."""
        self._steer(workflow_id, "terminate", request_id, reason=reason, run_id=run_id)

    def pause(
        self,
        workflow_id: str,
        reason: str = "",
        *,
        run_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """Decide nothing in the run until it is unpaused. Activities in flight go on."""
        self._steer(workflow_id, "pause", request_id, reason=reason, run_id=run_id)

    def unpause(
        self, workflow_id: str, *, run_id: str | None = None, request_id: str | None = None
    ) -> None:
        """Let a paused run go on; also one parked as UNKNOWN or at a limit, to try again."""
        self._steer(workflow_id, "unpause", request_id, run_id=run_id)

    def delete(
        self, workflow_id: str, *, run_id: str | None = None, request_id: str | None = None
    ) -> int:
        """Forget a closed run, or all runs of the id; how many."""
        query = _given(run_id=run_id, request_id=request_id or uuid.uuid4().hex)
        answer = self._connection.call(
            "DELETE", _path(workflow_id), query=query, retry_for=self._retry_for
        )
        return int(answer["runs"])

    def describe(self, workflow_id: str, *, run_id: str | None = None) -> dict[str, Any]:
        """The state of a run: of the newest one of its id, or of `run_id`."""
        return self._get(_path(workflow_id), run_id=run_id)

    def list(
        self, *, attributes: Mapping[str, Scalar] | None = None, **filters: str | int
    ) -> dict[str, Any]:
        """One page of runs, newest first: `{total, workflows: [...]}`.

        `attributes` are search attributes that the runs must have. The other filters are those of
        the HTTP API: status, q, type, task_queue, started_after, started_before, limit, offset,
        cursor.
        """
        for name, value in (attributes or {}).items():
            filters[f"attr.{name}"] = value if isinstance(value, str) else json.dumps(value)
        return self._get("/api/workflows", **filters)

    def history(self, workflow_id: str, *, run_id: str | None = None) -> dict[str, Any]:
        """The events of a run, all of them."""
        path, first = f"{_path(workflow_id)}/history", 1
        history = self._get(path, run_id=run_id)
        page = history
        while page["events"] and page["events"][-1]["event_id"] < page["history_length"]:
            first = page["events"][-1]["event_id"] + 1
            page = self._get(path, run_id=history["run_id"], **{"from": first})
            history["events"] += page["events"]
            history.update(status=page["status"], history_length=page["history_length"])
        return history

    def export(self, workflow_id: str, *, run_id: str | None = None) -> bytes:
        """The `.history` file of a run: every event, byte for byte, with its checksum."""
        query = _given(run_id=run_id, format="binary")
        path = f"{_path(workflow_id)}/history"
        exported: bytes = self._connection.call("GET", path, query=query, retry_for=self._retry_for)
        return exported

    def runs(self, workflow_id: str) -> Sequence[dict[str, Any]]:
        """All runs of an id, newest first."""
        page = self._get(f"{_path(workflow_id)}/runs")
        runs: list[dict[str, Any]] = page["runs"]
        while cursor := page.get("next_cursor"):
            page = self._get(f"{_path(workflow_id)}/runs", cursor=cursor)
            runs += page["runs"]
        return runs

    def namespaces(self) -> Sequence[dict[str, Any]]:
        """All namespaces."""
        found: Sequence[dict[str, Any]] = self._get("/api/namespaces")["namespaces"]
        return found

    def create_namespace(
        self, name: str, *, retention: float = 0, request_id: str | None = None
    ) -> None:
        """Create a namespace, which keeps closed runs for `retention` seconds (0: for ever)."""
        body = {"name": name, "retention_ms": to_ms("retention", retention)}
        self._send("POST", "/api/namespaces", body, request_id)

    def update_namespace(
        self, name: str, *, retention: float, request_id: str | None = None
    ) -> None:
        """Keep closed runs of a namespace for `retention` seconds (0: for ever)."""
        body = {"retention_ms": to_ms("retention", retention)}
        self._send("PUT", f"/api/namespaces/{path_id(name)}", body, request_id)

    def set_namespace_quota(
        self,
        name: str,
        *,
        max_open_runs: int = 0,
        starts_per_second: int = 0,
        request_id: str | None = None,
    ) -> None:
        """Bound what is started in a namespace from outside (0: no bound), in place of the quota
        before. What is beyond it is refused as QUOTA_EXCEEDED, and tried again as any 429 is."""
        body = {"max_open_runs": max_open_runs, "starts_per_second": starts_per_second}
        self._send("PUT", f"/api/namespaces/{path_id(name)}/quota", body, request_id)

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
        deadline = None if wait is None else time.monotonic() + in_seconds("wait", wait)
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
                raise RunFailed(
                    workflow_id,
                    run["run_id"],
                    status,
                    run.get("error") or "",
                    error_type=run.get("error_type") or "",
                )
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"workflow {workflow_id!r} is {status} after {wait} seconds")

    def _wait_for_end(self, workflow_id: str, run_id: str | None, wait: float) -> None:
        """A long poll for an event that no history has: it ends when the run does."""
        query: dict[str, Any] = {"from": _NO_SUCH_EVENT, "wait": to_ms("wait", wait)}
        if run_id is not None:
            query["run_id"] = run_id
        self._connection.call(
            "GET",
            f"{_path(workflow_id)}/history",
            query=query,
            timeout=POLL_TIMEOUT,
            retry_for=self._retry_for,
        )

    def close(self) -> None:
        """Close the connection of the calling thread."""
        self._connection.close()

    def _steer(self, workflow_id: str, verb: str, request_id: str | None, **body: Any) -> None:
        self._send("POST", f"{_path(workflow_id)}/{verb}", _given(**body), request_id)

    def _send(
        self,
        method: str,
        path: str,
        body: dict[str, Any],
        request_id: str | None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        body["request_id"] = request_id or uuid.uuid4().hex
        answer: dict[str, Any] = self._connection.call(
            method, path, body, headers=headers, retry_for=self._retry_for
        )
        return answer

    def _get(self, path: str, **query: str | int | None) -> dict[str, Any]:
        answer: dict[str, Any] = self._connection.call(
            "GET", path, query=_given(**query), retry_for=self._retry_for
        )
        return answer


def _path(workflow_id: str) -> str:
    return f"/api/workflows/{path_id(workflow_id)}"


def _ms(execution_timeout: float | None) -> int | None:
    return None if execution_timeout is None else to_ms("execution_timeout", execution_timeout)


def _given(**fields: Any) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _start(workflow_type: str, input: object, **optional: Any) -> dict[str, Any]:
    body = {"type": workflow_type, **_given(**optional)}
    if input is not None:
        payloads.put(body, "input", input)
    return body
