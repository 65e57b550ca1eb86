"""The code under test: workflows and activities by name, and the fakes that stand in for some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from raftflow.testing.fakes import Fate, InTurn, Later
from raftflow_sdk import ActivityInfo, Worker
from raftflow_sdk.payloads import Decode
from raftflow_sdk.worker import _ActivityCode, _run_activity, _takes_info, _WorkflowCode

# No fake: the activity's own code runs.
OWN_CODE = object()

Source = Worker | Mapping[str, Callable[..., object]]


class Deployment:
    """What the workers of the environment can do."""

    def __init__(self) -> None:
        self.workflows: dict[str, _WorkflowCode] = {}
        self._activities: dict[str, _ActivityCode] = {}
        self._fakes: dict[str, object] = {}

    def add(self, source: Source) -> None:
        """All that a worker has registered; or workflow functions by name, as hosted ones are."""
        if isinstance(source, Worker):
            self.workflows.update(source._workflows)
            self._activities.update(source._activities)
        else:
            for name, code in source.items():
                self.workflows[name] = _WorkflowCode(code, "text")

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
        self.workflows[name] = _WorkflowCode(workflow, decode)
        return name

    def outcome_of(self, name: str, calls: int) -> object:
        """What the next attempt of an activity meets: a fake, or OWN_CODE."""
        outcome = self._fakes.get(name, OWN_CODE)
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
        code: Callable[..., object] = own.run if own and outcome is OWN_CODE else _giving(outcome)
        after_ms, fate = 0, None

        def run(value: object) -> object:
            nonlocal after_ms, fate
            result = _call(code, value, info)
            while True:
                if isinstance(result, Later):
                    after_ms += result.after_ms
                    result = result.outcome
                elif isinstance(result, Fate):
                    fate = result
                    return ""
                elif isinstance(result, BaseException):
                    raise result.with_traceback(None)
                elif callable(result):
                    result = _call(result, value, info)
                else:
                    return result

        decode: Decode = own.decode if own else "text"
        fields = _run_activity(_ActivityCode(run, decode, False), task, info)
        return fate or Later(after_ms, None), fields


def _giving(outcome: object) -> Callable[[object], object]:
    return lambda _value: outcome


def _call(code: Callable[..., object], value: object, info: ActivityInfo) -> object:
    return code(value, info) if _takes_info(code) else code(value)
