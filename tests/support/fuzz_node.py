"""A real node that is shouted at: runs of every kind to hit, and what must be true afterwards.

The runs of a stage are compared with what they were whenever a call was refused: a refusal changes
nothing.
"""

from __future__ import annotations

import contextlib
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dev_cluster import DevCluster, HttpError, call, dev_cluster, wait_for, workflow_path

TYPE = "Order"
HOUR_MS = 3_600_000
# Only calls change runs here: nobody loses a task to the clock.
CALM = {"RAFTFLOW_LEASE_MS": "1h", "RAFTFLOW_DECISION_TIMEOUT_MS": "1h"}
# A node on a busy machine; what is looked for is a loop that one call blocks for seconds.
MAX_LOOP_LAG_S = 2.0
# Of nothing but a bug: what gRPC, asyncio and our last lines of defence log.
_ALARMS = re.compile(
    r'Traceback|"level": "(error|critical)"|call_failed|never retrieved|exception was never'
)


def timer(sequence: int = 1) -> dict[str, Any]:
    return {
        "type": "start_timer",
        "step_name": "pause",
        "sequence": sequence,
        "delay_ms": 100 * HOUR_MS,
    }


def activity(sequence: int = 1, name: str = "charge") -> dict[str, Any]:
    return {"type": "schedule_activity", "step_name": name, "sequence": sequence, "input": "7"}


