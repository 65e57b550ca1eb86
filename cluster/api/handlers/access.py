"""Tokens, sessions and the audit log."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from raftflow.cluster.api.auth import Caller
from raftflow.cluster.api.handlers.common import execute, new_request_id
from raftflow.cluster.api.permissions import KEPT, OPERATIONS
from raftflow.cluster.api.services import NodeServices
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.token_text import new_token, parsed
from raftflow.cluster.consensus.channel import PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.features import AUDIT, TOKENS
from raftflow.cluster.store.views import AuditFilter, AuditPage
from raftflow.engine.commands import MintToken, RevokeToken, Role
from raftflow.engine.rejections import Minted
from raftflow.engine.state import TokenRecord
from raftflow.engine.tokens import TOKEN_ID

SESSION_MS = 12 * 3_600_000
APPLIED_METHOD = "node.applied"
# How long a change of tokens waits for the nodes that are to know of it.
EVERYWHERE_MS = 2_000
_BEHIND = "BEHIND"


@dataclass(frozen=True, slots=True)
class Reached:
    """Which members have applied a change, and which had not in time."""

    applied_by: Sequence[str]
    not_yet: Sequence[str]


@dataclass(frozen=True, slots=True, repr=False)
class MintedToken:
    """``text`` is shown once, to who asked for it."""

    record: TokenRecord
    text: str
    reached: Reached


async def mint(
    node: NodeServices,
    *,
    name: str,
    role: Role,
    namespaces: tuple[str, ...] = (),
    sees_payloads: bool = False,
    lifetime_ms: int = 0,
    parent: str = "",
    request_id: str,
) -> MintedToken:
    node.levels.require(TOKENS)
    made = new_token()
    command = MintToken(
        token_id=made.token_id,
        name=name,
        role=role,
        namespaces=namespaces,
        sees_payloads=sees_payloads,
        salt=made.salt,
        digest=made.digest,
        lifetime_ms=lifetime_ms,
        parent=parent,
        request_id=request_id,
    )
    answer = await execute(node, command)
    assert isinstance(answer, Minted)
    if answer.token_id != made.token_id:
        raise ApiError(
            "REQUEST_ID_REUSED",
            f"this request id has minted the token {answer.token_id}, whose secret is shown once: "
            "if nobody has it, revoke that token and mint another",
        )
    reached = await everywhere(node)
    return MintedToken(node.replica.catalog.tokens[made.token_id], made.text, reached)


def id_of(text: str) -> str:
    """The id that is meant. Whoever has the token at hand may name it by its text, which must not
    go into the log; nor may what is no id at all, since that may be a secret of another kind."""
    token_id, _ = parsed(text) or (text, "")
    if not TOKEN_ID.fullmatch(token_id):
        raise ApiError(
            "TOKEN_NOT_FOUND",
            "there is no such token: the id of one is the 12 characters behind its rf_",
        )
    return token_id


async def revoke(node: NodeServices, token_id: str, request_id: str) -> Reached:
    node.levels.require(TOKENS)
    await execute(node, RevokeToken(token_id=token_id, request_id=request_id))
    return await everywhere(node)


async def tokens(node: NodeServices) -> list[TokenRecord]:
    """All there are, oldest first."""
    await node.reads.linearizable()
    records = node.replica.catalog.tokens.values()
    return sorted(records, key=lambda record: (record.created_ms, record.token_id))


# ---- sessions -----------------------------------------------------------------------------------


async def open_session(node: NodeServices, caller: Caller) -> MintedToken:
    """A token for a page, as good as its holder's and no longer."""
    parent = node.tokens.parent_of(caller)
    if not node.tokens.on:
        raise ApiError("INVALID_FIELD", "this node asks nobody for a token")
    if not parent:
        raise ApiError("PERMISSION_DENIED", "a session opens no sessions: log in with a token")
    return await mint(
        node,
        name=f"session of {caller.actor}"[:200],
        role=caller.role,
        namespaces=tuple(sorted(caller.namespaces)),
        sees_payloads=caller.sees_payloads,
        lifetime_ms=SESSION_MS,
        parent=parent,
        request_id=new_request_id(),
    )


async def end_session(node: NodeServices, caller: Caller) -> Reached:
    if not caller.parent:
        raise ApiError("INVALID_FIELD", "this call is by a token, not by a session: nothing ends")
    return await revoke(node, caller.token_id, new_request_id())


# ---- the audit log ------------------------------------------------------------------------------


async def audit_log(node: NodeServices, wanted: AuditFilter) -> AuditPage:
    node.levels.require(AUDIT)
    if wanted.call:
        _check_call(wanted.call)
    index = await node.reads.linearizable()
    await node.replica.written(index)
    return await node.store.audit_log(wanted)


def _check_call(name: str) -> None:
    """An empty answer to a name that is none would read as "nobody did"."""
    if name in KEPT:
        return
    if name in OPERATIONS:
        raise ApiError("INVALID_FIELD", f"call: {name} changes nothing, and is not kept")
    known = {call.lower(): call for call in KEPT}
    near = [known[each] for each in difflib.get_close_matches(name.lower(), known, n=3)]
    hint = (
        f"; near it are {', '.join(near)}" if near else f"; there are {', '.join(known.values())}"
    )
    raise ApiError("INVALID_FIELD", f"call: there is no call {name!r}{hint}")


# ---- until all nodes know -----------------------------------------------------------------------


def serve_applied(node: NodeServices) -> None:
    """Tell a peer when this node has applied an entry."""

    async def answer(_peer: str, payload: bytes) -> bytes:
        try:
            await node.replica.wait_applied(int(payload), timeout_ms=EVERYWHERE_MS)
        except (TimeoutError, ValueError):
            raise PeerError(_BEHIND, "") from None
        return b""

    node.consensus.channel.register(APPLIED_METHOD, answer)


async def everywhere(node: NodeServices) -> Reached:
    """Wait until every member that is connected has applied what this node has."""
    index = await node.reads.linearizable()
    others = sorted(peer for peer in node.consensus.peers() if peer != node.config.node_id)
    heard = await asyncio.gather(*[_applied(node, peer, index) for peer in others])
    told = dict(zip(others, heard, strict=True))
    applied = sorted([node.config.node_id, *(peer for peer, has in told.items() if has)])
    return Reached(applied, [peer for peer, has in told.items() if not has])


async def _applied(node: NodeServices, peer: str, index: int) -> bool:
    try:
        await node.consensus.channel.call(
            peer, APPLIED_METHOD, str(index).encode(), timeout_ms=EVERYWHERE_MS
        )
    except (PeerUnavailable, PeerTimeout, PeerError):
        return False
    return True
