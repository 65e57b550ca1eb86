"""The order saga, tested without a cluster: pytest examples/order_saga

`raftflow_env`, `crash_everywhere` and `duplicate_activities` come with the package raftflow.
"""

import activities
from workflows import WORKFLOWS, order_saga

from raftflow.testing import HANGS, Environment, Run, fails

CODE = {name: getattr(activities, name) for name in ("reserve", "charge", "release", "ship")}


def test_an_approved_order_is_shipped(raftflow_env: Environment) -> None:
    run = raftflow_env.start(order_saga, input="shoes", activities=CODE)
    raftflow_env.signal(run, "approved", "yes")
    assert run.result == "shipped: reservation of shoes"
    # The second attempt at the bank, 0.2 s after the first; nothing was waited.
    assert [call.attempt for call in raftflow_env.calls("charge")] == [1, 2]
    assert raftflow_env.now == 2.2


def test_an_order_waits_for_its_approval(raftflow_env: Environment) -> None:
    run = raftflow_env.run(order_saga, input="shoes", activities=CODE)
    assert run.waiting_on == ["gate: signal approved"]
    raftflow_env.advance(7 * 24 * 3_600)
    assert run.open


def test_what_was_reserved_is_given_back(raftflow_env: Environment) -> None:
    declined = fails("card declined", error_type="Declined", non_retryable=True)
    run = raftflow_env.start(order_saga, input="shoes", activities={**CODE, "charge": declined})
    raftflow_env.signal(run, "approved", "yes")
    raftflow_env.finish(run)
    assert (run.status, run.error) == ("FAILED", "charge failed: card declined")
    assert [call.input for call in raftflow_env.calls("release")] == ["reservation of shoes"]


def test_a_bank_that_never_answers_holds_the_order(raftflow_env: Environment) -> None:
    run = raftflow_env.start(order_saga, input="shoes", activities={**CODE, "charge": HANGS})
    raftflow_env.signal(run, "approved", "yes")
    raftflow_env.advance(3_600)
    assert run.open  # start_to_close_timeout would end the attempt


def approved_order(env: Environment) -> Run:
    env.deploy(WORKFLOWS)
    run = env.start("OrderSaga", input="shoes", activities=CODE)
    env.signal(run, "approved", "yes")
    return run


def test_crashes_change_nothing(crash_everywhere) -> None:
    assert len(crash_everywhere(approved_order)) == 10


def test_activities_may_run_twice(duplicate_activities) -> None:
    assert len(duplicate_activities(approved_order)) == 4
