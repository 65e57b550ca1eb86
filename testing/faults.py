"""Faults that every workflow has to survive, one at a time and all at once.

A scenario is a function that gets a fresh environment, does to it what a user would do, and returns
the run; beside it, it may return what the world looks like afterwards. It is run once in peace and
then with each fault; everything must come out the same. Where what comes out is drawn by chance,
``compare`` says what of the run must be the same instead of its output and history.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from raftflow.testing.answers import check_same
from raftflow.testing.deployment import Source
from raftflow.testing.environment import Environment
from raftflow.testing.fresh import decide_afresh
from raftflow.testing.plan import EVERYWHERE, NOWHERE, Harm, Plan
from raftflow.testing.run import Run
from raftflow.testing.workers import Decision
from raftflow_sdk import NondeterminismError

Scenario = Callable[[Environment], object]
Compare = Callable[[Run], object]

# What may differ: moments, who worked, at which attempt, and ids that are drawn.
_BY_CHANCE = frozenset(
    {"time", "started_at", "fire_at", "worker_id", "node", "attempt", "run_id", "new_run_id"}
)


class Broken(AssertionError):
    """A fault changed what came out; the message names it and the boundary."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    status: str
    output: object
    world: object
    history: list[str]


@dataclass(frozen=True, slots=True)
class _Trial:
    """What is played, and what of it must always come out the same."""

    scenario: Scenario
    code: tuple[Source, ...]
    compare: Compare | None
    same_history: bool

    def everywhere(self, harm: Harm) -> list[str]:
        peace = self.play(Plan())
        probe = Plan(harm, at=NOWHERE)
        self.play(probe)
        for at, boundary in enumerate(probe.boundaries, start=1):
            self.try_at(peace, Plan(harm, at), boundary)
        self.try_at(peace, Plan(harm, EVERYWHERE), "every boundary")
        return probe.boundaries

    def try_at(self, peace: _Outcome, plan: Plan, boundary: str) -> None:
        where = f"{plan.harm.value} at {boundary}"
        try:
            outcome = self.play(plan)
        except Exception as error:
            raise Broken(f"{where}: {error}") from error
        for what in ("status", "output", "world"):
            before, after = getattr(peace, what), getattr(outcome, what)
            if before != after:
                raise Broken(f"{where}: the {what} is {after!r}, without it {before!r}")
        if outcome.history != peace.history:
            lines = unified_diff(
                peace.history, outcome.history, "without it", "with it", lineterm=""
            )
            raise Broken("\n".join([f"{where}: the history is another one", *lines]))

    def play(self, plan: Plan) -> _Outcome:
        run, world = _finished(Environment(*self.code, plan=plan), self.scenario)
        if self.compare is not None:
            return _Outcome(run.newest.status, self.compare(run), world, [])
        shown = run.newest.describe()
        output = shown.get("output", shown.get("output_base64", ""))
        history = [_line(event) for event in run.history] if self.same_history else []
        return _Outcome(shown["status"], output, world, history)


def crash_everywhere(
    scenario: Scenario,
    *code: Source,
    compare: Compare | None = None,
    fresh_process: bool = True,
) -> list[str]:
    """Crash the worker and the node at every event boundary.

    At each decision the worker dies before its answer arrives; the node forgets everything and
    applies its log again; another worker makes the decision again from history, must decide the
    same, and sends it twice. Each activity is given back by a dying worker before it ran, and
    reports twice. The history has to come out the same. Returns the boundaries.

    ``fresh_process``: all decisions are made again by other interpreters with other hash seeds as
    well, for workflows that these can import.
    """
    if fresh_process:
        _decide_afresh(scenario, code)
    return _Trial(scenario, code, compare, same_history=True).everywhere(Harm.CRASH)


def duplicate_activities(
    scenario: Scenario, *code: Source, compare: Compare | None = None
) -> list[str]:
    """Run each activity twice, as at-least-once allows.

    When the step has another attempt, the worker works, is taken for dead and answers too late; the
    next attempt does the work again. Else two workers do the same work under one lease. The output
    and the world have to come out the same.
    """
    return _Trial(scenario, code, compare, same_history=False).everywhere(Harm.TWICE)


def _decide_afresh(scenario: Scenario, code: tuple[Source, ...]) -> None:
    env = Environment(*code)
    _finished(env, scenario)
    made: dict[str, list[Decision]] = {}
    for decision in env.workers.decisions:
        made.setdefault(decision.task["workflow_type"], []).append(decision)
    for name, decisions in made.items():
        workflow = env.deployment.workflows[name]
        tasks = [each.task for each in decisions]
        for answers in decide_afresh(workflow.run, workflow.decode, tasks):
            for first, again in zip(decisions, answers, strict=True):
                what = f"the decision of workflow {first.task['workflow_id']!r} on "
                what += f"{first.task['history_length']} events"
                try:
                    check_same(what, first.answer, again)
                except NondeterminismError as error:
                    raise Broken(f"in a fresh process {error}") from error


def _finished(env: Environment, scenario: Scenario) -> tuple[Run, Any]:
    returned = scenario(env)
    run, world = returned if isinstance(returned, tuple) else (returned, None)
    if not isinstance(run, Run):
        raise TypeError("a scenario returns its run, or its run and what the world looks like")
    env.finish(run)
    return run, world


def _line(event: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in event.items() if name not in _BY_CHANCE})
