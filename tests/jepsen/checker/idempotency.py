"""One request id, one effect, one answer: wherever and how often it is asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tests.jepsen.checker.events import final_events
from tests.jepsen.checker.verdict import Verdict, shown, verdict
from tests.jepsen.history import FAIL, Call, named

REUSED = "REQUEST_ID_REUSED"


def check_idempotency(calls: Sequence[Call]) -> Verdict:
    """`once` by request id: arguments {workflow_id, verb, payload}. `events` by workflow id."""
    by_request: dict[str, list[Call]] = defaultdict(list)
    for call in named(calls, "once"):
        by_request[call.key].append(call)
    errors: list[str] = []
    repeated = reused = 0
    for made in by_request.values():
        taken = [call for call in made if call.ok]
        repeated += max(0, len(taken) - 1)
        reused += sum(call.error == REUSED for call in made)
        payloads = {call.arguments["payload"] for call in taken}
        if len(payloads) > 1:
            errors.append(f"one request id, {len(payloads)} payloads taken: {shown(taken[-1])}")
        answers = {str(call.result) for call in taken}
        if len(answers) > 1:
            errors.append(f"one request, {len(answers)} answers: {shown(taken[-1])}")
        errors += _refusal_problems(made)
    errors += _effect_problems(calls, by_request)
    return verdict(errors, requests=len(by_request), repeated=repeated, reused=reused)


def _refusal_problems(made: list[Call]) -> list[str]:
    """A repeated call is never refused as if it were another one."""
    payloads = {call.arguments["payload"] for call in made if call.kind != FAIL}
    return [
        f"refused although nothing else used its id: {shown(call)}"
        for call in made
        if call.error == REUSED and payloads <= {call.arguments["payload"]}
    ]


def _effect_problems(calls: Sequence[Call], by_request: dict[str, list[Call]]) -> list[str]:
    errors = []
    histories = final_events(calls)
    for made in by_request.values():
        arguments = made[0].arguments
        if arguments["verb"] != "signal" or arguments["workflow_id"] not in histories:
            continue
        asked = {call.arguments["payload"] for call in made}
        effects = [
            event["payload"]
            for event in histories[arguments["workflow_id"]]
            if event["type"] == "signal_received" and event["payload"] in asked
        ]
        taken = [call for call in made if call.ok]
        if len(effects) > 1:
            errors.append(f"{len(effects)} effects of one request: {effects}, {shown(made[0])}")
        if taken and effects != [taken[0].arguments["payload"]]:
            errors.append(f"acknowledged, but the history has {effects}: {shown(taken[0])}")
        if effects and all(call.kind == FAIL for call in made):
            errors.append(f"refused, yet in the history: {shown(made[0])}")
    return errors
