"""Digests: of the state (rolled over each batch's rows) and of what a caller sent."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

DIGEST_BYTES = 16
EMPTY = bytes(DIGEST_BYTES)


def roll(previous: bytes, index: int, rows: Iterable[bytes]) -> bytes:
    """The digest after the entry ``index`` changed these rows, given the one before it. Equal logs
    give equal digests on every node; rows come in the order of Changes."""
    digest = blake2b(previous, digest_size=DIGEST_BYTES)
    digest.update(index.to_bytes(8, "little"))
    for row in rows:
        digest.update(len(row).to_bytes(8, "little"))
        digest.update(row)
    return digest.digest()


def of_parts(*parts: str | bytes) -> bytes:
    """An unambiguous digest of a few fields: their lengths, then their bytes."""
    raw = [p if isinstance(p, bytes) else p.encode("utf-8", "surrogatepass") for p in parts]
    lengths = ",".join([str(len(each)) for each in raw])
    return blake2b(b"".join([lengths.encode(), b";", *raw]), digest_size=DIGEST_BYTES).digest()
