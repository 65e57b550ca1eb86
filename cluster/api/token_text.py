"""The text of a minted token: `rf_<id>_<secret>`. The id is public and names its row; the secret is
32 random bytes, shown once. With so many, one salted SHA-256 is as good as any slow hash."""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256

from raftflow.engine.state import TokenRecord
from raftflow.engine.tokens import DIGEST_BYTES, SALT_BYTES

_TEXT = re.compile(r"rf_([a-z2-7]{12})_([A-Za-z0-9_-]{43})")
_SECRET_BYTES = 32
_ID_BYTES = 8  # 13 characters of base32, of which 12 are kept
_ID_LENGTH = 12


@dataclass(frozen=True, slots=True, repr=False)
class NewToken:
    """``text`` is for its holder's eyes; the log gets all else."""

    token_id: str
    text: str
    salt: bytes
    digest: bytes


def new_token() -> NewToken:
    token_id = base64.b32encode(secrets.token_bytes(_ID_BYTES)).decode().lower()[:_ID_LENGTH]
    secret = base64.urlsafe_b64encode(secrets.token_bytes(_SECRET_BYTES)).decode().rstrip("=")
    salt = secrets.token_bytes(SALT_BYTES)
    return NewToken(token_id, f"rf_{token_id}_{secret}", salt, _digest(salt, secret))


def parsed(text: str) -> tuple[str, str] | None:
    """Id and secret; None when it is no minted token."""
    match = _TEXT.fullmatch(text)
    return None if match is None else (match[1], match[2])


def fits(record: TokenRecord | None, secret: str) -> bool:
    """Whether it is the secret of this row. It takes as long without one."""
    salt, digest = (_NO_SALT, _NO_DIGEST) if record is None else (record.salt, record.digest)
    same = hmac.compare_digest(_digest(salt, secret), digest)
    return same and record is not None


def _digest(salt: bytes, secret: str) -> bytes:
    return sha256(salt + secret.encode()).digest()


_NO_SALT = bytes(SALT_BYTES)
_NO_DIGEST = bytes(DIGEST_BYTES)
