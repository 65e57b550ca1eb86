"""Faults are found: nondeterministic workflows and activities that must not run twice."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from shop_workflows import approval, careful, careless, forgetful, order, unordered, worker

from raftflow.testing import (
    Broken,
    Environment,
    Run,
    crash_everywhere,
    duplicate_activities,
    fails,
    in_turn,
    takes,
)


def orders(env: Environment) -> Run:
    charge = in_turn(fails("busy"), takes(3, "paid"))
    return env.run(order, input="shoes", activities={"charge": charge})


def approves(env: Environment) -> Run:
    run = env.start(approval)
    env.signal(run, "approved", "yes")
    return run


@pytest.mark.slow
def test_a_good_workflow_survives_crashes_everywhere() -> None:
    boundaries = crash_everywhere(orders, worker)
    assert len(boundaries) == 9
    assert boundaries[0] == "the decision of workflow 'Order-1' on 1 events"
    assert crash_everywhere(approves, worker)


def test_a_good_workflow_survives_activities_that_run_twice() -> None:
    assert duplicate_activities(orders, worker) == [
        "attempt 1 of activity 'reserve' (sequence 1 of workflow 'Order-1')",
        "attempt 1 of activity 'charge' (sequence 2 of workflow 'Order-1')",
        "attempt 2 of activity 'charge' (sequence 2 of workflow 'Order-1')",
        "attempt 1 of activity 'ship' (sequence 4 of workflow 'Order-1')",
    ]


def test_a_nondeterministic_workflow_is_found() -> None:
    def scenario(env: Environment) -> Run:
        names = {f"step-{n}": "" for n in range(100)}
        return env.start(forgetful, activities={**names, "last": "done"})

    with pytest.raises(Exception, match="nondeterministic workflow code at sequence 1"):
        crash_everywhere(scenario)


def test_a_decision_that_depends_on_the_moment_is_found() -> None:
    moments = iter(range(100))

    def clocked(ctx: Any) -> Any:
        return ctx.activity("note", str(next(moments)))

    def scenario(env: Environment) -> Run:
        return env.start(clocked, activities={"note": "noted"})

    with pytest.raises(Broken, match=r"on 1 events: the decision .* made again, differently"):
        crash_everywhere(scenario)


@pytest.mark.slow
def test_a_decision_that_depends_on_the_process_is_found() -> None:
    def scenario(env: Environment) -> Run:
        return env.start(unordered, activities={"pack": "packed"})

    with pytest.raises(Broken, match=r"in a fresh process .* made again, differently"):
        crash_everywhere(scenario)
    crash_everywhere(scenario, fresh_process=False)


def test_what_is_drawn_by_chance_may_differ() -> None:
    def draws(ctx: Any) -> Any:
        return ctx.activity("note", ctx.side_effect("draw", lambda: secrets.token_hex(8)))

    def scenario(env: Environment) -> Run:
        return env.start(draws, activities={"note": lambda text: text})

    with pytest.raises(Broken, match="the output is"):
        crash_everywhere(scenario)
    crash_everywhere(scenario, compare=lambda run: [step["step_name"] for step in run.steps])


class Account:
    """A world in which something happens."""

    def __init__(self, *, idempotent: bool) -> None:
        self.idempotent = idempotent
        self.deposits: dict[str, int] = {}

    def deposit(self, amount: str, info: Any) -> None:
        once = f"{info.workflow_id}/{info.step_name}"
        name = once if self.idempotent else f"{once}/{len(self.deposits)}"
        self.deposits[name] = int(amount)

    def balance(self, _: str) -> str:
        return str(sum(self.deposits.values()))


@pytest.mark.parametrize("workflow", [careless, careful])
def test_an_activity_that_must_not_run_twice_is_found(workflow: Any) -> None:
    def scenario(env: Environment, *, idempotent: bool = False) -> tuple[Run, object]:
        account = Account(idempotent=idempotent)
        activities = {"deposit": account.deposit, "balance": account.balance}
        run = env.run(workflow, activities=activities)
        return run, sum(account.deposits.values())

    with pytest.raises(Broken, match=r"activity 'deposit' .*: the output is '20', without it '10'"):
        duplicate_activities(scenario)
    duplicate_activities(lambda env: scenario(env, idempotent=True))
