"""Which request ids are surely new: two bit maps that forget by log time.

Nearly every request id is one that nobody has seen, and to ask the store for it would cost each
entry a hop to a thread and back on every node. Here "no" is certain, and "maybe" asks the store.
"""

from __future__ import annotations

from collections.abc import Iterable

from raftflow.engine.dedup import REQUEST_TTL_MS

RequestKey = tuple[str, str]

# For a thousand ids a second, two in a hundred are asked for in vain.
_BITS = 1 << 23
_MASK = _BITS - 1


class Sieve:
    """Owned by one event loop. Until it is `fill`ed with what the store holds, all may be known."""

    __slots__ = ("_filled", "_new", "_old", "_turn_at_ms")

    def __init__(self) -> None:
        self._filled = False
        self._new = bytearray(_BITS // 8)
        self._old = bytearray(_BITS // 8)
        self._turn_at_ms = 0  # expiry from which on ids belong to the next map

    def fill(self, bits: bytes) -> None:
        """Take in the `bits_of` every id that was stored when the working set was still empty."""
        joined = int.from_bytes(self._new, "little") | int.from_bytes(bits, "little")
        self._new = bytearray(joined.to_bytes(_BITS // 8, "little"))
        self._filled = True

    def add(self, key: RequestKey, expires_ms: int) -> None:
        """An id is remembered until ``expires_ms``, which never falls from call to call."""
        if expires_ms >= self._turn_at_ms:
            # By the time the next turn drops this map, all ids in it have expired.
            self._old, self._new = self._new, bytearray(_BITS // 8)
            self._turn_at_ms = expires_ms + REQUEST_TTL_MS
        _set(self._new, key)

    def may_know(self, key: RequestKey) -> bool:
        """False: this id is surely not remembered."""
        if not self._filled:
            return True
        first, second = _places(key)
        return _has(self._new, first, second) or _has(self._old, first, second)


def bits_of(keys: Iterable[RequestKey]) -> bytes:
    """The map of these ids, for `Sieve.fill`."""
    bits = bytearray(_BITS // 8)
    for key in keys:
        _set(bits, key)
    return bytes(bits)


def _places(key: RequestKey) -> tuple[int, int]:
    # The hash differs from process to process; only how often the store is asked depends on it.
    mixed = hash(key)
    return mixed & _MASK, (mixed >> 32) & _MASK


def _set(bits: bytearray, key: RequestKey) -> None:
    for place in _places(key):
        bits[place >> 3] |= 1 << (place & 7)


def _has(bits: bytearray, first: int, second: int) -> bool:
    return bool(bits[first >> 3] >> (first & 7) & 1 and bits[second >> 3] >> (second & 7) & 1)
