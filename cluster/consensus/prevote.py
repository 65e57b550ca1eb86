"""Pre-vote: ask before disturbing (CONSENSUS row 14; Raft dissertation §9.6).

A node whose election deadline has passed first asks whether it could win. Nobody changes term for
that, and whoever hears a leader refuses, so that a node which was cut off or paused deposes nobody.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from raftflow.cluster.consensus.electorate import Electorate


class Objection(StrEnum):
    """Why a node does not help another to lead."""

    TERM_OVER = "term_over"  # that term is not newer than the node's own
    LOG_BEHIND = "log_behind"  # the candidate lacks entries that the node has
    HEARS_LEADER = "hears_leader"
    VOTED = "voted"  # for another, in this term
    ABSTAINS = "abstains"  # the node lost what it had acknowledged (row 19)
    OTHER_DISK = "other_disk"  # the candidate came back without its disk (row 20)
    STRANGER = "stranger"  # the candidate is no member, as far as the node knows (row 21)


class PreVote:
    """The pre-vote that this node has under way, if any."""

    def __init__(self) -> None:
        self._asked_term = 0
        self._granted: set[str] = set()

    @property
    def active(self) -> bool:
        return self._asked_term > 0

    @property
    def granted_by(self) -> frozenset[str]:
        return frozenset(self._granted)

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


def objection(
    *,
    asked_term: int,
    own_term: int,
    candidate_log: tuple[int, int],
    own_log: tuple[int, int],
    hears_leader: bool,
) -> Objection:
    """Which of these it is, where `would_vote` says no; what an operator can cure comes first."""
    if candidate_log < own_log:
        return Objection.LOG_BEHIND
    return Objection.HEARS_LEADER if hears_leader else Objection.TERM_OVER
