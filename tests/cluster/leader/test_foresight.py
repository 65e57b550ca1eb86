"""What is foreseen is what the engine then offers; and it is granted within the same entry."""

from dataclasses import replace

from engine_harness import EngineHarness, activity, complete_decision, signal, start

from raftflow.cluster.leader.foresight import tasks_after
from raftflow.engine.commands import (
    AwaitSignal,
    Command,
    CompleteActivity,
    CompleteWorkflow,
    ContinueAsNew,
    EagerPoll,
    FireTimer,
    PauseRun,
    StartTimer,
)
from raftflow.engine.effects import HoldLease, OfferActivity, OfferDecision
from raftflow.engine.ids import WorkflowKey
from raftflow.engine.state import Run


def foreseen_and_offered(engine: EngineHarness, command: Command) -> list[tuple[str, int, str]]:
    """Both must be alike: workflow, sequence and the name that a poll has to give."""

    def find(namespace: str, workflow_id: str, run_id: str) -> Run | None:
        if not run_id and WorkflowKey(namespace, workflow_id) not in engine.rows.current:
            return None
        return engine.run(workflow_id, run_id, namespace)

    foreseen = [(t.run.workflow_id, t.sequence, t.name) for t in tasks_after(command, find)]
    offered = []
    for effect in engine.apply(command).effects:
        if isinstance(effect, OfferDecision):
            offered.append((effect.run.workflow_id, 0, effect.workflow_type))
        elif isinstance(effect, OfferActivity):
            offered.append((effect.run.workflow_id, effect.sequence, effect.step_name))
        elif isinstance(effect, HoldLease):  # taken at once by an eager poll
            offered = [each for each in offered if each[:2] != (effect.run[1], effect.sequence)]
    assert foreseen == offered, (command, foreseen, offered)
    return offered


def completion(engine: EngineHarness, workflow_id: str, sequence: int, *, failed: bool) -> Command:
    return CompleteActivity(
        namespace="default",
        workflow_id=workflow_id,
        step_name="",
        sequence=sequence,
        lease_token=engine.grant_activity(workflow_id, sequence),
        failed=failed,
        output=b"",
    )


def test_the_life_of_a_run_is_foreseen() -> None:
    engine = EngineHarness()
    engine.register("Order")
    assert foreseen_and_offered(engine, start("w", "Order", run_id="r1")) == [("w", 0, "Order")]
    token = engine.grant_decision("w")
    two = complete_decision("w", token, activity(1, "pay"), activity(2, "ship"))
    assert foreseen_and_offered(engine, two) == [("w", 1, "pay"), ("w", 2, "ship")]
    done = completion(engine, "w", 1, failed=False)
    assert foreseen_and_offered(engine, done) == [("w", 0, "Order")]
    # The decision is queued already, so that the second result offers nothing.
    assert foreseen_and_offered(engine, completion(engine, "w", 2, failed=False)) == []
    token = engine.grant_decision("w")
    timer = StartTimer(step_name="nap", sequence=3, delay_ms=5)
    assert foreseen_and_offered(engine, complete_decision("w", token, timer)) == []
    row = next(iter(engine.rows.timers.values()))
    engine.time_ms = row.fire_at_ms
    fire = FireTimer(
        namespace="default",
        workflow_id="w",
        run_id="r1",
        kind=row.kind,
        sequence=row.sequence,
        fire_at_ms=row.fire_at_ms,
    )
    assert foreseen_and_offered(engine, fire) == [("w", 0, "Order")]
    token = engine.grant_decision("w")
    wait = AwaitSignal(step_name="wait", sequence=4, signal_name="go")
    assert foreseen_and_offered(engine, complete_decision("w", token, wait)) == []
    assert foreseen_and_offered(engine, signal("w", "other")) == []
    assert foreseen_and_offered(engine, signal("w", "go")) == [("w", 0, "Order")]
    end = complete_decision("w", engine.grant_decision("w"), CompleteWorkflow(output=b""))
    assert foreseen_and_offered(engine, end) == []
    assert foreseen_and_offered(engine, signal("w", "go")) == []


def test_a_paused_run_foresees_nothing() -> None:
    engine = EngineHarness()
    engine.register("Order")
    engine.start("w")
    engine.decide("w", activity(1, "pay"))
    engine.do(PauseRun(namespace="default", workflow_id="w", run_id="", reason="", request_id=""))
    assert foreseen_and_offered(engine, completion(engine, "w", 1, failed=False)) == []


def eager(*names: str, limit: int = 1, task_queue: str = "default") -> EagerPoll:
    return EagerPoll(
        node="n1",
        poll_id="p.1",
        nonce="n",
        worker_id="w1",
        names=names,
        task_queue=task_queue,
        duration_ms=30_000,
        limit=limit,
    )


def test_what_the_caller_takes_in_its_answer_is_nobody_elses() -> None:
    engine = EngineHarness()
    engine.register("Order")
    engine.do(start("w", "Order", run_id="r1"))
    urgent = replace(activity(3, "pay"), priority=1)
    commands = (activity(1, "pay"), activity(2, "ship"), urgent)
    decision = complete_decision("w", engine.grant_decision("w"), *commands)
    taken = replace(decision, eager=eager("pay"))
    assert foreseen_and_offered(engine, taken) == [("w", 1, "pay"), ("w", 2, "ship")]
    done = completion(engine, "w", 1, failed=False)
    elsewhere = replace(done, eager=eager(task_queue="other"))
    assert foreseen_and_offered(engine, elsewhere) == [("w", 0, "Order")]
    engine.do(complete_decision("w", engine.grant_decision("w")))
    done = completion(engine, "w", 2, failed=False)
    assert foreseen_and_offered(engine, replace(done, eager=eager())) == []


def test_the_next_run_of_a_chain_is_foreseen() -> None:
    engine = EngineHarness()
    engine.register("Order")
    engine.do(start("w", "Order", run_id="r1"))
    again = complete_decision("w", engine.grant_decision("w"), ContinueAsNew(input=b""))
    assert foreseen_and_offered(engine, replace(again, new_run_id="r2")) == [("w", 0, "Order")]


def test_a_stale_token_foresees_nothing() -> None:
    engine = EngineHarness()
    engine.register("Order")
    engine.start("w")
    token = engine.grant_decision("w")
    first = complete_decision("w", token, activity(1, "pay"))
    engine.do(first)
    assert foreseen_and_offered(engine, first) == []
    done = completion(engine, "w", 1, failed=False)
    engine.do(done)
    assert foreseen_and_offered(engine, done) == []
