"""Linearizable read indexes (CONSENSUS row 15; Raft dissertation §6.4).

Everything that waits shares a round: the leader notes its commit index, numbers the round, and
every append from then on carries the number. When a majority has answered a message with that
number, the leader led after the reads arrived, and the noted index is safe to read at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

Done = Callable[[int | None], None]
# The newest round that a majority has answered, from what each peer and this node have.
Confirmed = Callable[[Mapping[str, int], int], int]


class LeaderReads:
    """Reads at the leader, one leadership long."""

    def __init__(self, confirmed: Confirmed) -> None:
        self._confirmed = confirmed
        self._waiting: list[Done] = []
        self._open: deque[tuple[int, int, list[Done]]] = deque()
        self._echoed: dict[str, int] = {}
        self.round = 1

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def add(self, done: Done) -> None:
        self._waiting.append(done)

    def open_round(self, commit_index: int) -> None:
        self.round += 1
        self._open.append((self.round, commit_index, self._waiting))
        self._waiting = []
        self.confirm()

    def echo(self, peer: str, round_: int) -> None:
        """`peer` answered, in this leader's term, a message that carried this round."""
        if round_ > self._echoed.get(peer, 0):
            self._echoed[peer] = round_
            self.confirm()

    def fail(self) -> None:
        failed, self._waiting = self._waiting, []
        for _round, _index, waiting in self._open:
            failed.extend(waiting)
        self._open.clear()
        for done in failed:
            done(None)

    def confirm(self) -> None:
        """Answer what a majority has confirmed: called also when the voters change."""
        if not self._open:
            return
        confirmed = self._confirmed(self._echoed, self.round)
        while self._open and self._open[0][0] <= confirmed:
            _round, index, waiting = self._open.popleft()
            for done in waiting:
                done(index)


class ForwardedReads:
    """Reads at a follower, waiting for the leader's answer."""

    def __init__(self, first_id: int) -> None:
        self._next_id = first_id
        self._waiting: list[Done] = []
        self._sent: dict[int, tuple[float, list[Done]]] = {}

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def add(self, done: Done) -> None:
        self._waiting.append(done)

    def send(self, *, deadline_s: float) -> int:
        """Everything that waits goes into one request; returns its id."""
        self._next_id += 1
        self._sent[self._next_id] = (deadline_s, self._waiting)
        self._waiting = []
        return self._next_id

    def answered(self, request_id: int, index: int | None) -> None:
        _deadline, waiting = self._sent.pop(request_id, (0.0, []))
        for done in waiting:
            done(index)

    def expire(self, now_s: float) -> None:
        late = [key for key, (deadline, _waiting) in self._sent.items() if deadline <= now_s]
        for key in late:
            self.answered(key, None)

    def fail(self) -> None:
        failed, self._waiting = self._waiting, []
        for _deadline, waiting in self._sent.values():
            failed.extend(waiting)
        self._sent.clear()
        for done in failed:
            done(None)
