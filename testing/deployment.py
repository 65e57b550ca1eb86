"""The code under test: workflows and activities by name, and the fakes that stand in for some."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from raftflow.testing.fakes import InTurn
from raftflow_sdk import Worker
from raftflow_sdk.payloads import Decode
from raftflow_sdk.worker import _ActivityCode, _run_activity, _takes_info, _WorkflowCode

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
        """What the next attempt of an activity meets: a fake, or ``None`` for its own code."""
        outcome = self._fakes.get(name, _OWN_CODE)
        if isinstance(outcome, InTurn):
            outcome = outcome.outcomes[min(calls, len(outcome.outcomes) - 1)]
        if outcome is _OWN_CODE and name not in self._activities:
            raise LookupError(
                f"nobody runs activity {name!r}: register its code with the worker, "
                f'or fake it with activities={{"{name}": ...}}'
            )
        return outcome

    def run(self, name: str, outcome: object, task: dict[str, Any], info: Any) -> dict[str, Any]:
        """Run the code or the fake; the outcome fields of the completion."""
        if outcome is _OWN_CODE:
            code = self._activities[name]
        else:
            decode = self._activities[name].decode if name in self._activities else "text"
            code = _as_code(outcome, decode)
        return _run_activity(code, task, info)


_OWN_CODE = object()


def _as_code(outcome: object, decode: Decode) -> _ActivityCode:
    """Activity code with this outcome."""
    if callable(outcome) and not isinstance(outcome, type):
        return _ActivityCode(outcome, decode, _takes_info(outcome))

    def fake(_value: object) -> object:
        if isinstance(outcome, BaseException):
            raise outcome.with_traceback(None)
        return outcome

    return _ActivityCode(fake, decode, False)
