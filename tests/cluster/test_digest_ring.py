"""Where two states began to differ."""

from __future__ import annotations

import pytest

from raftflow.cluster.digest_ring import DigestRing


def ring(digests: str, *, start: int = 0, kept: int = 100) -> DigestRing:
    """One digest a letter, the first that of the state after entry ``start``."""
    made = DigestRing(kept)
    if start:
        made.restart(start, digests[0].encode() * 16)
        digests = digests[1:]
    for letter in digests:
        made.add(letter.encode() * 16, {"runs": ord(letter)})
    return made


def test_digests_are_kept_for_each_entry() -> None:
    made = ring("abc")
    assert [made.at(index) for index in range(5)] == [
        None,
        b"a" * 16,
        b"b" * 16,
        b"c" * 16,
        None,
    ]
    assert made.newest == 3
    assert made.parts_at(2) == {"runs": ord("b")}


def test_the_oldest_are_dropped() -> None:
    made = ring("abcdef", kept=3)
    assert (made.oldest, made.newest) == (4, 6)
    assert made.at(3) is None
    assert made.at(4) == b"d" * 16


def test_a_state_from_elsewhere_begins_anew() -> None:
    made = ring("abc")
    made.restart(70, b"x" * 16)
    assert (made.oldest, made.newest, made.at(70)) == (70, 70, b"x" * 16)
    assert made.parts_at(70) == {}


@pytest.mark.parametrize(
    ("own", "theirs", "first"),
    [
        ("abcdef", "abcdef", 0),
        ("abcdef", "abcxyz", 4),
        ("abcdef", "xyzuvw", 1),
        ("abcdef", "abcdex", 6),
        ("abcdef", "abx", 3),
        ("ab", "abxyz", 0),
    ],
)
def test_the_first_that_differs(own: str, theirs: str, first: int) -> None:
    other = ring(theirs)
    assert ring(own).first_difference(other.oldest, other.shortened()) == first


def test_rings_that_begin_elsewhere() -> None:
    late = ring("cdxyz", start=3)
    assert ring("abcdef").first_difference(late.oldest, late.shortened()) == 5
    assert late.first_difference(0, ring("abcdef").shortened()) == 5
    apart = ring("z", start=900)
    assert late.first_difference(apart.oldest, apart.shortened()) == 0
