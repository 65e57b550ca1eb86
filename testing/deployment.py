"""The code under test: workflows and activities by name, and the fakes that stand in for some."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from raftflow.testing.fakes import Fate, InTurn, Later
from raftflow_sdk import ActivityInfo, Worker
from raftflow_sdk.activity import ActivityCode
from raftflow_sdk.payloads import Decode, noted_decode
from raftflow_sdk.replay import WorkflowCode

# No fake: the activity's own code runs.
OWN_CODE = object()

Source = Worker | Mapping[str, Callable[..., object]]


class Deployment:
    """What the workers of the environment can do."""

    def __init__(self) -> None:
        self.workflows: dict[str, WorkflowCode] = {}
        self._activities: dict[str, ActivityCode] = {}
        self._fakes: dict[str, object] = {}

    def add(self, source: Source) -> None:
        """All that a worker has registered; or workflow functions by name, as hosted ones are."""
        if isinstance(source, Worker):
            self.workflows.update(source.workflows)
            self._activities.update(source.activities)
        else:
            for name, run in source.items():
                self.workflows[name] = WorkflowCode.of(run)

    def fake(self, activities: Mapping[str, object]) -> None:
        self._fakes.update(activities)

    def type_of(self, workflow: str | Callable[..., object], decode: Decode) -> str:
        """The name of a workflow. A function that nobody registered goes by its own."""
        if isinstance(workflow, str):
            if workflow not in self.workflows:
                raise LookupError(
                    f"there is no workflow {workflow!r}; known: {', '.join(self.workflows) or '-'}"
                )
            return workflow
        for name, code in self.workflows.items():
            if code.run is workflow:
                return name
        name = workflow.__name__
        self.workflows[name] = WorkflowCode(workflow, noted_decode(workflow, decode))
        return name

    def fake_of(self, name: str) -> object:
        """The fake of an activity as it was given, or OWN_CODE."""
        return self._fakes.get(name, OWN_CODE)

    def outcome_of(self, name: str, calls: int) -> object:
        """What the next attempt of an activity meets: a fake, or OWN_CODE."""
        outcome = self.fake_of(name)
        if isinstance(outcome, InTurn):
            outcome = outcome.outcomes[min(calls, len(outcome.outcomes) - 1)]
        if outcome is OWN_CODE and name not in self._activities:
            raise LookupError(
                f"nobody runs activity {name!r}: register its code with the worker, "
                f'or fake it with activities={{"{name}": ...}}'
            )
        return outcome

    def run(
        self, name: str, outcome: object, task: dict[str, Any], info: ActivityInfo
    ) -> tuple[Later | Fate, dict[str, Any]]:
        """Run the code or the fake: when it answers, if ever, and the fields of the completion."""
        own = self._activities.get(name)
        decode: Decode = own.decode if own else "text"
        if own is not None and outcome is OWN_CODE:
            code = own
        elif callable(outcome):
            decode = noted_decode(outcome, decode)
            code = ActivityCode.of(outcome, decode, f"the fake of activity {name!r}")
        else:
            code = ActivityCode(lambda _value: outcome, decode, False)
        attempt = _Attempt()

        def run(value: object) -> object:
            result = code.run(value, info) if code.wants_info else code.run(value)
            return attempt.wait(result) if inspect.iscoroutine(result) else attempt.settle(result)

        fields = ActivityCode(run, decode, False).execute(task, info)
        return attempt.fate or Later(attempt.after_ms, None), fields


class _Attempt:
    """What becomes of one attempt: it may end later, or never."""

    def __init__(self) -> None:
        self.after_ms = 0
        self.fate: Fate | None = None

    def settle(self, result: object) -> object:
        while isinstance(result, Later):
            self.after_ms += result.after_ms
            result = result.outcome
        if isinstance(result, Fate):
            self.fate = result
            return ""
        if isinstance(result, BaseException):
            raise result.with_traceback(None)
        return result

    async def wait(self, coroutine: Coroutine[Any, Any, object]) -> object:
        return self.settle(await coroutine)
