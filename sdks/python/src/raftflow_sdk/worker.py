"""The worker: runs workflow code by replay and activity code under leases, in threads.

A task is asked for only when there is a slot for it, so that a worker never takes more than it can
run. Whoever completes a task takes what comes next of that run in the answer, and goes on with it
in the same thread. A leader change costs a worker a retry and no line of log.
"""

import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from raftflow_sdk.activity import ActivityCode, ActivityInfo, check_code, failure
from raftflow_sdk.connection import Connection
from raftflow_sdk.errors import ApiError, Unavailable
from raftflow_sdk.leases import Heartbeats, Lease
from raftflow_sdk.payloads import Decode
from raftflow_sdk.poller import MOST_TASKS, Outage, Patience, Poller, tasks_of
from raftflow_sdk.replay import Workflow, decide
from raftflow_sdk.slots import Slots, Threads
from raftflow_sdk.version import SDK
from raftflow_sdk.watchdog import Watchdog

logger = logging.getLogger("raftflow_sdk")

_F = TypeVar("_F", bound=Callable[..., object])

# The server hands a decision out again after 10 s; a later one would only be refused.
_DECISION_PATIENCE = 10.0
# Per kind of task. They ask different nodes, so that one node that hangs does not stop the worker.
_POLLERS = 2
# What comes with an answer goes ahead of what waits in the queue. After so many tasks in a row a
# slot lets the others have their turn.
_IN_A_ROW = 16
_DECISIONS, _ACTIVITIES = "/api/workflow-tasks", "/api/activity-tasks"