@dataclass(slots=True, repr=False)
class Stage:
    """Runs on a task queue of their own."""

    address: str
    name: str
    ids: tuple[str, ...] = ()  # of the runs that it was set with
    facts: dict[str, Any] = field(default_factory=dict)  # workflow id -> what it was
    decisions: dict[str, dict[str, Any]] = field(default_factory=dict)  # held, by workflow id
    activities: dict[str, dict[str, Any]] = field(default_factory=dict)
    spent: dict[str, dict[str, Any]] = field(default_factory=dict)  # decisions held before
    changed: set[str] = field(default_factory=set)  # by calls that were accepted
    held: int = 0

    # ---- setting it ---------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return call(self.address, method, path, body)

    def start(self, kind: str, **more: Any) -> str:
        workflow_id = f"{self.name} {kind}"
        body = {"type": TYPE, "workflow_id": workflow_id, "task_queue": self.name, "input": "in"}
        self.call("POST", "/api/workflows", body | more)
        return workflow_id

    def take_decision(self) -> dict[str, Any]:
        found = self.call("GET", f"/api/workflow-tasks?task_queue={quote(self.name)}")
        assert found is not None, "a task was queued"
        taken: dict[str, Any] = found
        return taken

    def take_activity(self) -> dict[str, Any]:
        found = self.call("GET", f"/api/activity-tasks?task_queue={quote(self.name)}")
        assert found is not None, "an activity was queued"
        taken: dict[str, Any] = found
        return taken

    def decide(self, *commands: dict[str, Any], **more: Any) -> str:
        task = self.take_decision()
        self.complete(task, *commands, **more)
        return str(task["workflow_id"])

    def complete(self, task: dict[str, Any], *commands: dict[str, Any], **more: Any) -> None:
        body = {"workflow_id": task["workflow_id"], "task_token": task["task_token"]}
        self.call("POST", "/api/workflow-tasks/complete", body | {"commands": commands} | more)

    def run(self, kind: str, *commands: dict[str, Any], **more: Any) -> str:
        """A run whose first decision was answered so."""
        workflow_id = self.start(kind)
        assert self.decide(*commands, **more) == workflow_id
        return workflow_id

    def fill(self, held: int) -> None:
        """One run of every status and every wait, and so many held tasks of each kind."""
        self.run("timer", timer())
        self.run("sig/nal ü", {"type": "await_signal", "step_name": "s", "sequence": 1} | GO)
        self.run("activities", activity(), activity(2))
        self.run("parent", CHILD | {"workflow_id": f"{self.name} child"})
        assert self.decide(timer()) == f"{self.name} child"
        paused = self.run("paused", timer())
        self.call("POST", workflow_path(paused, "/pause"), {"reason": "enough"})
        self.run("unknown", replay_error="it differs", replay_error_kind="nondeterminism")
        self.run("completed", {"type": "complete_workflow", "output": "out"})
        self.run("failed", {"type": "fail_workflow", "error": "it broke", "error_type": "Bug"})
        self.run("continued", {"type": "continue_as_new", "input": "again"})
        self.decide(timer())
        for verb in ("terminate", "cancel"):
            self.call("POST", workflow_path(self.run(verb, timer()), f"/{verb}"), {"reason": "so"})
        told = self.run("told to stop", timer())
        self.call("POST", workflow_path(told, "/cancel"), {"graceful": True, "reason": "please"})
        self.decide({"type": "record_marker", "step_name": "c", "sequence": 2, "marker": "cancel"})
        late = self.start("late", execution_timeout_ms=1)
        wait_for("it times out", lambda: self.describe(late)["status"] == "TIMED_OUT")
        for _ in range(held):
            self.hold_decision()
        for _ in range(held):
            self.hold_activity()
        for workflow_id in self.listed():
            self.facts[workflow_id] = self.seen(workflow_id)
        self.ids = tuple(self.facts)

    def hold_decision(self) -> None:
        """One more; of a new run, or of one that was given back."""
        self.held += 1
        self.start(f"decision {self.held}")
        task = self.take_decision()
        self.decisions[task["workflow_id"]] = task
        self.facts[task["workflow_id"]] = self.seen(task["workflow_id"])

    def hold_activity(self) -> None:
        self.held += 1
        workflow_id = f"{self.name} activity {self.held}"
        body = {"type": TYPE, "workflow_id": workflow_id, "task_queue": f"{self.name}'{self.held}"}
        self.call("POST", "/api/workflows", body)
        queue = quote(body["task_queue"])
        task = self.call("GET", f"/api/workflow-tasks?task_queue={queue}")
        self.complete(task, activity())
        task = self.call("GET", f"/api/activity-tasks?task_queue={queue}")
        self.activities[workflow_id] = task
        self.facts[workflow_id] = self.seen(workflow_id)

    def renew(self, workflow_id: str) -> None:
        """A token that was used may be spent: another one takes its place."""
        task = self.decisions.pop(workflow_id, None)
        if task is not None:
            self.spent[workflow_id] = task
            self.hold_decision()
        if self.activities.pop(workflow_id, None) is not None:
            self.hold_activity()

    def listed(self) -> list[str]:
        """Of this stage, newest first; not the child, whose end its parent hears of a little later
        than the caller."""
        path = f"/api/workflows?limit=1000&task_queue={quote(self.name)}"
        listed = self.call("GET", path)["workflows"]
        found = dict.fromkeys(each["workflow_id"] for each in listed)
        return [each for each in found if each != f"{self.name} child"]

    # ---- looking at it ------------------------------------------------------------------------

    def describe(self, workflow_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.call("GET", workflow_path(workflow_id))
        return shown

    def seen(self, workflow_id: str) -> Any:
        """All of a run but what polls may change: whose hands its tasks are in."""
        try:
            shown = self.describe(workflow_id)
        except HttpError as error:
            return error.status
        for moving in ("status", "updated_at", "waiting_on"):
            del shown[moving]
        for step in shown["steps"]:
            for moving in ("attempts", "started_at", "node", "worker_id"):
                step.pop(moving, None)
        return shown

    def accepted(self, workflow_id: str) -> None:
        """A call was not refused: the run goes its own way from now on."""
        self.changed.add(workflow_id)
        self.facts.pop(workflow_id, None)
        self.renew(workflow_id)

    def refused(self, workflow_id: str) -> None:
        self.must_be_same(workflow_id)
        self.renew(workflow_id)

    def must_be_same(self, workflow_id: str) -> None:
        if workflow_id in self.facts:
            seen, was = self.seen(workflow_id), self.facts[workflow_id]
            assert seen == was, f"a refused call changed {workflow_id!r}: {was} is now {seen}"

    def must_be_unchanged(self) -> None:
        """What no accepted call has named is what it was, and its tasks can still be done."""
        for workflow_id in self.facts:
            self.must_be_same(workflow_id)

    def must_be_pending(self) -> None:
        """Held decisions of which no answer was accepted are there to be answered, by their token
        or, given back meanwhile, by that of the next poll."""
        held = self.spent | self.decisions
        waiting = held.keys() - self.changed
        for workflow_id in list(waiting):
            with contextlib.suppress(HttpError):
                self.complete(held[workflow_id], timer())
                waiting.discard(workflow_id)

        def answered() -> bool:
            path = f"/api/workflow-tasks?max=100&task_queue={quote(self.name)}"
            if waiting:
                for task in (self.call("GET", path) or {"tasks": []})["tasks"]:
                    if task["workflow_id"] in waiting:
                        self.complete(task, timer())
                        waiting.discard(task["workflow_id"])
            return not waiting

        wait_for(f"decisions are offered again: {waiting}", answered)


GO = {"signal_name": "go"}
CHILD = {
    "type": "start_child_workflow",
    "step_name": "child",
    "sequence": 1,
    "workflow_type": TYPE,
    "parent_close_policy": "ABANDON",
}


@dataclass(slots=True)
class FuzzNode:
    cluster: DevCluster
    mark: int = 0  # how much of its log has been read
    stages: int = 0

    @property
    def http(self) -> str:
        return self.cluster.http("n1")

    @property
    def grpc(self) -> str:
        return self.cluster.grpc("n1")

    def stage(self, *, held: int = 3) -> Stage:
        self.stages += 1
        made = Stage(self.http, f"stage{self.stages}")
        made.fill(held)
        return made

    def must_be_well(self) -> None:
        """It answers, it knows that it leads, its loop was not blocked, and its log is quiet."""
        health = call(self.http, "GET", "/api/health", timeout=5.0)
        assert (health["status"], health["role"]) == ("ok", "leader")
        assert self.loop_lag_s() < MAX_LOOP_LAG_S
        self.must_be_quiet()

    def must_be_quiet(self) -> None:
        (path,) = self.cluster.directory.glob("*.log")
        said = path.read_bytes()[self.mark :].decode(errors="replace")
        self.mark += len(said.encode())
        alarm = _ALARMS.search(said)
        assert alarm is None, f"the node's log: {said[max(0, alarm.start() - 2_000) :][:6_000]}"

    def loop_lag_s(self) -> float:
        address = self.cluster.entry("n1")["metrics"]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as response:
            text = response.read().decode()
        found = re.search(r"^workflowd_loop_lag_seconds (\S+)", text, re.MULTILINE)
        assert found is not None
        return float(found[1])


@contextlib.contextmanager
def fuzz_node(directory: Path) -> Iterator[FuzzNode]:
    with dev_cluster(directory, nodes=1, environment=CALM) as cluster:
        node = FuzzNode(cluster)
        call(node.http, "POST", "/api/workflow-types", {"workflow_types": [TYPE]})
        yield node
