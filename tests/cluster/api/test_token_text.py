"""What a minted token looks like, and what is kept of it."""

from __future__ import annotations

from raftflow.cluster.api.token_text import fits, new_token, parsed
from raftflow.engine.commands import Role
from raftflow.engine.state import TokenRecord
from raftflow.engine.tokens import TOKEN_ID


def record_of(token_id: str, salt: bytes, digest: bytes) -> TokenRecord:
    return TokenRecord(
        token_id=token_id,
        name="n",
        role=Role.USER,
        namespaces=(),
        sees_payloads=False,
        salt=salt,
        digest=digest,
        created_ms=1,
        expires_ms=0,
    )


def test_id_and_secret() -> None:
    made = new_token()
    token_id, secret = parsed(made.text) or ("", "")
    assert token_id == made.token_id
    assert TOKEN_ID.fullmatch(token_id)
    assert (len(secret), len(made.salt), len(made.digest)) == (43, 16, 32)
    assert secret not in repr(made)
    record = record_of(made.token_id, made.salt, made.digest)
    assert fits(record, secret)
    assert not fits(record, secret[:-1] + "_")
    assert not fits(None, secret)


def test_no_two_are_alike() -> None:
    made = [new_token() for _ in range(50)]
    assert len({each.token_id for each in made}) == len({each.salt for each in made}) == 50


def test_what_is_no_token() -> None:
    text = new_token().text
    for other in ("", "rf_", text[:-1], text + "a", text.upper(), "x" + text, text + "\n"):
        assert parsed(other) is None, other
