from __future__ import annotations

from pathlib import Path

import pytest
from engine_harness import EngineHarness
from engine_script import play, scripts

from raftflow.engine import tokens
from raftflow.engine.commands import MintToken, RevokeToken, Role
from raftflow.engine.rejections import Minted, Reason, Rejection


@pytest.mark.parametrize("script", scripts("token"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite: bool) -> None:
    play(script, rewrite=rewrite)


def test_a_token_has_so_many_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_SESSIONS", 2)
    harness = EngineHarness()
    parent = "p" * 12
    assert isinstance(harness.do(mint(parent)), Minted)
    for each in "ab":
        assert isinstance(harness.do(mint(each * 12, parent=parent)), Minted)
    refused = harness.do(mint("c" * 12, parent=parent))
    assert isinstance(refused, Rejection)
    assert refused.reason is Reason.LIMIT_EXCEEDED
    harness.do(RevokeToken(token_id="a" * 12, request_id=""))
    assert isinstance(harness.do(mint("c" * 12, parent=parent)), Minted)
    assert set(harness.rows.tokens) == {parent, "b" * 12, "c" * 12}


def test_so_many_tokens_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_TOKENS", 1)
    harness = EngineHarness()
    assert isinstance(harness.do(mint("a" * 12)), Minted)
    refused = harness.do(mint("b" * 12))
    assert isinstance(refused, Rejection)
    assert refused.message == "1 tokens and sessions are kept, the limit: revoke some"


def mint(token_id: str, *, parent: str = "") -> MintToken:
    return MintToken(
        token_id=token_id,
        name="n",
        role=Role.USER,
        namespaces=(),
        sees_payloads=False,
        salt=b"s" * 16,
        digest=b"d" * 32,
        lifetime_ms=0,
        parent=parent,
        request_id="",
    )
