"""Tokens: minted, revoked, and in the end forgotten."""

from __future__ import annotations

from raftflow.engine import tokens
from raftflow.engine.commands import MintToken, RevokeToken
from raftflow.engine.decide.context import DONE, Context, Verdict, no_namespace, refuse
from raftflow.engine.ids import id_problem
from raftflow.engine.limits import MAX_DURATION_MS
from raftflow.engine.rejections import Minted, Reason
from raftflow.engine.state import TokenRecord
from raftflow.engine.transitions import TokenMinted, TokenRevoked, TokensForgotten


def mint(ctx: Context, command: MintToken) -> Verdict:
    if problem := _problem(ctx, command):
        return refuse(Reason.INVALID_COMMAND, problem)
    for namespace in command.namespaces:
        if not ctx.has_namespace(namespace):
            return no_namespace(namespace)
    known = ctx.state.catalog.tokens
    gone = tokens.outdated(known, ctx.time_ms)
    if len(known) - len(gone) >= tokens.MAX_TOKENS:
        message = f"{tokens.MAX_TOKENS} tokens and sessions are kept, the limit: revoke some"
        return refuse(Reason.LIMIT_EXCEEDED, message)
    if command.parent:
        sessions = [each for each, record in known.items() if record.parent == command.parent]
        if len(set(sessions).difference(gone)) >= tokens.MAX_SESSIONS:
            message = f"this token has {tokens.MAX_SESSIONS} sessions, the limit: log out of some"
            return refuse(Reason.LIMIT_EXCEEDED, message)
    expires_ms = ctx.time_ms + command.lifetime_ms if command.lifetime_ms else 0
    minted = TokenMinted(
        TokenRecord(
            token_id=command.token_id,
            name=command.name,
            role=command.role,
            namespaces=command.namespaces,
            sees_payloads=command.sees_payloads,
            salt=command.salt,
            digest=command.digest,
            created_ms=ctx.time_ms,
            expires_ms=expires_ms,
            parent=command.parent,
        )
    )
    return Verdict(Minted(command.token_id, expires_ms), None, (TokensForgotten(gone), minted))


def revoke(ctx: Context, command: RevokeToken) -> Verdict:
    record = ctx.state.catalog.tokens.get(command.token_id)
    if record is None:
        return refuse(Reason.TOKEN_NOT_FOUND, f"there is no token {command.token_id!r}")
    if record.revoked_ms:
        return Verdict(DONE)
    return Verdict(DONE, None, (TokenRevoked(command.token_id),))


def _problem(ctx: Context, command: MintToken) -> str | None:
    if not tokens.TOKEN_ID.fullmatch(command.token_id):
        return "a token id is 12 characters of lower-case base32"
    if command.token_id in ctx.state.catalog.tokens:
        return f"token id {command.token_id!r} is taken"
    if (len(command.salt), len(command.digest)) != (tokens.SALT_BYTES, tokens.DIGEST_BYTES):
        return f"salt and digest have {tokens.SALT_BYTES} and {tokens.DIGEST_BYTES} bytes"
    if not 0 <= command.lifetime_ms <= MAX_DURATION_MS:
        return f"lifetime_ms is {command.lifetime_ms}, it must be 0 (for ever) to {MAX_DURATION_MS}"
    if len(command.namespaces) > tokens.MAX_NAMESPACES:
        return f"a token names {tokens.MAX_NAMESPACES} namespaces at most"
    return id_problem("name", command.name)
