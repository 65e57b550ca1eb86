"""The conformance suite beside a real cluster: real workers, real time, nodes that are killed."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from conformance import Json, Scenario, behaviour_of, outcome_of, worker_of
from dev_cluster import DevCluster, HttpError, call, wait_for, workflow_path

from raftflow_sdk import ActivityInfo, Worker

# An activity that "hangs" for longer than any scenario lasts has been forgotten.
_HANGS_S = 120.0
_PATIENCE_S = 90.0


class Fleet:
    """One worker for all scenarios. Whose activity it runs is in the workflow id:
    `IMPLEMENTATION/TOPIC/NAME/ID`."""

    def __init__(self, cluster: DevCluster, implementation: str, played: list[Scenario]) -> None:
        self.cluster = cluster
        self.addresses = [address.removeprefix("http://") for address in cluster.addresses()]
        self.scenarios = {f"{implementation}/{each.name}": each for each in played}
        self.variants = {
            prefix: {"Change": each.document.get("variant", "1")}
            for prefix, each in self.scenarios.items()
        }
        self.executions: Counter[tuple[str, str]] = Counter()
        self.told: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self.worker = self._worker(implementation)

    def _worker(self, implementation: str) -> Worker:
        worker = worker_of(
            implementation,
            lambda name, workflow_id: self.variants[prefix_of(workflow_id)][name],
            addresses=self.cluster.addresses(),
            workflow_slots=4,
            activity_slots=40,
        )
        manned = {
            name
            for each in self.scenarios.values()
            for name, spec in each.activities.items()
            if not spec.get("nobody")
        }
        for name in sorted(manned):
            worker.activity(name, decode="bytes")(self._perform)
        return worker

    def _perform(self, value: bytes, info: ActivityInfo) -> object:
        name, workflow_id = info.step_name, info.workflow_id
        spec = self.scenarios[prefix_of(workflow_id)].activities[name]
        behaviour = behaviour_of(spec, info.attempt, value)
        with self._lock:
            self.executions[workflow_id, name] += 1
        if "heartbeat" in behaviour:
            info.heartbeat(behaviour["heartbeat"])
        waits = _HANGS_S if behaviour.get("hangs") else behaviour.get("takes_ms", 0) / 1_000
        if waits and info.lease_lost.wait(waits) and info.cancelled.is_set():
            with self._lock:
                self.told.add((workflow_id, name))
        if behaviour.get("hangs"):
            return "nobody hears this"
        outcome = outcome_of(behaviour, value, info)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def call(self, method: str, path: str, body: Json | None = None) -> Json | None:
        """Ask node after node until one answers; None is 404."""
        if body is not None:
            body = {"request_id": uuid.uuid4().hex, **body}
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            for address in self.addresses:
                try:
                    answer: Json = call(address, method, path, body, timeout=10.0)
                    return answer
                except HttpError as error:
                    if error.status == 404:
                        return None
                    if error.status != 503:
                        raise
                except OSError:
                    pass
            assert time.monotonic() < deadline, f"{method} {path}: no node answers"
            time.sleep(0.1)


def prefix_of(workflow_id: str) -> str:
    return "/".join(workflow_id.split("/")[:3])


@dataclass
class OnCluster:
    """One scenario on the cluster."""

    fleet: Fleet
    prefix: str
    ids: list[str] = field(default_factory=list)

    def start(self, body: Json) -> None:
        self.ids.append(body["workflow_id"])
        self._post("", {**body, "workflow_id": self._id(body["workflow_id"])})

    def signal(self, workflow_id: str, body: Json) -> None:
        if "request_id" in body:
            body = {**body, "request_id": f"{self.prefix}/{body['request_id']}"}
        self._post(workflow_path(self._id(workflow_id), "/signal"), body)

    def cancel(self, workflow_id: str, reason: str, *, graceful: bool) -> None:
        body = {"reason": reason, "graceful": graceful}
        self._post(workflow_path(self._id(workflow_id), "/cancel"), body)

    def terminate(self, workflow_id: str, reason: str) -> None:
        self._post(workflow_path(self._id(workflow_id), "/terminate"), {"reason": reason})

    def deploy(self, variants: Mapping[str, str]) -> None:
        self.fleet.variants[self.prefix].update(variants)

    def until(self, condition: Callable[[], bool]) -> None:
        wait_for("the condition holds", lambda: condition() or time.sleep(0.2), timeout=_PATIENCE_S)

    def describe(self, workflow_id: str) -> Json | None:
        return self.fleet.call("GET", workflow_path(self._id(workflow_id)))

    def runs(self, workflow_id: str) -> list[str]:
        answer = self.fleet.call("GET", workflow_path(self._id(workflow_id), "/runs"))
        return [] if answer is None else [run["status"] for run in answer["runs"]]

    def executions(self, workflow_id: str, activity: str) -> int:
        return self.fleet.executions[self._id(workflow_id), activity]

    def told_cancelled(self, workflow_id: str, activity: str) -> bool:
        return (self._id(workflow_id), activity) in self.fleet.told

    def story(self) -> Json:
        """All that the cluster knows of this scenario's runs, for whoever reads of its failure."""
        return {
            each: {
                "run": self.describe(each),
                "history": self.fleet.call("GET", workflow_path(self._id(each), "/history")),
            }
            for each in self.ids
        }

    def _post(self, path: str, body: Json) -> None:
        answer = self.fleet.call("POST", path or "/api/workflows", body)
        assert answer is not None, f"{path}: 404"

    def _id(self, workflow_id: str) -> str:
        return f"{self.prefix}/{workflow_id}"
