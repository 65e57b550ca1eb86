"""When a token is no longer good, and when it may be forgotten."""

from __future__ import annotations

from raftflow.engine.commands import Role
from raftflow.engine.state import TokenRecord
from raftflow.engine.tokens import KEPT_MS, outdated, problem

NOW = 10 * KEPT_MS


def token(name: str, *, expires_ms: int = 0, revoked_ms: int = 0, parent: str = "") -> TokenRecord:
    return TokenRecord(
        token_id=name * 12,
        name=name,
        role=Role.USER,
        namespaces=(),
        sees_payloads=False,
        salt=b"",
        digest=b"",
        created_ms=1,
        expires_ms=expires_ms,
        revoked_ms=revoked_ms,
        parent=parent,
    )


def table(*records: TokenRecord) -> dict[str, TokenRecord]:
    return {record.token_id: record for record in records}


def test_when_it_is_not_good() -> None:
    tokens = table(
        token("a"),
        token("b", expires_ms=NOW),
        token("c", expires_ms=NOW + 1),
        token("d", revoked_ms=1),
        token("e", parent="a" * 12),
        token("f", parent="d" * 12),
        token("g", parent="z" * 12),
        token("h", parent="file:root:abcd"),
        token("i", parent="b" * 12, expires_ms=NOW + 1),
    )
    good = [each for each in "abcdefghiz" if not problem(tokens, each * 12, NOW)]
    assert good == ["a", "c", "e", "h"]
    assert problem(tokens, "", NOW)


def test_what_is_forgotten() -> None:
    long_ago = NOW - KEPT_MS
    tokens = table(
        token("z", revoked_ms=long_ago),  # the order in which they are held does not matter
        token("a"),
        token("b", revoked_ms=long_ago + 1),
        token("c", expires_ms=long_ago),
        token("d", expires_ms=NOW + KEPT_MS),
        token("e", parent="a" * 12),
        token("f", parent="b" * 12),
        token("g", parent="file:root:abcd", expires_ms=NOW),
    )
    assert [each[0] for each in outdated(tokens, NOW)] == ["c", "f", "g", "z"]
