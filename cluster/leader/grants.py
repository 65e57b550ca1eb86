"""Grants on their way: which polls got what, and when one that got nothing waits on."""

from __future__ import annotations

from dataclasses import dataclass

from raftflow.cluster.leader.matching import Match
from raftflow.cluster.nonces import nonce_for
from raftflow.engine.commands import GrantActivity, GrantDecision
from raftflow.engine.rejections import Answer, Granted
from raftflow.proto.raftflow.internal.v1 import node_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyTimes:
    """Durations (ms) that grants carry, and how long the audit log is kept (0: for ever)."""

    lease_ms: int
    decision_timeout_ms: int
    audit_retention_ms: int = 0


def grant_of(match: Match, times: DutyTimes) -> GrantDecision | GrantActivity:
    """The command that hands the task to the poll."""
    task, poll, run = match.task, match.poll, match.task.run
    if task.sequence == 0:
        return GrantDecision(
            namespace=run.namespace,
            workflow_id=run.workflow_id,
            run_id=run.run_id,
            nonce=nonce_for(poll),
            worker_id=poll.worker_id,
            node=match.node,
            poll_id=poll.poll_id,
            timeout_ms=times.decision_timeout_ms,
        )
    return GrantActivity(
        namespace=run.namespace,
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        sequence=task.sequence,
        attempt=task.attempt,
        nonce=nonce_for(poll),
        worker_id=poll.worker_id,
        node=match.node,
        poll_id=poll.poll_id,
        duration_ms=times.lease_ms,
    )


@dataclass(slots=True)
class Handing:
    """What is on its way to one poll."""

    node: str
    poll: node_pb2.Poll
    under_way: int = 0
    served: bool = False  # it is answered, or waits no more


class Grants:
    """The polls that grants are under way to."""

    def __init__(self) -> None:
        self._handings: dict[str, Handing] = {}

    def begin(self, match: Match) -> Handing:
        """One more grant for the poll."""
        handing = self._handings.get(match.poll.poll_id)
        if handing is None:
            handing = self._handings[match.poll.poll_id] = Handing(match.node, match.poll)
        handing.under_way += 1
        return handing

    def end(self, handing: Handing, answer: Answer | None) -> bool:
        """One is answered. True when it was the last and all were dropped: the poll waits for the
        next task. No answer says that we lead no more: nobody waits then."""
        handing.under_way -= 1
        handing.served |= answer is None or isinstance(answer, Granted)
        if handing.under_way:
            return False
        if self._handings.get(handing.poll.poll_id) is handing:
            del self._handings[handing.poll.poll_id]
        return not handing.served

    def withdraw(self, poll_id: str) -> None:
        """Nobody waits any more, whatever becomes of its grants."""
        handing = self._handings.get(poll_id)
        if handing is not None:
            handing.served = True

    def forget_node(self, node: str) -> None:
        """The node is gone, or announces its demand anew."""
        for handing in self._handings.values():
            if handing.node == node:
                handing.served = True

    def clear(self) -> None:
        self._handings.clear()
