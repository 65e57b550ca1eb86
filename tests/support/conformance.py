"""The conformance suite in Python: reads the scenarios, plays them on a stage, checks the outcome.

A stage is where workers run: in this process (here), or beside a real cluster
(`conformance_cluster`).
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from conformance_code import TYPES, VARIANTS, code_of, decode_of

from raftflow.testing import DIES, HANGS, NOBODY, Environment, Run, takes
from raftflow.testing.plan import Plan
from raftflow_sdk import ActivityFailure, ActivityInfo, NondeterminismError, Worker

SUITE = Path(__file__).resolve().parents[2] / "sdks" / "conformance"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    topic: str
    document: Json

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.document['name']}"

    @property
    def activities(self) -> Json:
        found: Json = self.document["activities"]
        return found

    @property
    def recorded(self) -> bool:
        return bool(self.document.get("recorded", True))


def scenarios() -> list[Scenario]:
    return [
        Scenario(path.stem, document)
        for path in sorted((SUITE / "scenarios").glob("*.json"))
        for document in json.loads(path.read_text())["scenarios"]
    ]


# ---- activities ---------------------------------------------------------------------------------


def behaviour_of(spec: Json, attempt: int, value: bytes) -> Json:
    """How an attempt behaves: by input, or by its number; the last one described stays."""
    if "by_input" in spec:
        chosen: Json = spec["by_input"][value.decode()]
    else:
        chosen = spec["attempts"][min(attempt, len(spec["attempts"])) - 1]
    return chosen


def outcome_of(behaviour: Json, value: bytes, info: ActivityInfo) -> object:
    """What the attempt ends with: its output, or its failure as an exception."""
    if "error" in behaviour:
        delay_ms = behaviour.get("next_retry_delay_ms")
        return ActivityFailure(
            behaviour["error"],
            error_type=behaviour.get("error_type", ""),
            non_retryable=behaviour.get("non_retryable", False),
            next_retry_delay=None if delay_ms is None else delay_ms / 1_000,
        )
    if behaviour.get("echo"):
        return value
    if behaviour.get("heartbeat_details"):
        return info.heartbeat_details
    return behaviour["output"]


# ---- stages -------------------------------------------------------------------------------------


class Stage(Protocol):
    """Where a scenario is played. Ids are those of the scenario."""

    def start(self, body: Json) -> None: ...
    def signal(self, workflow_id: str, body: Json) -> None: ...
    def cancel(self, workflow_id: str, reason: str, *, graceful: bool) -> None: ...
    def terminate(self, workflow_id: str, reason: str) -> None: ...
    def deploy(self, variants: Mapping[str, str]) -> None: ...
    def until(self, condition: Callable[[], bool]) -> None: ...
    def describe(self, workflow_id: str) -> Json | None: ...
    def runs(self, workflow_id: str) -> list[str]: ...
    def executions(self, workflow_id: str, activity: str) -> int: ...
    def told_cancelled(self, workflow_id: str, activity: str) -> bool: ...


OPEN = ("RUNNING", "WAITING", "PAUSED", "UNKNOWN", "CONTINUED_AS_NEW")


def play(scenario: Scenario, stage: Stage, *, at_least_once: bool = False) -> None:
    """Make the calls, and check what came of them; ``at_least_once``: without counting."""
    for call in scenario.document["calls"]:
        ((verb, body),) = call.items()
        _VERBS[verb](stage, dict(body))
    for expected in scenario.document["expect"]:
        stage.until(lambda expected=expected: _closed(stage, expected["workflow_id"]))
    for expected in scenario.document["expect"]:
        check(stage, _uncounted(expected) if at_least_once else expected)


def _uncounted(expected: Json) -> Json:
    """The same without how often code ran."""
    steps = [{k: v for k, v in s.items() if k != "attempts"} for s in expected.get("steps", ())]
    told = {k: v for k, v in expected.items() if k not in ("executions", "steps")}
    return told | ({"steps": steps} if "steps" in expected else {})


def _closed(stage: Stage, workflow_id: str) -> bool:
    run = stage.describe(workflow_id)
    return run is not None and run["status"] not in OPEN


def _start(stage: Stage, body: Json) -> None:
    if repeat := body.pop("input_repeat", None):
        body["input"] = repeat["text"] * repeat["times"]
    stage.start(body)


def _until(stage: Stage, body: Json) -> None:
    workflow_id = body["workflow_id"]

    def holds() -> bool:
        run = stage.describe(workflow_id)
        if run is None:
            return False
        open_steps = {s["step_name"] for s in run["steps"] if s["status"] == "SCHEDULED"}
        return (
            body.get("step") in (None, *open_steps)
            and body.get("status") in (None, run["status"])
            and len(stage.runs(workflow_id)) >= body.get("runs", 1)
            and (not body.get("closed") or run["status"] not in OPEN)
            and all(
                stage.executions(workflow_id, name) >= number
                for name, number in body.get("executions", {}).items()
            )
        )

    stage.until(holds)


_VERBS: Mapping[str, Callable[[Stage, Json], None]] = {
    "start": _start,
    "until": _until,
    "signal": lambda stage, body: stage.signal(body.pop("workflow_id"), body),
    "cancel": lambda stage, body: stage.cancel(
        body["workflow_id"], body["reason"], graceful=body.get("graceful", False)
    ),
    "terminate": lambda stage, body: stage.terminate(body["workflow_id"], body["reason"]),
    "deploy": lambda stage, body: stage.deploy(body),
}


def check(stage: Stage, expected: Json) -> None:
    workflow_id = expected["workflow_id"]
    run = stage.describe(workflow_id)
    assert run is not None, f"there is no workflow {workflow_id!r}"
    for name in ("status", "error", "error_type", "search_attributes"):
        if name in expected:
            assert run.get(name) == expected[name], f"{name} of {json.dumps(run, indent=1)}"
    _check_output(run, expected)
    if "steps" in expected:
        found = [
            {name: step.get(name) for name in wanted}
            for step, wanted in zip(run["steps"], expected["steps"], strict=False)
        ]
        assert found == expected["steps"], json.dumps(run["steps"], indent=1)
        assert len(run["steps"]) == len(expected["steps"]), json.dumps(run["steps"], indent=1)
    if "runs" in expected:
        assert stage.runs(workflow_id) == expected["runs"]
    for name, number in expected.get("executions", {}).items():
        assert stage.executions(workflow_id, name) == number, f"executions of {name!r}"
    for name in expected.get("told_cancelled", ()):
        stage.until(lambda name=name: stage.told_cancelled(workflow_id, name))


def _check_output(run: Json, expected: Json) -> None:
    for name in ("output", "output_base64"):
        if name in expected:
            assert run.get(name) == expected[name]
    if "output_json" in expected:
        assert json.loads(run["output"]) == expected["output_json"]
    if repeat := expected.get("output_repeat"):
        assert run["output"] == repeat["text"] * repeat["times"]


def input_of(body: Json, field_name: str) -> bytes:
    """A payload of a call."""
    if f"{field_name}_base64" in body:
        return base64.b64decode(body[f"{field_name}_base64"])
    return str(body.get(field_name, "")).encode()


# ---- in this process ----------------------------------------------------------------------------


def worker_of(implementation: str, variant_of: Callable[[str, str], str], **how: Any) -> Worker:
    """A worker with all workflows. Of those that change, ``variant_of`` (type, workflow id) says
    which code a run meets now."""
    worker = Worker(how.pop("addresses", ["http://127.0.0.1:1"]), **how)
    for name in TYPES:
        worker.workflow(name, decode=decode_of(name))(code_of(implementation, name))
    for name in VARIANTS:
        if implementation == "async":

            async def changing_async(ctx: Any, name: str = name) -> object:
                code = code_of(implementation, name, variant_of(name, ctx.workflow_id))
                return await code(ctx)

            worker.workflow(name)(changing_async)
        else:

            def changing(ctx: Any, name: str = name) -> object:
                return code_of(implementation, name, variant_of(name, ctx.workflow_id))(ctx)

            worker.workflow(name)(changing)
    return worker


@dataclass
class InProcess:
    """The engine of `raftflow.testing`: no time is waited."""

    scenario: Scenario
    implementation: str
    plan: Plan = field(default_factory=Plan)
    variants: dict[str, str] = field(default_factory=dict)
    deployed: list[tuple[int, Json]] = field(default_factory=list)  # (decisions before, variants)

    def __post_init__(self) -> None:
        self.deploy({"Change": self.scenario.document.get("variant", "1")}, before=0)
        worker = worker_of(self.implementation, lambda name, _: self.variants[name])
        for name, spec in self.scenario.activities.items():
            if not spec.get("nobody"):
                worker.activity(name, decode="bytes")(self._activity(spec))
        self.env = Environment(worker, plan=self.plan)
        unmanned = [name for name, spec in self.scenario.activities.items() if spec.get("nobody")]
        self.env.deployment.fake(dict.fromkeys(unmanned, NOBODY))

    def _activity(self, spec: Json) -> Callable[[bytes, ActivityInfo], object]:
        def code(value: bytes, info: ActivityInfo) -> object:
            behaviour = behaviour_of(spec, info.attempt, value)
            if behaviour.get("hangs"):
                return HANGS
            if behaviour.get("dies"):
                return DIES
            if "heartbeat" in behaviour:
                info.heartbeat(behaviour["heartbeat"])
            outcome = outcome_of(behaviour, value, info)
            return takes(behaviour.get("takes_ms", 0) / 1_000, outcome)

        return code

    def start(self, body: Json) -> None:
        more = {k: body[k] for k in ("search_attributes",) if k in body}
        with contextlib.suppress(NondeterminismError):
            self.env.start(
                body["type"],
                input=input_of(body, "input"),
                workflow_id=body["workflow_id"],
                execution_timeout=body.get("execution_timeout_ms", 0) / 1_000,
                **more,
            )

    def signal(self, workflow_id: str, body: Json) -> None:
        payload = input_of(body, "payload")
        with contextlib.suppress(NondeterminismError):
            request_id = body.get("request_id")
            self.env.signal(workflow_id, body["name"], payload, request_id=request_id)

    def cancel(self, workflow_id: str, reason: str, *, graceful: bool) -> None:
        self.env.cancel(workflow_id, reason, graceful=graceful)

    def terminate(self, workflow_id: str, reason: str) -> None:
        self.env.terminate(workflow_id, reason)

    def deploy(self, variants: Mapping[str, str], *, before: int | None = None) -> None:
        self.variants.update(variants)
        at = len(self.env.workers.decisions) if before is None else before
        self.deployed.append((at, dict(self.variants)))

    def until(self, condition: Callable[[], bool]) -> None:
        self.env.until(condition)

    def variant_at(self, decision: int) -> str:
        """Which code made that decision."""
        return str([v["Change"] for at, v in self.deployed if at <= decision][-1])

    def ids(self) -> list[str]:
        """Of all workflows that ran."""
        return list(dict.fromkeys(key.workflow_id for key in self.env.node.state.runs))

    def run(self, workflow_id: str) -> Run | None:
        try:
            return self.env.find(workflow_id)
        except LookupError:
            return None

    def describe(self, workflow_id: str) -> Json | None:
        run = self.run(workflow_id)
        return None if run is None else run.describe()

    def runs(self, workflow_id: str) -> list[str]:
        return [run.status for run in self.env.runs(workflow_id)]

    def executions(self, workflow_id: str, activity: str) -> int:
        return self._counts(workflow_id)[activity]

    def _counts(self, workflow_id: str) -> Counter[str]:
        calls = self.env.workers.calls
        return Counter(call.activity for call in calls if call.info.workflow_id == workflow_id)

    def told_cancelled(self, workflow_id: str, activity: str) -> bool:
        return any(
            call.cancelled
            for call in self.env.calls(activity)
            if call.info.workflow_id == workflow_id
        )
