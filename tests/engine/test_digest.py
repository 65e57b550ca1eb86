from __future__ import annotations

from raftflow.engine.digest import EMPTY, of_parts, roll


def test_the_roll_depends_on_all_it_saw() -> None:
    once = roll(EMPTY, 1, [b"a", b"bc"])
    assert len(once) == len(EMPTY) == 16
    others = [
        roll(once, 1, [b"a", b"bc"]),
        roll(EMPTY, 2, [b"a", b"bc"]),
        roll(EMPTY, 1, [b"ab", b"c"]),
        roll(EMPTY, 1, [b"bc", b"a"]),
        roll(EMPTY, 1, []),
    ]
    assert len({once, *others}) == 6


def test_the_roll_is_the_same_for_ever() -> None:
    assert roll(EMPTY, 1, [b"row"]).hex() == "50e4963f5b1520a3715cc1826675807f"


def test_parts_do_not_run_together() -> None:
    assert (
        len({of_parts("ab", "c"), of_parts("a", "bc"), of_parts("abc"), of_parts("ab", b"c", "")})
        == 4
    )
    assert of_parts("a", b"1").hex() == "90254329e43344ba25f578b7f7b83c28"
