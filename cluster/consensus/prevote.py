"""Pre-vote: ask before disturbing (CONSENSUS row 14; Raft dissertation §9.6).

A node whose election deadline has passed first asks whether it could win. Nobody changes term for
that, and whoever hears a leader refuses, so that a node which was cut off or paused deposes nobody.
"""

from __future__ import annotations

from collections.abc import Collection


class PreVote:
    """The pre-vote that this node has under way, if any."""

    def __init__(self, node_id: str, voters: Collection[str]) -> None:
        self._node_id = node_id
        self._majority = len(voters) // 2 + 1
        self._asked_term = 0
        self._granted: set[str] = set()

    @property
    def active(self) -> bool:
        return self._asked_term > 0

    @property
    def won(self) -> bool:
        return self.active and len(self._granted) >= self._majority

    def start(self, term: int) -> None:
        self._asked_term = term
        self._granted = {self._node_id}

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
