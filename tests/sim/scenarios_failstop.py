"""Scripted runs: what cannot be kept ends the node."""

from __future__ import annotations

from pysyncobj.node import Node as RaftNode

from raftflow.raftlog.journal import LogEntry
from tests.sim.checkers import require
from tests.sim.node import FailStop
from tests.sim.staging import (
    followers_of,
    healthy,
    leader_of,
    scenario,
)


@scenario
def a_failed_apply_ends_the_node() -> None:
    """Row 11: once, and the process ends."""
    world = healthy()
    leader = leader_of(world)

    def fail(_entries: list[LogEntry]) -> None:
        raise RuntimeError("disk of the store is gone")

    leader.on_commit = fail
    try:
        leader.propose(b"x")
        world.run_for(0.5)
    except FailStop as stopped:
        require(leader.name in str(stopped), "the node that failed ends")
    else:
        require(False, "a failed apply ends the node")


@scenario
def a_vote_that_cannot_be_stored_is_not_given() -> None:
    """Rows 1, 17: the disk refuses; the node ends and no vote leaves it."""
    world = healthy()
    leader, (voter, _other) = leader_of(world), followers_of(world)
    given: list[dict] = []

    def refuse(*_arguments: object) -> None:
        raise OSError(5, "input/output error")

    voter.disk.fdatasync = refuse
    voter.transport.send = lambda _target, message: given.append(message) or True
    term = voter.core.term + 1
    message = {"type": "request_vote", "term": term, "last_log_index": 1 << 40}
    try:
        voter.transport._onMessageReceived(
            RaftNode(leader.name), message | {"last_log_term": voter.core.term}
        )
    except FailStop:
        require(not given, "no message leaves it", given=given)
    else:
        require(False, "a vote that cannot be stored ends the node", given=given)
