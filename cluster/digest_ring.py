"""What the state was after each of the last few thousand entries, as digests."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

KEPT = 8_192
MARK_EVERY = 64  # round indexes; releases before 0.3 keep the digests of these only
# Of a digest, when thousands are compared at once: two that differ agree in these by chance never.
SHORT_BYTES = 8


class DigestRing:
    """One digest an entry, without gaps; and a checksum of each kind of row that it changed."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._digests: deque[bytes] = deque()
        self._parts: deque[Mapping[str, int]] = deque()
        self.oldest = 0
        self.restart(0, b"")

    def restart(self, index: int, digest: bytes) -> None:
        """The state is this one, wherever it came from: what was before it is not known."""
        self.oldest = index
        self._digests = deque([digest])
        self._parts = deque([{}])

    def add(self, digest: bytes, parts: Mapping[str, int]) -> None:
        self._digests.append(digest)
        self._parts.append(parts)
        if len(self._digests) > self._kept:
            self._digests.popleft()
            self._parts.popleft()
            self.oldest += 1

    @property
    def newest(self) -> int:
        return self.oldest + len(self._digests) - 1

    def at(self, index: int) -> bytes | None:
        """None when it is too old or not reached. Before the first entry there is nothing."""
        if index < 1 or not self.oldest <= index <= self.newest:
            return None
        return self._digests[index - self.oldest]

    def parts_at(self, index: int) -> Mapping[str, int]:
        """Empty when they are not known."""
        return self._parts[index - self.oldest] if self.oldest <= index <= self.newest else {}

    def shortened(self) -> bytes:
        """All of them in a row, each cut short; the first is that of `oldest`."""
        return b"".join([digest[:SHORT_BYTES].ljust(SHORT_BYTES) for digest in self._digests])

    def first_difference(self, first: int, shortened: bytes) -> int:
        """The first index at which another ring, told so, differs from this one; 0 when none does.
        States that differ once differ for ever."""
        low = max(self.oldest, first, 1)
        high = min(self.newest, first + len(shortened) // SHORT_BYTES - 1)
        if high < low or self._agrees(high, first, shortened):
            return 0
        while low < high:
            middle = (low + high) // 2
            if self._agrees(middle, first, shortened):
                low = middle + 1
            else:
                high = middle
        return low

    def _agrees(self, index: int, first: int, shortened: bytes) -> bool:
        start = (index - first) * SHORT_BYTES
        told = shortened[start : start + SHORT_BYTES]
        return self._digests[index - self.oldest][:SHORT_BYTES].ljust(SHORT_BYTES) == told
