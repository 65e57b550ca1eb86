"""The worker: runs workflow code by replay and activity code under leases, in threads.

A task is asked for only when there is a slot for it, so that a worker never takes more than it can
run. Whoever completes a task takes what comes next of that run in the answer, and goes on with it
in the same thread. A leader change costs a worker a retry and no line of log.
"""

import logging
import os
import signal
import socket
import ssl
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeVar

from raftflow_sdk.activity import ActivityCode, ActivityInfo, check_code
from raftflow_sdk.completions import Completions
from raftflow_sdk.connection import Connection
from raftflow_sdk.errors import Unavailable
from raftflow_sdk.leases import Heartbeats, Lease
from raftflow_sdk.payloads import Decode, note_decode
from raftflow_sdk.poller import (
    ACTIVITY_TASKS,
    MOST_TASKS,
    WORKFLOW_TASKS,
    Outage,
    Patience,
    Poller,
)
from raftflow_sdk.replay import WorkflowCode, decide
from raftflow_sdk.retry import in_seconds
from raftflow_sdk.slots import Slots, Threads
from raftflow_sdk.trust import File
from raftflow_sdk.version import SDK
from raftflow_sdk.watchdog import Watchdog

logger = logging.getLogger("raftflow_sdk")

_F = TypeVar("_F", bound=Callable[..., object])

# Per kind of task. They ask different nodes, so that one node that hangs does not stop the worker.
_POLLERS = 2
# What comes with an answer goes ahead of what waits in the queue. After so many tasks in a row a
# slot lets the others have their turn.
_IN_A_ROW = 16
# For the answer to a poll that was hung up. A frozen node sends none.
_HANG_UP_PATIENCE = 5.0

# A task and the slots that one of is held for it.
_Next = tuple[dict[str, Any], Slots]


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
        ssl_context: ssl.SSLContext | None = None,
        ca_file: File | None = None,
        cert_file: File | None = None,
        key_file: File | None = None,
        workflow_slots: int = 2,
        activity_slots: int = 8,
    ) -> None:
        if workflow_slots < 1 or activity_slots < 1:
            raise ValueError("a worker needs at least one slot of each kind")
        self.worker_id = worker_id or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._connection = Connection(
            addresses,
            token=token,
            namespace=namespace,
            ssl_context=ssl_context,
            ca_file=ca_file,
            cert_file=cert_file,
            key_file=key_file,
        )
        self._task_queue = {} if task_queue is None else {"task_queue": task_queue}
        self._workflow_slots = Slots(workflow_slots)
        self._activity_slots = Slots(activity_slots)
        self._threads = Threads(
            workflow_slots + activity_slots, "raftflow-slot", self._connection.close
        )
        self._pollers: list[threading.Thread] = []
        self._workflows: dict[str, WorkflowCode] = {}
        self._activities: dict[str, ActivityCode] = {}
        self._completions = Completions(self._connection, self.worker_id, self._task_queue)
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
            self._workflows[name] = WorkflowCode(code, decode)
            note_decode(code, decode)
            return code

        return register

    def activity(self, name: str, *, decode: Decode = "text") -> Callable[[_F], _F]:
        """Register `def code(input)` or `def code(input, info)`, or an `async def`, as an
        activity."""
        _check_name(self._activities, name, "activity")

        def register(code: _F) -> _F:
            self._activities[name] = ActivityCode.of(code, decode, f"activity {name!r}")
            note_decode(code, decode)
            return code

        return register

    @property
    def workflows(self) -> Mapping[str, WorkflowCode]:
        """What is registered, by workflow type; to read."""
        return MappingProxyType(self._workflows)

    @property
    def activities(self) -> Mapping[str, ActivityCode]:
        """What is registered, by activity name; to read."""
        return MappingProxyType(self._activities)

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
            self._poll(WORKFLOW_TASKS, {"types": ",".join(self._workflows)}, self._workflow_slots)
        if self._activities:
            names = {"activities": ",".join(self._activities)}
            self._poll(ACTIVITY_TASKS, names, self._activity_slots)

    def stop(self, timeout: float = 30.0) -> bool:
        """Take no new work, finish what runs; False when something still ran after `timeout`
        seconds. Its lease is not renewed any more."""
        deadline = time.monotonic() + in_seconds("timeout", timeout)
        self._stopping.set()
        self._connection.hang_up()
        self._workflow_slots.close()
        self._activity_slots.close()
        self._heartbeats.hurry()
        self._join(self._pollers, min(deadline, time.monotonic() + _HANG_UP_PATIENCE))
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
        if not self._submit(task, slots):
            self._follow(task, slots)

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
                body["eager"] = self._completions.eager(activities=list(self._activities), max=room)
            found = self._completions.decided(body)
        finally:
            self._activity_slots.release(spare - max(0, len(found) - own))
            if not (own and found):
                slots.release()
        return [(each, self._activity_slots) for each in found]

    def _is_ours(self, command: dict[str, Any]) -> bool:
        named = command.get("step_name") in self._activities
        return named and command["type"] == "schedule_activity" and not command.get("task_queue")

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
                    body["eager"] = self._completions.eager(types=list(self._workflows))
                found = self._completions.performed(body, outcome, lease)
        finally:
            if not found:
                slots.release()
        return [(each, slots) for each in found]


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
