"""What is written is read again, and calls are put together from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jepsen.history import FAIL, INFO, INVOKE, NEVER, OK, History, Op, calls, load


def test_a_stored_history_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "store" / "history.jsonl"
    with History(path) as history:
        history.record(Op("w/1", "read", INVOKE, key="k"))
        history.record(Op("w/1", "read", OK, key="k", value=["a", 0], node="n1", api="json"))
    assert load(path) == history.ops
    assert all(op.time_ns for op in history.ops)


def test_a_last_line_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with History(path) as history:
        history.record(Op("w/1", "read", INVOKE))
    whole = path.read_text()
    path.write_text(whole + whole[:20])
    assert load(path) == history.ops
    path.write_text(whole[:20] + "\n" + whole)
    with pytest.raises(ValueError, match="not an operation"):
        load(path)


def test_calls_end_once_or_never() -> None:
    ops = [
        Op("w/1", "write", INVOKE, value=1, time_ns=1),
        Op("w/2", "read", INVOKE, time_ns=2),
        Op("w/2", "read", FAIL, time_ns=3, error="UNAVAILABLE"),
        Op("w/1", "write", INFO, time_ns=4),
        Op("w/3", "write", INVOKE, value=2, time_ns=5),
    ]
    found = calls(ops)
    ends = [(call.process, call.kind, call.end_ns) for call in found]
    assert ends == [("w/1", INFO, NEVER), ("w/2", FAIL, 3), ("w/3", INFO, NEVER)]
    assert [call.arguments for call in found] == [1, None, 2]


def test_an_end_without_a_beginning_is_a_bug_of_the_suite() -> None:
    with pytest.raises(ValueError, match="never began"):
        calls([Op("w/1", "read", OK)])
