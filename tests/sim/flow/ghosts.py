"""Decisions of leaders, said again when nobody means them any more: as if entries of a deposed
leader turned up late, or one believed what is long over."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from raftflow.engine.commands import Command, ExpireLease, FireTimer
from raftflow.engine.rejections import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from raftflow.cluster.proposer import Proposer
    from tests.sim.flow.world import FlowWorld

REMEMBERED = 400


class Ghosts:
    def __init__(self, world: FlowWorld) -> None:
        self._world = world
        self._said: list[Command] = []
        self.stopped = False
        world.clock.after(1.0, self._haunt)

    def listen(self, proposer: Proposer) -> None:
        propose = proposer.propose_duty

        def heard(command: Command, done: Callable[[Answer | None], None] | None = None) -> None:
            self._said.append(command)
            del self._said[:-REMEMBERED]
            propose(command, done)

        proposer.propose_duty = heard  # type: ignore[method-assign]

    def _haunt(self) -> None:
        if self.stopped:
            return
        world, rng = self._world, self._world.rng
        node = world.some_leader()
        if node is not None and self._said and not node.paused:
            recent = self._said[-40:] if rng.random() < 0.7 else self._said
            commands = rng.choices(recent, k=rng.randrange(1, 4)) + self._too_early()
            world.stats["haunted"] += len(commands)
            propose = type(node.proposer).propose_duty
            for command in commands:
                node.loop.enter(partial(propose, node.proposer, command))
        world.clock.after(rng.uniform(0.005, 0.1), self._haunt)

    def _too_early(self) -> list[Command]:
        """What a leader whose clock is wrong takes for due, or one that missed what came since."""
        checks, rng = self._world.flow_checks, self._world.rng
        commands: list[Command] = []
        held, armed = checks.held_leases(), checks.armed_timers()
        ends = checks.lost_leases()[:2]
        if held and rng.random() < 0.2:
            ends.append(rng.choice(held))
        commands += [
            ExpireLease(namespace=run.namespace, workflow_id=run.workflow_id, token=token)
            for run, token in ends
        ]
        if armed and rng.random() < 0.2:
            run, kind, sequence, fire_at_ms = rng.choice(armed)
            commands.append(
                FireTimer(
                    namespace=run.namespace,
                    workflow_id=run.workflow_id,
                    run_id=run.run_id,
                    kind=kind,
                    sequence=sequence,
                    fire_at_ms=fire_at_ms,
                )
            )
        return commands
