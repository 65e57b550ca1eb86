"""A small in-memory cluster that follows the documented worker protocol; `faulty_node` serves it.

Faithful where a worker can notice (tokens, leases, attempts, retries, 409s), blind elsewhere.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote


class Refused(Exception):
    def __init__(self, status: int, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": message, **fields}


@dataclass
class FakeRun:
    workflow_id: str
    run_id: str
    workflow_type: str
    input: dict[str, Any]
    status: str = "WAITING"
    closing: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    signals: list[dict[str, Any]] = field(default_factory=list)
    history_length: int = 1
    needs_decision: bool = True
    decision_out: str = ""
    replay_error: str = ""
    answered: dict[str, Any] = field(default_factory=dict)


class FakeCluster:
    """The state and its rules; every method holds the lock."""

    def __init__(self, *, lease_ms: int = 30_000, park: float = 1.0) -> None:
        self.changed = threading.Condition()
        self.lease_ms = lease_ms
        self.park = park
        self.runs: dict[str, FakeRun] = {}
        self.types: set[str] = set()
        self.leases: dict[str, tuple[FakeRun, dict[str, Any]]] = {}
        self.outcomes: dict[str, dict[str, Any]] = {}
        self.requests: dict[str, Any] = {}
        self.calls: list[tuple[str, str, Any]] = []
        self.heartbeats: list[dict[str, Any]] = []
        self.refusals: deque[tuple[str, Refused]] = deque()
        self.handed: dict[str, list[tuple[FakeRun, dict[str, Any] | None]]] = {}
        self._serial = 0

    # -- what tests do directly --

    def start(self, workflow_type: str, workflow_id: str, text: str = "") -> FakeRun:
        with self.changed:
            run = FakeRun(workflow_id, self._next("run"), workflow_type, {"input": text})
            self.runs[workflow_id] = run
            self.changed.notify_all()
            return run

    def signal(self, workflow_id: str, name: str, payload: str) -> None:
        with self.changed:
            run = self.runs[workflow_id]
            run.signals.append({"name": name, "payload": payload})
            self._match_signals(run)
            self.changed.notify_all()

    def lose_leases(self, *, cancelled: bool = False) -> None:
        """Every lease out is void from now on."""
        with self.changed:
            for token, (run, step) in list(self.leases.items()):
                del self.leases[token]
                step["token"] = "gone-cancelled" if cancelled else "gone"
                if cancelled:
                    run.status = "CANCELLED"

    def wait(self, condition: Any, timeout: float = 10.0) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, timeout), "the condition never held"

    def wait_closed(self, run: FakeRun, timeout: float = 10.0) -> str:
        self.wait(lambda: run.status not in ("WAITING", "RUNNING"), timeout)
        return run.status

    # -- the protocol --

    def serve(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Any,
        *,
        gone: Callable[[], bool] = lambda: False,
    ) -> Any:
        """`gone` says that nobody waits for the answer any more: a poll then takes no task."""
        with self.changed:
            self.calls.append((method, path, body))
            self.changed.notify_all()
            for position, (prefix, refusal) in enumerate(self.refusals):
                if path.startswith(prefix):
                    del self.refusals[position]
                    raise refusal
            request_id = body.get("request_id") if body else None
            if request_id in self.requests:
                return self.requests[request_id]
            answer = self._route(method, path, query, body, gone)
            if request_id:
                self.requests[request_id] = answer
            self.changed.notify_all()
            return answer

    def _route(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Any,
        gone: Callable[[], bool],
    ) -> Any:
        match method, path.removeprefix("/api/").split("/"):
            case "GET", ["health"]:
                return {"status": "ok"}
            case "POST", ["workflow-types"]:
                self.types.update(body["workflow_types"])
                return {}
            case "GET", ["workflow-tasks"]:
                types = query["types"].split(",")
                return self._tasks(lambda: self._decision(types), query, gone)
            case "POST", ["workflow-tasks", "complete"]:
                return self._decided(body)
            case "GET", ["activity-tasks"]:
                names = query["activities"].split(",")
                return self._tasks(lambda: self._activity(names), query, gone)
            case "POST", ["activity-tasks", "complete"]:
                return self._completed(body)
            case "POST", ["activity-tasks", "heartbeat"]:
                return self._heartbeat(body)
            case "POST", ["workflows"]:
                return self._started(body)
            case "GET", ["workflows"]:
                return {"total": len(self.runs), "workflows": [], "query": query}
            case verb, ["workflows", workflow_id, *rest]:
                return self._of_run(verb, unquote(workflow_id), rest, query | (body or {}), gone)
        raise Refused(404, "no such path", code="NOT_FOUND")

    def _of_run(
        self, verb: str, workflow_id: str, rest: list[str], body: Any, gone: Callable[[], bool]
    ) -> Any:
        run = self.runs.get(workflow_id)
        if run is None:
            raise Refused(404, f"workflow {workflow_id!r} does not exist", code="NOT_FOUND")
        match verb, rest:
            case "GET", []:
                steps = [{k: v for k, v in step.items() if k != "token"} for step in run.steps]
                head = {"workflow_id": workflow_id, "run_id": run.run_id, "status": run.status}
                return {**head, **run.closing, "steps": steps}
            case "GET", ["runs"]:
                return {"runs": [{"run_id": run.run_id, "status": run.status}]}
            case "GET", ["history"]:
                return self._poll(lambda: self._ended(run), gone, int(body.get("wait", 0)) / 1000)
            case "POST", ["signal"]:
                text = {k: v for k, v in body.items() if k.startswith("payload")}
                run.signals.append({"name": body["name"], **text})
                self._match_signals(run)
                return {"status": "delivered"}
            case "POST", [("terminate" | "cancel") as how]:
                run.status = {"terminate": "TERMINATED", "cancel": "CANCELLED"}[how]
                return {"status": run.status.lower()}
        raise Refused(404, "no such path", code="NOT_FOUND")

    def _started(self, body: Any) -> Any:
        workflow_id = body.get("workflow_id") or self._next(body["type"])
        if workflow_id in self.runs:
            holder = self.runs[workflow_id].run_id
            raise Refused(409, "id in use", code="ALREADY_EXISTS", run_id=holder)
        text = {k: v for k, v in body.items() if k.startswith("input")}
        run = FakeRun(workflow_id, self._next("run"), body["type"], text)
        self.runs[workflow_id] = run
        return {"workflow_id": workflow_id, "run_id": run.run_id, "started": True}

    def _ended(self, run: FakeRun) -> Any:
        return None if run.status in ("WAITING", "RUNNING") else {"events": []}

    def _poll(
        self, take: Callable[[], Any], gone: Callable[[], bool], park: float | None = None
    ) -> Any:
        deadline = time.monotonic() + (self.park if park is None else park)
        while not gone():
            task = take()
            if task is not None or time.monotonic() >= deadline:
                return task
            # In slices: due timers and backoffs are found by looking.
            self.changed.wait(0.02)
        return None

    def _tasks(
        self, take: Callable[[], Any], query: dict[str, str], gone: Callable[[], bool]
    ) -> Any:
        for run, step in self.handed.pop(query.get("request_id", ""), ()):
            self._give_back(run, step)
        first = self._poll(take, gone, min(self.park, int(query.get("wait", 25_000)) / 1000))
        most = int(query.get("max", 1))
        if first is None or most == 1:
            return first
        return {"tasks": [first, *self._more(take, most - 1)]}

    def _more(self, take: Callable[[], Any], most: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < most and (task := take()) is not None:
            found.append(task)
        return found

    def _decision(self, types: list[str], only: FakeRun | None = None) -> Any:
        for run in self.runs.values() if only is None else (only,):
            self._fire(run)
            open_ = run.status in ("WAITING", "RUNNING")
            if open_ and run.needs_decision and not run.decision_out and run.workflow_type in types:
                run.needs_decision = False
                run.decision_out = self._next("decision")
                steps = [{k: v for k, v in s.items() if k in _PUBLIC} for s in run.steps]
                return {
                    "workflow_id": run.workflow_id,
                    "run_id": run.run_id,
                    "workflow_type": run.workflow_type,
                    "task_token": run.decision_out,
                    "history_length": run.history_length,
                    "steps": steps,
                    "signals": run.signals,
                    **run.input,
                }
        return None

    def _decided(self, body: Any) -> Any:
        run = self.runs[body["workflow_id"]]
        if body["task_token"] in run.answered:
            return {}
        if body["task_token"] != run.decision_out:
            raise Refused(409, "decision is stale", code="ABORTED")
        run.answered[body["task_token"]] = body
        run.decision_out = ""
        if body.get("replay_error"):
            unknown = body.get("replay_error_kind") == "nondeterminism"
            run.status = "UNKNOWN" if unknown else "FAILED"
            run.replay_error = body["replay_error"]
            return {}
        for command in body["commands"]:
            self._apply(run, command)
        eager = body.get("eager")
        if not eager:
            return {}
        names = eager["activities"]
        found = self._more(lambda: self._activity(names, run), eager["max"])
        steps = [run.steps[task["sequence"] - 1] for task in found]
        self.handed[eager["request_id"]] = [(run, step) for step in steps]
        return {"activity_tasks": found}

    def _apply(self, run: FakeRun, command: dict[str, Any]) -> None:
        kind = command["type"]
        run.history_length += 1
        if kind in ("complete_workflow", "fail_workflow"):
            run.status = "COMPLETED" if kind == "complete_workflow" else "FAILED"
            run.closing = {k: v for k, v in command.items() if k != "type"}
            return
        assert command["sequence"] == len(run.steps) + 1, "sequences continue without gaps"
        kinds = {"schedule_activity": "ACTIVITY", "start_timer": "TIMER", "await_signal": "SIGNAL"}
        step = {"kind": kinds[kind], "status": "SCHEDULED", "attempts": 0, "due": 0.0, **command}
        step["due"] = time.monotonic() + command.get("delay_ms", 0) / 1000
        run.steps.append(step)
        self._match_signals(run)

    def _match_signals(self, run: FakeRun) -> None:
        for step in run.steps:
            if step["kind"] != "SIGNAL" or step["status"] != "SCHEDULED":
                continue
            for signal in run.signals:
                if signal["name"] == step["signal_name"]:
                    run.signals.remove(signal)
                    payload = {k: v for k, v in signal.items() if k != "name"}
                    renamed = {k.replace("payload", "output"): v for k, v in payload.items()}
                    self._resolve(run, step, "COMPLETED", renamed)
                    break

    def _fire(self, run: FakeRun) -> None:
        for step in run.steps:
            due = step["kind"] == "TIMER" and step["status"] == "SCHEDULED"
            if due and step["due"] <= time.monotonic():
                self._resolve(run, step, "COMPLETED", {})

    def _resolve(
        self, run: FakeRun, step: dict[str, Any], status: str, outcome: dict[str, Any]
    ) -> None:
        run.history_length += 1
        step.update(outcome, status=status, resolved_event_id=run.history_length)
        run.needs_decision = True

    def _activity(self, names: list[str], only: FakeRun | None = None) -> Any:
        for run in self.runs.values() if only is None else (only,):
            if run.status not in ("WAITING", "RUNNING"):
                continue
            for step in run.steps:
                ready = step["kind"] == "ACTIVITY" and step["status"] == "SCHEDULED"
                if not ready or step["step_name"] not in names or step.get("token"):
                    continue
                if step["due"] > time.monotonic():
                    continue
                step["attempts"] += 1
                step["token"] = self._next("lease")
                self.leases[step["token"]] = (run, step)
                return {
                    "workflow_id": run.workflow_id,
                    "run_id": run.run_id,
                    "step_name": step["step_name"],
                    "sequence": step["sequence"],
                    "attempt": step["attempts"],
                    "lease_token": step["token"],
                    "lease_duration_ms": self.lease_ms,
                    **{k: v for k, v in step.items() if k.startswith("input")},
                }
        return None

    def _held(self, token: str) -> tuple[FakeRun, dict[str, Any]]:
        if token not in self.leases:
            cancelled = any(
                step.get("token") == "gone-cancelled"
                for r in self.runs.values()
                for step in r.steps
            )
            raise Refused(
                409, "lease lost", code="FAILED_PRECONDITION", reason="LEASE_LOST",
                cancelled=cancelled,
            )  # fmt: skip
        return self.leases[token]

    def _completed(self, body: Any) -> Any:
        token = body["lease_token"]
        if token in self.outcomes:
            if self.outcomes[token] == body:
                return {}
            raise Refused(409, "another outcome is recorded", code="ABORTED")
        run, step = self._held(token)
        del self.leases[token]
        self.outcomes[token] = body
        step["token"] = ""
        if "error" not in body:
            output = {k: v for k, v in body.items() if k.startswith("output")}
            self._resolve(run, step, "COMPLETED", output)
            return self._next_decision(run, body)
        policy = step.get("retry_policy", {"max_attempts": 1, "initial_backoff_ms": 0})
        if step["attempts"] < policy["max_attempts"] and not body.get("non_retryable"):
            step["due"] = time.monotonic() + policy["initial_backoff_ms"] / 1000
            return {}
        failure = {k: v for k, v in body.items() if k in ("error", "error_type", "non_retryable")}
        self._resolve(run, step, "FAILED", failure)
        return self._next_decision(run, body)

    def _next_decision(self, run: FakeRun, body: Any) -> Any:
        """For a completion that takes the run's next workflow task in its answer."""
        eager = body.get("eager")
        task = self._decision(eager["types"], run) if eager else None
        if task is None:
            return {}
        self.handed[eager["request_id"]] = [(run, None)]
        return {"workflow_task": task}

    def _give_back(self, run: FakeRun, step: dict[str, Any] | None) -> None:
        """The caller asks again: what its lost answer held goes back."""
        if step is None:
            run.decision_out, run.needs_decision = "", True
        elif self.leases.pop(step["token"], None) is not None:
            step["token"] = ""
            step["attempts"] -= 1

    def _heartbeat(self, body: Any) -> Any:
        self.heartbeats.append(body)
        self._held(body["lease_token"])
        return {}

    def _next(self, what: str) -> str:
        self._serial += 1
        return f"{what}-{self._serial}"


_PUBLIC = (
    "step_name",
    "sequence",
    "kind",
    "status",
    "attempts",
    "output",
    "output_base64",
    "error",
    "error_type",
    "non_retryable",
    "resolved_event_id",
)
