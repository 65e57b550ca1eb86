"""Tokens as the log knows them: what they look like, and when one is no longer good.

Its text is `rf_<id>_<secret>`. The id is public and names the row; of the secret only a salted hash
is ever said. Whether a secret is right is asked at the edge; here only the row counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from raftflow.engine.state import TokenRecord

TOKEN_ID = re.compile(r"[a-z2-7]{12}")
SALT_BYTES = 16
DIGEST_BYTES = 32
MAX_TOKENS = 10_000
MAX_NAMESPACES = 100
MAX_SESSIONS = 100  # of one token
# A token that is no longer good is listed for so long, so that people see what became of it.
KEPT_MS = 30 * 24 * 3_600_000


def problem(tokens: Mapping[str, TokenRecord], token_id: str, now_ms: int) -> str:
    """Why the token is not good; "" when it is. A session is over with its parent."""
    record = tokens.get(token_id)
    if record is None:
        return "the token is not known"
    if record.revoked_ms:
        return "the token was revoked"
    if record.expires_ms and record.expires_ms <= now_ms:
        return "the token has expired"
    if TOKEN_ID.fullmatch(record.parent) and problem(tokens, record.parent, now_ms):
        return "the token of this session is no longer good"
    return ""


def outdated(tokens: Mapping[str, TokenRecord], now_ms: int) -> tuple[str, ...]:
    """What may be forgotten: sessions at once, other tokens after a while."""
    return tuple(
        [
            token_id
            for token_id in sorted(tokens)
            if _ended_ms(record := tokens[token_id]) <= now_ms - (0 if record.parent else KEPT_MS)
            if problem(tokens, token_id, now_ms)
        ]
    )


def _ended_ms(record: TokenRecord) -> int:
    """When it ended or ends by itself; a session may end with its parent at any time before."""
    return 0 if record.parent else record.revoked_ms or record.expires_ms
