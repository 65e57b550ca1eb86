"""A cluster that runs workflows, in one thread, repeatable from one seed.

Strife: faults, clients, workers that misbehave. Then everything is mended, workers do as they are
told, whatever waits for a signal gets one, and every run must come to its end.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import secrets
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from raftflow.cluster.config import Config
from raftflow.cluster.consensus.types import Role
from raftflow.cluster.working_set import CacheBounds
from raftflow.engine import commands as cmd
from raftflow.engine.ids import RunKey, WorkflowKey
from raftflow.engine.limits import Limits
from raftflow.engine.rejections import Reason, Rejection
from raftflow.engine.state import Run, RunStatus, StepKind, StepStatus, TaskState
from tests.sim.checkers import require
from tests.sim.flow.calls import Calls
from tests.sim.flow.checks import FlowChecks
from tests.sim.flow.clients import Clients
from tests.sim.flow.ghosts import Ghosts
from tests.sim.flow.loop import SimLoop, fatal
from tests.sim.flow.node import FlowNode
from tests.sim.flow.operator import FlowOperator
from tests.sim.flow.workers import Workers
from tests.sim.options import CLOCKS, WHOLE, Options, Schedule
from tests.sim.world import PEACE_S, PLAIN, World
from tests.support.engine_world import world_problems

STRIFE_S = 3.0
MIN_ENDED = 10
END_S = 90.0
PATIENCE_S = 0.5
CONFIG = Config(leader_wait_ms=1_500)  # what handlers ask for
JUMP_MS = 5_000
SAMPLES_LATE_MS = 3_000  # what links hold back makes the clocks of others look late


@contextmanager
def seeded_ids(rng: random.Random) -> Iterator[None]:
    """Ids that the product makes up come from the seed."""
    with (
        patch.object(
            secrets, "token_hex", lambda size: f"{rng.getrandbits(8 * size):0{2 * size}x}"
        ),
        patch.object(secrets, "randbits", rng.getrandbits),
        patch.object(uuid, "uuid4", lambda: uuid.UUID(int=rng.getrandbits(128))),
    ):
        yield


class FlowWorld(World):
    strife_s = STRIFE_S
    nodes: dict[str, FlowNode]  # type: ignore[assignment]

    def __init__(
        self,
        seed: int,
        *,
        options: Options = PLAIN,
        schedule: Schedule = WHOLE,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        skew_ms, _ = CLOCKS[options.clocks]
        self.flow_checks = FlowChecks(2 * skew_ms + SAMPLES_LATE_MS)
        self.stamped: dict[tuple[int, int], int] = {}  # index, term -> when it was proposed
        super().__init__(seed, options=options, schedule=schedule, node_class=FlowNode, tell=tell)
        rng = self.rng
        self.cache = CacheBounds(
            runs=rng.choice((3, 40, 1_000)), run_bytes=1 << 30, requests=rng.choice((2, 1_000))
        )
        self.config = CONFIG
        self.limits = Limits()
        if rng.random() < 0.2:
            self.limits = Limits(max_history_events=rng.choice((30, 60)), max_untaken_signals=4)
        self.lease_ms = rng.choice((500, 1_200))
        self.decision_timeout_ms = rng.choice((400, 900))
        # Slow ones are overtaken by what they decide about, again and again.
        self.decision_times_s = rng.choice(
            ((0.001, 0.005, 0.02, 0.1, 0.2, 1.0), (0.001, 0.01), (0.03, 0.06, 0.1, 0.2))
        )
        self.parks = rng.random() < 0.25
        self.namespaces = ["default", "short"] if rng.random() < 0.5 else ["default"]
        self.calm = False
        self._ids = itertools.count(1)
        self.loop = SimLoop(self.clock, self.clock.after)
        self.calls = Calls(self)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}{next(self._ids)}"

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        def ended(task: Any) -> None:
            if not task.cancelled() and task.exception() is not None:
                fatal(task.exception())

        self.loop.create_task(work).add_done_callback(ended)

    def any_node(self) -> FlowNode | None:
        # In peace, callers have heard who belongs to the cluster.
        known: Any = self.members() if self.calm else self.nodes.values()
        nodes = [node for node in known if node.alive]
        return self.rng.choice(nodes) if nodes else None

    def some_leader(self) -> FlowNode | None:
        """Whoever believes to lead, a deposed one, too."""
        nodes: Any = [n for n in self.nodes.values() if n.alive and n.core.role is Role.LEADER]
        return self.rng.choice(nodes) if nodes else None

    def ambush(self, node: FlowNode) -> None:
        """It led, and had just begun to bring messages on their way."""
        if self.calm or node.core.role is not Role.LEADER or self.rng.random() > 0.08:
            return

        def strike() -> None:
            if node.alive and not self.calm:
                self.trace(f"-- ambush {node.name}")
                self.nemesis.effective["ambush"] += 1
                node.kill(power=False)
                self.restart_after(node, self.rng.uniform(0.05, 0.5))

        self.clock.after(self.rng.choice((0.0, 0.0005, 0.003)), strike)

    # ---- a random run ----------------------------------------------------------------------------

    def run(self) -> None:
        try:
            with seeded_ids(random.Random(self.rng.getrandbits(64))):
                self.strife()
                self._walk_through()
                self.mend()
                self._come_to_an_end()
                self._check_everything()
        finally:
            self.close()

    def close(self) -> None:
        self.loop.die()
        for node in self.nodes.values():
            if node.alive and node.wired:
                node.alive = False
                node.loop.die()

    def strife(self) -> None:
        self.ghosts = Ghosts(self)
        self.start()
        self.operator = FlowOperator(self)
        self.nemesis.begin()
        self.loop.enter(lambda: (Clients(self), Workers(self)))
        self.quarrel()
        self.peace_from = self.clock.now
        self.nemesis.stopped = self.ghosts.stopped = self.calm = True
        self.operator.stopped = True

    @property
    def ended(self) -> int:
        lives = [*self.flow_checks.past.values(), *self.flow_checks.lives.values()]
        return sum(life.ended for life in lives)

    @property
    def lags(self) -> bool:
        return self.ended < MIN_ENDED or super().lags

    def mend(self) -> None:
        super().mend()
        for node in self.nodes.values():
            node.skew_ms = node.usual_skew_ms
            node.apply_lag_s = 0.001

    # ---- peace -----------------------------------------------------------------------------------

    def _come_to_an_end(self) -> None:
        self.run_until(
            self._one_leader_followed,
            within_s=PEACE_S,
            promise="a leader is found after the last fault",
        )
        began = self.clock.now
        while True:
            self.run_for(PATIENCE_S)
            open_runs = self._open_runs()
            if not open_runs and self._quiet():
                return
            require(
                self.clock.now - began < END_S,
                "every run comes to its end",
                stuck=[_told(run) for run in open_runs[:3] or self._owing()[:3]],
                insisting=self.calls.insisting,
            )
            self.trace(f"-- {len(open_runs)} runs are open: {[_told(r) for r in open_runs[:3]]}")
            if not any(_is_worked_on(run) for run in open_runs):
                self._let_time_pass()
            self.loop.enter(lambda: [self._help(run) for run in open_runs])  # noqa: B023

    def _open_runs(self) -> list[Run]:
        nodes: Any = self.members()
        node = max(nodes, key=lambda each: each.replica.applied_index)
        keys = [key for key, life in self.flow_checks.lives.items() if not life.ended]
        return [run for run in node.replica.runs(keys) if run.open]

    def _quiet(self) -> bool:
        if self.calls.insisting or not self._all_equal():
            return False
        return not self._owing()

    def _owing(self) -> list[Run]:
        """Runs whose messages are still on their way."""
        node: Any = self.members()[0]
        return [run for run in node.replica.all_runs().values() if run.outbox]

    def _let_time_pass(self) -> None:
        """Nobody works, and long pauses may be ahead: all clocks are set forward."""
        self.flow_checks.hurried = True
        for node in self.nodes.values():
            node.skew_ms += JUMP_MS

    def _help(self, run: Run) -> None:
        """What somebody outside has to do for the run to go on."""
        if run.status is RunStatus.PAUSED and run.suspended_reason.startswith("paused"):
            self.spawn(self.calls.insist(cmd.UnpauseRun(**_named(run), request_id="")))
        elif run.status is RunStatus.PAUSED:
            self.spawn(self._give_up(run))
        else:
            for step in run.steps:
                if step.kind is StepKind.SIGNAL and step.status is StepStatus.SCHEDULED:
                    self.spawn(self._signal(run, step.signal_name))

    async def _signal(self, run: Run, name: str) -> None:
        payload, request_id = self.new_id("s").encode(), self.new_id("q")
        signal = cmd.SignalRun(**_named(run), name=name, payload=payload, request_id=request_id)
        answer = await self.calls.insist(signal)
        if isinstance(answer, Rejection) and answer.reason is Reason.LIMIT_EXCEEDED:
            await self._give_up(run)

    async def _give_up(self, run: Run) -> None:
        """Its history met a bound, and takes in no more."""
        await self.calls.insist(cmd.TerminateRun(**_named(run), reason="too long", request_id=""))

    # ---- at the end ------------------------------------------------------------------------------

    def _walk_through(self) -> None:
        """Every run has what would wake it, every row its run, on every node."""
        for node in self.nodes.values():
            found = node.replica.findings()
            require(not found, "the state keeps its invariants", node=node.name, found=found[:3])

    def _check_everything(self) -> None:
        self.flow_checks.finish()
        states = []
        nodes: Any = self.members()
        self._walk_through()
        for node in nodes:
            runs = node.replica.all_runs()
            for key, run in node.replica.hot.state.runs.items():
                require(runs[key] == run, "rows say what memory does", node=node.name, run=key)
            states.append(runs)
        require(all(runs == states[0] for runs in states), "all nodes have the same rows")
        runs = states[0]
        require(
            runs.keys() == self.flow_checks.lives.keys(),
            "rows are of the runs that history tells of",
            differ=runs.keys() ^ self.flow_checks.lives.keys(),
        )
        rows: Any = _as_rows(runs, nodes[0])
        found = world_problems(rows)
        require(not found, "nothing is left over", found=found)


def _as_rows(runs: dict[RunKey, Run], node: FlowNode) -> SimpleNamespace:
    """As the engine's own tests see a world. What memory counts is compared with the rows."""
    current = {WorkflowKey(key.namespace, key.workflow_id): key.run_id for key in runs}
    hot = node.replica.hot.state.runs
    kept = Counter(WorkflowKey(key.namespace, key.workflow_id) for key in runs)
    counted = dict(runs)
    for workflow, run_id in current.items():
        key = RunKey(*workflow, run_id)
        older = hot[key].older_runs if key in hot else kept[workflow] - 1
        counted[key] = dataclasses.replace(runs[key], older_runs=older)
    timers = node.store_disk.db.execute("SELECT * FROM timers").fetchall()
    require(not timers, "no timer outlives its run", timers=timers)
    return SimpleNamespace(
        runs=counted,
        steps={key: {step.sequence: step for step in run.steps} for key, run in runs.items()},
        outbox={key: run.outbox for key, run in runs.items()},
        timers={},
        current=current,
        of_runs=lambda: (),
    )


def _named(run: Run) -> dict[str, str]:
    namespace, workflow_id, run_id = run.key
    return {"namespace": namespace, "workflow_id": workflow_id, "run_id": run_id}


def _is_worked_on(run: Run) -> bool:
    tasks = [run.decision, *[step.task for step in run.steps]]
    return any(task.state in (TaskState.QUEUED, TaskState.LEASED) for task in tasks)


def _told(run: Run) -> str:
    waits = [
        f"{step.sequence} {step.kind.name} {step.name} {step.task.state.name}"
        for step in run.steps
        if step.status is StepStatus.SCHEDULED
    ]
    return (
        f"{run.key} {run.status.name} {run.suspended_reason} decision {run.decision.state.name} "
        f"waits for {waits}, outbox {list(run.outbox.values())}"
    )
