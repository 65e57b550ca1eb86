"""Bytes that nearly are what we wrote: a corpus, bent by what fuzzers have found to work."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
# CI repeats the same examples; `make soak` takes others each time.
SEEDED = "FUZZ_EXAMPLES" not in os.environ
INTERESTING = (0, 1, 2, 4, 7, 8, 16, 23, 24, 25, 127, 128, 255, 256, 4095, 4096, 65535, 1 << 31)


def fuzzed(*, share: int = 1) -> settings:
    """``share``: costly examples are one in so many."""
    return settings(
        max_examples=max(10, EXAMPLES // share),
        deadline=None,
        database=None,
        derandomize=SEEDED,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


class Blob(bytes):
    """Too long to be printed when an example fails."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes, sha256 {hashlib.sha256(self).hexdigest()[:12]}>"


@st.composite
def bent(draw: st.DrawFn, corpus: Sequence[bytes]) -> bytes:
    """One of the corpus, changed in one to four ways; now and then anything at all."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.binary(max_size=300))
    data = bytearray(draw(st.sampled_from(corpus)))
    for _ in range(draw(st.integers(1, 4))):
        _bend(draw, data, corpus)
    return Blob(data) if len(data) > 10_000 else bytes(data)


def _bend(draw: st.DrawFn, data: bytearray, corpus: Sequence[bytes]) -> None:
    at = draw(st.integers(0, max(0, len(data) - 1)))
    size = draw(st.integers(0, 64))
    match draw(st.integers(0, 8)):
        case 0 if data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        case 1 if data:
            data[at] = draw(st.integers(0, 255))
        case 2:
            del data[at:]
        case 3:
            del data[at : at + size]
        case 4:
            data[at:at] = draw(st.binary(max_size=64))
        case 5:
            data[at : at + size] = bytes(min(size, len(data) - at))
        case 6:
            number = draw(st.sampled_from(INTERESTING))
            width = draw(st.sampled_from((1, 2, 4, 8)))
            data[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, "little")
        case 7:
            data += data[at : at + size]
        case _:
            other = draw(st.sampled_from(corpus))
            start = draw(st.integers(0, max(0, len(other) - 1)))
            data[at : at + size] = other[start : start + size]
