"""What two logs prove of one another."""

from raftflow.cluster.consensus.proof import LogMap, Point, highest_common
from raftflow.raftlog.salvage import Run


def test_the_last_index_with_one_term_is_what_two_logs_share() -> None:
    mine = LogMap(Point(0, 0), (Run(1, 4, 1), Run(6, 9, 2)))
    assert highest_common(mine, LogMap(Point(2, 1), (Run(3, 5, 1), Run(6, 7, 2)))) == Point(7, 2)
    assert highest_common(mine, LogMap(Point(0, 0), (Run(1, 5, 1), Run(6, 9, 3)))) == Point(4, 1)
    assert highest_common(mine, LogMap(Point(20, 3))) is None


def test_a_point_is_as_good_as_an_entry() -> None:
    mine = LogMap(Point(0, 0), (Run(1, 2, 1),), (Point(5, 2),))
    assert highest_common(mine, LogMap(Point(5, 2), (Run(6, 8, 2),))) == Point(5, 2)


def test_readable_to_ends_at_the_first_gap() -> None:
    known = LogMap(Point(0, 0), (Run(1, 2, 1), Run(3, 5, 2), Run(7, 9, 2)))
    assert [known.readable_to(index) for index in (1, 4, 6, 7)] == [5, 5, 5, 9]
