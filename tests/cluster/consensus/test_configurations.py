"""Which configuration is in force, entry by entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.consensus.configurations import CONFIGURATION, Configurations, Held
from raftflow.cluster.consensus.membership import Configuration, Member, MembershipError, encode
from raftflow.raftlog.journal import LogEntry

BIRTH = Configuration((Member("a", "a:1"),))


def named(number: int) -> Configuration:
    return BIRTH.put(Member(f"b{number}", "", voter=False))


def entry(index: int, configuration: Configuration | None = None, term: int = 1) -> LogEntry:
    payload = b"\0x" if configuration is None else CONFIGURATION + encode(configuration)
    return LogEntry(index, term, payload)


def test_in_force_when_appended_and_undone_when_cut() -> None:
    log = Configurations(0, BIRTH)
    assert not log.open
    log.append([entry(1), entry(2, named(2)), entry(3)])
    assert log.newest == Held(2, named(2))
    assert log.committed == Held(0, BIRTH)
    assert log.open
    log.truncate_from(3)
    assert log.newest.index == 2
    log.truncate_from(2)
    assert log.newest == Held(0, BIRTH)


def test_what_is_committed_is_told_once_and_never_undone() -> None:
    log = Configurations(0, BIRTH)
    log.append([entry(2, named(2)), entry(4, named(4)), entry(6, named(6))])
    assert log.commit(1) == []
    assert [held.index for held in log.commit(5)] == [2, 4]
    assert log.commit(5) == []
    log.truncate_from(1)
    assert log.newest == Held(4, named(4))


def test_a_snapshot_may_bring_a_newer_one_than_the_log_has() -> None:
    log = Configurations(0, BIRTH)
    log.append([entry(2, named(2)), entry(9, named(9))])
    log.install(Held(5, named(5)))
    assert log.committed == Held(5, named(5))
    assert log.newest == Held(9, named(9))  # the log goes on from it
    log.install(Held(3, named(3)))
    assert log.committed == Held(5, named(5))
    log.append([entry(5, named(5))])  # its entry comes later, by the log
    assert log.newest.index == 9


def test_a_log_that_begins_anew_says_nothing_any_more() -> None:
    log = Configurations(0, BIRTH)
    log.append([entry(2, named(2))])
    log.forget()
    assert log.newest == Held(0, BIRTH)


def test_damage_is_no_configuration() -> None:
    with pytest.raises(MembershipError):
        Configurations(0, BIRTH).append([LogEntry(1, 1, CONFIGURATION + b"\xff\xff")])


@given(st.lists(st.tuples(st.sampled_from(["plain", "change", "cut", "commit"]), st.integers(1))))
def test_the_newest_is_always_the_last_in_the_log(steps: list[tuple[str, int]]) -> None:
    log, entries, committed = Configurations(0, BIRTH), [Held(0, BIRTH)], 0
    for kind, number in steps:
        last = entries[-1].index
        if kind in ("plain", "change"):
            configuration = named(last + 1) if kind == "change" else None
            log.append([entry(last + 1, configuration)])
            entries.append(Held(last + 1, configuration or entries[-1].configuration))
        elif kind == "cut":
            first = committed + 1 + number % (last - committed + 1)
            log.truncate_from(first)
            del entries[first:]
        else:
            committed += number % (last - committed + 1)
            log.commit(committed)
        assert log.newest.configuration == entries[-1].configuration
        assert log.committed.configuration == entries[committed].configuration