# A task and the slots that one of is held for it.
_Next = tuple[dict[str, Any], Slots]


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
        self._task_queue = {} if task_queue is None else {"task_queue": task_queue}
        self._workflow_slots = Slots(workflow_slots)
        self._activity_slots = Slots(activity_slots)
        self._threads = Threads(
            workflow_slots + activity_slots, "raftflow-slot", self._connection.close
        )
        self._pollers: list[threading.Thread] = []
        self._workflows: dict[str, _WorkflowCode] = {}
        self._activities: dict[str, ActivityCode] = {}
        self._heartbeats = Heartbeats(self._connection, self.worker_id)
        self._watchdog = Watchdog()
        self._stopping = threading.Event()
        self._outage = Outage()

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
        if self._pollers or self._stopping.is_set():
            raise RuntimeError("a worker starts once")
        if not self._workflows and not self._activities:
            raise RuntimeError("register a workflow or an activity before the worker starts")
        if self._workflows:
            self._register_types()
        self._heartbeats.start()
        self._watchdog.start()
        self._threads.start()
        if self._workflows:
            self._poll(_DECISIONS, {"types": ",".join(self._workflows)}, self._workflow_slots)
        if self._activities:
            names = {"activities": ",".join(self._activities)}
            self._poll(_ACTIVITIES, names, self._activity_slots)

    def stop(self, timeout: float = 30.0) -> bool:
        """Take no new work, finish what runs; False when something still ran at the end."""
        self._stopping.set()
        self._connection.hang_up()
        self._workflow_slots.close()
        self._activity_slots.close()
        deadline = time.monotonic() + timeout
        self._join(self._pollers, deadline)
        self._threads.close()
        finished = self._join(self._threads.threads, deadline)
        self._heartbeats.stop()
        self._watchdog.stop()
        return finished

    def _join(self, threads: Sequence[threading.Thread], deadline: float) -> bool:
        started = [thread for thread in threads if thread.ident is not None]
        for thread in started:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in started)

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

    def _poll(self, path: str, names: dict[str, str], slots: Slots) -> None:
        query = {**names, "worker_id": self.worker_id, **self._task_queue}
        for number in range(min(_POLLERS, slots.total)):
            poller = Poller(
                self._connection,
                path,
                query,
                slots,
                lambda task: self._take(task, slots),
                stopping=self._stopping,
                outage=self._outage,
            )
            name = f"raftflow-{path.rsplit('/', 1)[-1]}-{number}"
            thread = threading.Thread(target=poller.run, name=name, daemon=True)
            self._pollers.append(thread)
            thread.start()

    def _take(self, task: dict[str, Any], slots: Slots) -> None:
        self._submit(task, slots)

    def _submit(self, task: dict[str, Any], slots: Slots) -> bool:
        return self._threads.submit(lambda: self._follow(task, slots))

    def _follow(self, task: dict[str, Any], slots: Slots) -> None:
        """Run a task in its slot, then what its completion hands out, one after the other."""
        todo = deque([(task, slots)])
        done = 0
        while todo:
            task, slots = todo.popleft()
            done += 1
            eager = done < _IN_A_ROW and not self._stopping.is_set()
            run = self._decide if "task_token" in task else self._execute
            found = run(task, slots, eager)
            if found:
                todo.append(found.pop(0))
            # A worker that stops has no other thread for the rest.
            todo.extend(each for each in found if not self._submit(*each))

    def _decide(self, task: dict[str, Any], slots: Slots, eager: bool) -> list[_Next]:
        """Replay one workflow task and send the decision. Afterwards its slot is free, or goes on
        with the first of what is returned."""
        spare, found = 0, []
        own = 1 if slots is self._activity_slots else 0
        try:
            code = self._workflows[task["workflow_type"]]
            with self._watchdog.watching(task["workflow_id"]):
                body = decide(code.run, task, decode=code.decode)
            if "replay_error" in body:
                logger.error("workflow %s: %s", task["workflow_id"], body["replay_error"])
            wanted = sum(self._is_ours(each) for each in body.get("commands") or ()) if eager else 0
            spare = self._activity_slots.reserve(min(wanted, MOST_TASKS) - own)
            if room := min(wanted, own + spare):
                body["eager"] = self._eager(activities=list(self._activities), max=room)
            found = self._deliver_decision(body)
        finally:
            self._activity_slots.release(spare - max(0, len(found) - own))
            if not (own and found):
                slots.release()
        return [(each, self._activity_slots) for each in found]

    def _deliver_decision(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """What came with the answer; a refusal ends in a line of log, or with the run."""
        found, err = self._send_decision(body)
        if err is not None and err.status == 413:
            # It would be the same at every replay: end the run with the reason instead.
            failure = {"type": "fail_workflow", "error": str(err), "error_type": "PayloadTooLarge"}
            _, err = self._send_decision({**body, "commands": [failure], "eager": None})
        if err is not None:
            logger.error("decision of workflow %s refused: %s", body["workflow_id"], err)
        return found

    def _is_ours(self, command: dict[str, Any]) -> bool:
        named = command.get("step_name") in self._activities
        return named and command["type"] == "schedule_activity" and not command.get("task_queue")

    def _eager(self, **names: Any) -> dict[str, Any]:
        """What a completion takes in its answer."""
        request_id = uuid.uuid4().hex
        return {**names, **self._task_queue, "worker_id": self.worker_id, "request_id": request_id}

    def _send_decision(self, body: dict[str, Any]) -> tuple[list[dict[str, Any]], ApiError | None]:
        """Deliver a decision: what came with the answer, and a refusal that somebody must know
        of."""
        try:
            return self._complete(_DECISIONS, body, _DECISION_PATIENCE), None
        except Unavailable as err:
            # Whoever gets the task next decides the same.
            logger.info("decision of workflow %s not delivered: %s", body["workflow_id"], err)
        except ApiError as err:
            if err.status not in (404, 409):
                return [], err
            logger.info("decision of workflow %s is stale: %s", body["workflow_id"], err)
        return [], None

    def _complete(
        self, path: str, body: dict[str, Any], patience: float, *, again: bool = False
    ) -> list[dict[str, Any]]:
        """Report a task as done, and take what its ``eager`` asks for. ``again``: an earlier call
        was given up."""
        answer, broken = self._connection.settle(
            "POST", f"{path}/complete", body, retry_for=patience
        )
        found = list(answer.get("activity_tasks", ()))
        if "workflow_task" in answer:
            found.append(answer["workflow_task"])
        if (broken or again) and not found and body.get("eager"):
            ask = _ACTIVITIES if path == _DECISIONS else _DECISIONS
            found = self._ask_again(ask, body["eager"])
        return found

    def _ask_again(self, path: str, eager: dict[str, Any]) -> list[dict[str, Any]]:
        """An answer was lost, and tasks may have been in it. A poll of the same name gives them
        back, to us or to others; without it they would sit out their leases."""
        query = {name: ",".join(it) if isinstance(it, list) else it for name, it in eager.items()}
        try:
            return tasks_of(self._connection.poll(path, query))
        except (Unavailable, ApiError) as err:
            logger.info("what a lost answer held comes back with its lease: %s", err)
            return []

    def _execute(self, task: dict[str, Any], slots: Slots, eager: bool) -> list[_Next]:
        """Run one activity under its lease and report its outcome. Afterwards its slot is free, or
        goes on with the workflow task that is returned."""
        found: list[dict[str, Any]] = []
        try:
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
                if eager and self._workflows:
                    body["eager"] = self._eager(types=list(self._workflows))
                found, err = self._send_outcome(body | outcome, lease)
                if err is not None and "error" not in outcome and err.status in (400, 413):
                    # The step fails with the reason rather than run again until its lease ends.
                    outcome = failure(str(err), "ResultRefused", non_retryable=True)
                    found, err = self._send_outcome(body | outcome, lease)
            if err is not None:
                logger.error("outcome of activity %s refused: %s", task["step_name"], err)
        finally:
            if not found:
                slots.release()
        return [(each, slots) for each in found]

    def _send_outcome(
        self, body: dict[str, Any], lease: Lease
    ) -> tuple[list[dict[str, Any]], ApiError | None]:
        """Deliver an outcome until it is taken or the lease is over, which heartbeats put off."""
        again = False
        while True:
            try:
                return self._complete(_ACTIVITIES, body, lease.remaining(), again=again), None
            except Unavailable as err:
                again = True
                if lease.remaining() == 0:
                    where = f"{body['step_name']} of {body['workflow_id']}"
                    logger.warning("result of %s lost with its lease: %s", where, err)
                    return [], None
            except ApiError as err:
                if err.status not in (404, 409):
                    return [], err
                lease.lose(cancelled=err.cancelled)
                logger.info("result of %s not wanted: %s", body["step_name"], err)
                return [], None


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
