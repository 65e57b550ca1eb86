from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftflow.engine.ids import MAX_ID_BYTES, TokenParts, format_token, id_problem, parse_token


@pytest.mark.parametrize("value", ["order-1", 'a/b "c"', "注文 🛒", "x" * MAX_ID_BYTES, "a.b.c"])
def test_these_are_ids(value: str) -> None:
    assert id_problem("workflow_id", value) is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "workflow_id must not be empty"),
        ("x" * 1_001, "workflow_id has 1001 bytes, the limit is 1000"),
        ("é" * 501, "workflow_id has 1002 bytes, the limit is 1000"),
        ("a\nb", "workflow_id contains a control character"),
        ("a\x7f", "workflow_id contains a control character"),
        ("a\x85", "workflow_id contains a control character"),
        ("\ud800", "workflow_id is not valid UTF-8"),
    ],
)
def test_these_are_not(value: str, problem: str) -> None:
    assert id_problem("workflow_id", value) == problem


ids = st.text(min_size=1, max_size=20)
nonces = st.text(alphabet="0123456789abcdef", min_size=1, max_size=16)


@given(ids, ids, st.integers(0, 10**17), nonces)
def test_tokens_come_back(namespace: str, run_id: str, number: int, nonce: str) -> None:
    parts = TokenParts(namespace, run_id, number, nonce)
    assert parse_token(format_token(parts)) == parts


@given(st.text())
def test_garbage_is_no_token(text: str) -> None:
    parts = parse_token(text)
    assert parts is None or text.startswith("rf1.")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "rf1",
        "rf2.ZGVmYXVsdA.r.1.n",
        "rf1.ZGVmYXVsdA.r.-1.n",
        "rf1.ZGVmYXVsdA.r.².n",
        "rf1.%.r.1.n",
        "rf1./w.r.1.n",
        "rf1.ZGVmYXVsdA.r." + "9" * 30 + ".n",
    ],
)
def test_near_tokens_are_none(token: str) -> None:
    assert parse_token(token) is None
