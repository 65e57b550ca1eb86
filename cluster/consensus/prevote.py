"""Pre-vote: ask before disturbing (CONSENSUS row 14; Raft dissertation §9.6).

A node whose election deadline has passed first asks whether it could win. Nobody changes term for
that, and whoever hears a leader refuses, so that a node which was cut off or paused deposes nobody.
"""

from __future__ import annotations

from collections.abc import Collection

from raftflow.cluster.consensus.electorate import Electorate


class PreVote:
    """The pre-vote that this node has under way, if any."""

    def __init__(self) -> None:
        self._asked_term = 0
        self._granted: set[str] = set()

    @property
    def active(self) -> bool:
        return self._asked_term > 0

    def won(self, electorate: Electorate) -> bool:
        return self.active and electorate.agreed(self._granted)

    def start(self, term: int, granted: Collection[str]) -> None:
        """`granted` is this node, if it counts."""
        self._asked_term = term
        self._granted = set(granted)

    def stop(self) -> None:
        self._asked_term = 0
        self._granted.clear()

    def granted(self, voter: str, *, asked_term: int) -> None:
        if asked_term == self._asked_term:
            self._granted.add(voter)


def would_vote(
    *,
    asked_term: int,
    own_term: int,
    candidate_log: tuple[int, int],
    own_log: tuple[int, int],
    hears_leader: bool,
) -> bool:
    """Logs are compared as (last term, last index): Raft §5.4.1."""
    return asked_term > own_term and candidate_log >= own_log and not hears_leader
