"""The worker: runs workflow code by replay and activity code under leases, in threads.

Each slot is a thread that polls, works and reports, so that a worker never takes more than it can
run. A leader change costs it a retry and no line of log.
"""

import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from raftflow_sdk.activity import ActivityCode, ActivityInfo, check_code, failure
from raftflow_sdk.connection import Connection
from raftflow_sdk.errors import ApiError, Unavailable
from raftflow_sdk.leases import Heartbeats, Lease
from raftflow_sdk.payloads import Decode
from raftflow_sdk.poller import Outage, Patience, Poller
from raftflow_sdk.replay import Workflow, decide
from raftflow_sdk.version import SDK
from raftflow_sdk.watchdog import Watchdog

logger = logging.getLogger("raftflow_sdk")

_F = TypeVar("_F", bound=Callable[..., object])

# The server hands a decision out again after 10 s; a later one would only be refused.
_DECISION_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class _WorkflowCode:
    run: Workflow
    decode: Decode


class Worker:
    """Runs the workflows and activities that are registered with it.

    `run()` blocks until SIGINT, SIGTERM or `stop()`; `start()` returns at once. Stopping takes no
    new work and waits for what is running. It serves one task queue, the usual one unless
    `task_queue` names another.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        token: str | None = None,
        namespace: str | None = None,
        worker_id: str | None = None,
        task_queue: str | None = None,
        workflow_slots: int = 2,
        activity_slots: int = 8,
    ) -> None:
        if workflow_slots < 1 or activity_slots < 1:
            raise ValueError("a worker needs at least one slot of each kind")
        self.worker_id = worker_id or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._connection = Connection(addresses, token=token, namespace=namespace)
        self._task_queue = task_queue
        self._workflow_slots = workflow_slots
        self._activity_slots = activity_slots
        self._workflows: dict[str, _WorkflowCode] = {}
        self._activities: dict[str, ActivityCode] = {}
        self._heartbeats = Heartbeats(self._connection, self.worker_id)
        self._watchdog = Watchdog()
        self._stopping = threading.Event()
        self._outage = Outage()
        self._threads: list[threading.Thread] = []

    def workflow(self, name: str, *, decode: Decode = "text") -> Callable[[_F], _F]:
        """Register `def code(ctx)` or `async def code(ctx)` as a workflow type; `decode` says how
        `ctx.input` is read."""
        _check_name(self._workflows, name, "workflow")

        def register(code: _F) -> _F:
            check_code(code, f"workflow {name!r}", "ctx")
            self._workflows[name] = _WorkflowCode(code, decode)
            return code

        return register

    def activity(self, name: str, *, decode: Decode = "text") -> Callable[[_F], _F]:
        """Register `def code(input)` or `def code(input, info)`, or an `async def`, as an
        activity."""
        _check_name(self._activities, name, "activity")

        def register(code: _F) -> _F:
            self._activities[name] = ActivityCode.of(code, decode, f"activity {name!r}")
            return code

        return register

    def start(self) -> None:
        """Register with the cluster, waiting for it if need be, and begin to poll."""
        if self._threads or self._stopping.is_set():
            raise RuntimeError("a worker starts once")
        if not self._workflows and not self._activities:
            raise RuntimeError("register a workflow or an activity before the worker starts")
        if self._workflows:
            self._register_types()
        self._heartbeats.start()
        self._watchdog.start()
        if self._workflows:
            query = {"types": ",".join(self._workflows), "worker_id": self.worker_id}
            self._poll("/api/workflow-tasks", query, self._decide, self._workflow_slots)
        if self._activities:
            query = {"activities": ",".join(self._activities), "worker_id": self.worker_id}
            self._poll("/api/activity-tasks", query, self._execute, self._activity_slots)

    def stop(self, timeout: float = 30.0) -> bool:
        """Take no new work, finish what runs; False when something still ran at the end."""
        self._stopping.set()
        self._connection.hang_up()
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._heartbeats.stop()
        self._watchdog.stop()
        return not any(thread.is_alive() for thread in self._threads)

    def run(self) -> None:
        """Work until SIGINT, SIGTERM or `stop()`. A second signal ends the process."""
        with _signals(self._stopping):
            self.start()
            self._stopping.wait()
        if not self.stop():
            logger.warning("the worker ends while activities still run; their leases will expire")

    def __enter__(self) -> "Worker":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _register_types(self) -> None:
        body = {
            "workflow_types": list(self._workflows),
            "worker_id": self.worker_id,
            "sdk": SDK,
        }
        patience = Patience(self._stopping, self._outage)
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                self._connection.call("POST", "/api/workflow-types", body, retry_for=1.0)
                return
            except Unavailable as err:
                patience.failed(started, err)

    def _poll(
        self,
        path: str,
        query: dict[str, str],
        handle: Callable[[dict[str, Any]], None],
        slots: int,
    ) -> None:
        if self._task_queue is not None:
            query["task_queue"] = self._task_queue
        for slot in range(slots):
            poller = Poller(
                self._connection,
                path,
                query,
                handle,
                stopping=self._stopping,
                outage=self._outage,
            )
            name = f"raftflow-{path.rsplit('/', 1)[-1]}-{slot}"
            thread = threading.Thread(target=poller.run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _decide(self, task: dict[str, Any]) -> None:
        """Replay one workflow task and send the decision."""
        code = self._workflows[task["workflow_type"]]
        with self._watchdog.watching(task["workflow_id"]):
            body = decide(code.run, task, decode=code.decode)
        if "replay_error" in body:
            logger.error("workflow %s: %s", task["workflow_id"], body["replay_error"])
        err = self._send_decision(body)
        if err is not None and err.status == 413:
            # It would be the same at every replay: end the run with the reason instead.
            failure = {"type": "fail_workflow", "error": str(err), "error_type": "PayloadTooLarge"}
            err = self._send_decision({**body, "commands": [failure]})
        if err is not None:
            logger.error("decision of workflow %s refused: %s", task["workflow_id"], err)

    def _send_decision(self, body: dict[str, Any]) -> ApiError | None:
        """Deliver a decision; a refusal that somebody must know of is returned."""
        try:
            self._connection.call(
                "POST", "/api/workflow-tasks/complete", body, retry_for=_DECISION_PATIENCE
            )
        except Unavailable as err:
            # Whoever gets the task next decides the same.
            logger.info("decision of workflow %s not delivered: %s", body["workflow_id"], err)
        except ApiError as err:
            if err.status not in (404, 409):
                return err
            logger.info("decision of workflow %s is stale: %s", body["workflow_id"], err)
        return None

    def _execute(self, task: dict[str, Any]) -> None:
        """Run one activity under its lease and report its outcome."""
        info = ActivityInfo(task, self._heartbeats.hasten)
        lease = Lease(task, info)
        with self._heartbeats.holding(lease):
            outcome = self._activities[task["step_name"]].execute(task, info)
            body = {
                "workflow_id": task["workflow_id"],
                "step_name": task["step_name"],
                "sequence": task["sequence"],
                "lease_token": task["lease_token"],
            }
            err = self._send_outcome(body | outcome, lease)
            if err is not None and "error" not in outcome and err.status in (400, 413):
                # The step fails with the reason rather than run again until its lease ends.
                outcome = failure(str(err), "ResultRefused", non_retryable=True)
                err = self._send_outcome(body | outcome, lease)
        if err is not None:
            logger.error("outcome of activity %s refused: %s", task["step_name"], err)

    def _send_outcome(self, body: dict[str, Any], lease: Lease) -> ApiError | None:
        """Deliver an outcome until it is taken or the lease is over, which heartbeats put off."""
        while True:
            try:
                self._connection.call(
                    "POST", "/api/activity-tasks/complete", body, retry_for=lease.remaining()
                )
                return None
            except Unavailable as err:
                if lease.remaining() == 0:
                    where = f"{body['step_name']} of {body['workflow_id']}"
                    logger.warning("result of %s lost with its lease: %s", where, err)
                    return None
            except ApiError as err:
                if err.status not in (404, 409):
                    return err
                lease.lose(cancelled=err.cancelled)
                logger.info("result of %s not wanted: %s", body["step_name"], err)
                return None


def _check_name(known: dict[str, Any], name: str, kind: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f'a {kind} is registered by name: @worker.{kind}("NAME")')
    if not name or "," in name:
        raise ValueError(f"a {kind} name is not empty and has no comma, unlike {name!r}")
    if name in known:
        raise ValueError(f"{kind} {name!r} is already registered with this worker")


@contextmanager
def _signals(stopping: threading.Event) -> Iterator[None]:
    """SIGINT and SIGTERM stop the worker, once; only the main thread may install them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(*_: object) -> None:
        stopping.set()
        restore()

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()
