"""Activities completed twice, late, and by two workers: one result a step, and it is the one that
was acknowledged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tests.jepsen.checker.events import final_events, step_results
from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import FAIL, Call, named


def check_completions(calls: Sequence[Call]) -> Verdict:
    """`complete` by token: arguments {workflow_id, sequence, attempt, output} or {..., error};
    an output or error is unique to those who may rightly say the same. `events` by workflow id."""
    errors: list[str] = []
    steps: dict[tuple[str, int], list[Call]] = defaultdict(list)
    tokens: dict[str, list[Call]] = defaultdict(list)
    for call in named(calls, "complete"):
        steps[call.arguments["workflow_id"], call.arguments["sequence"]].append(call)
        tokens[call.key].append(call)
    for token, made in tokens.items():
        taken = {_said(call) for call in made if call.ok}
        if len(taken) > 1:
            errors.append(f"double completion: token {token[-12:]} was taken with {sorted(taken)}")
    histories = final_events(calls)
    decided = 0
    for (workflow_id, sequence), made in steps.items():
        outputs = {_said(call) for call in made if call.ok and "output" in call.arguments}
        if len(outputs) > 1:
            errors.append(f"double completion: {workflow_id}#{sequence}: {sorted(outputs)}")
        if workflow_id not in histories:
            continue
        results = step_results(histories[workflow_id]).get(sequence, [])
        decided += len(results)
        errors += _result_problems(f"{workflow_id}#{sequence}", results, made, outputs)
    return verdict(errors, steps=len(steps), results=decided)


def _result_problems(
    name: str, results: list[dict[str, Any]], made: list[Call], outputs: set[str]
) -> list[str]:
    errors = []
    if len(results) > 1:
        errors.append(f"double completion: {name} has {len(results)} results: {results}")
    recorded = {event.get("output", "") for event in results if event["type"] == "step_completed"}
    for output in sorted(outputs - recorded):
        call = next(call for call in made if call.ok and _said(call) == output)
        errors.append(f"lost completion: {shown(call)}, but the history of {name} has {results}")
    for output in recorded:
        said = [call for call in made if _said(call) == output]
        if not said:
            errors.append(f"{name}: nobody completed it with {output!r}")
        elif all(call.kind == FAIL for call in said):
            errors.append(f"{name}: {output!r} was refused, yet it is the result: {shown(said[0])}")
    return errors


def _said(call: Call) -> str:
    arguments = call.arguments
    return str(arguments["output"]) if "output" in arguments else f"error {arguments['error']}"
