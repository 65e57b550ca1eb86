"""Which term an entry has, without reading it: terms come in few, long runs."""

from __future__ import annotations

from bisect import bisect_right

_ABOVE_ALL_TERMS = 1 << 64


class Terms:
    """The terms of the entries after (prev_index, prev_term), up to last_index."""

    __slots__ = ("_runs", "last_index", "prev_index", "prev_term")

    def __init__(self, prev_index: int, prev_term: int) -> None:
        self.prev_index = self.last_index = prev_index
        self.prev_term = prev_term
        self._runs: list[tuple[int, int]] = []  # (first index, term), ascending

    @property
    def last_term(self) -> int:
        return self._runs[-1][1] if self._runs else self.prev_term

    def get(self, index: int) -> int | None:
        if not self.prev_index <= index <= self.last_index:
            return None
        if index == self.prev_index:
            return self.prev_term
        return self._runs[bisect_right(self._runs, (index, _ABOVE_ALL_TERMS)) - 1][1]

    def __getitem__(self, index: int) -> int:
        term = self.get(index)
        assert term is not None, f"entry {index} is not there"
        return term

    def runs(self) -> list[tuple[int, int, int]]:
        """(first, last, term), in order."""
        firsts = [max(first, self.prev_index + 1) for first, _ in self._runs]
        lasts = [first - 1 for first in firsts[1:]] + [self.last_index]
        terms = [term for _, term in self._runs]
        return list(zip(firsts, lasts, terms, strict=True)) if terms else []

    def extend(self, count: int, term: int) -> None:
        """The next `count` entries are of this term."""
        if count and (not self._runs or self._runs[-1][1] != term):
            self._runs.append((self.last_index + 1, term))
        self.last_index += count

    def follow(self, other: Terms) -> None:
        """Add the entries of `other`, which begin after the last one here."""
        firsts = [first for first, _ in other._runs] + [other.last_index + 1]
        for position, (first, term) in enumerate(other._runs):
            self.extend(firsts[position + 1] - first, term)

    def cut_from(self, index: int) -> None:
        """Forget the entries from `index` on."""
        assert self.prev_index < index
        while self._runs and self._runs[-1][0] >= index:
            self._runs.pop()
        self.last_index = min(self.last_index, index - 1)

    def start_after(self, index: int) -> None:
        """Forget the entries up to `index`, which stays as the boundary."""
        self.prev_term = self[index]
        self.prev_index = index
        while len(self._runs) > 1 and self._runs[1][0] <= index + 1:
            del self._runs[0]
        if index == self.last_index:
            self._runs.clear()
