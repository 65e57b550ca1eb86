"""Who calls, and what for: the one place where tokens are checked.

Minted tokens are rows of the log, which every node has in memory; a node may know others by a file
of its own (`token_file.py`). Whether a caller may make a call is said in `permissions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from raftflow.cluster.api import token_file, token_text
from raftflow.cluster.api.limits import check_id
from raftflow.cluster.api.permissions import OPEN, OPERATIONS, WORK
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.api.token_file import FileToken
from raftflow.cluster.api.waiting import WaitingCalls
from raftflow.engine import tokens
from raftflow.engine.commands import Batch, Role
from raftflow.engine.effects import TokenEnded
from raftflow.engine.ids import DEFAULT_NAMESPACE
from raftflow.engine.state import Catalog, TokenRecord

NAMESPACE_HEADER = "X-Workflowd-Namespace"
# How soon a token that expires, or was revoked in a copy of the state, ends what waits for it.
LOOK_MS = 1_000
_SCHEME = "bearer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls. ``actor`` is the token's id, or the name of its line in the token file; no
    ``namespaces`` are all of them. ``token_id`` "": the token is not one of the log. A session acts
    for the token that it was opened with, its ``parent``."""

    actor: str
    role: Role
    namespaces: frozenset[str] = frozenset()
    sees_payloads: bool = True
    token_id: str = ""
    parent: str = ""

    def within(self, named: str) -> str:
        """The namespace of a call that names this one, or none."""
        if named:
            check_id(NAMESPACE_HEADER, named)
        if not self.namespaces:
            return named or DEFAULT_NAMESPACE
        if not named:
            if len(self.namespaces) > 1 and DEFAULT_NAMESPACE not in self.namespaces:
                raise ApiError(
                    "INVALID_FIELD",
                    f"this token is for several namespaces: name one in {NAMESPACE_HEADER}",
                )
            only = len(self.namespaces) == 1
            return next(iter(self.namespaces)) if only else DEFAULT_NAMESPACE
        if named not in self.namespaces:
            allowed = ", ".join([repr(name) for name in sorted(self.namespaces)])
            raise ApiError("PERMISSION_DENIED", f"this token is for the namespace {allowed} alone")
        return named

    def permit(self, operation: str) -> None:
        permission = OPERATIONS[operation]
        if permission is OPEN:
            return
        if self.role not in permission.roles:
            needs = "" if permission is WORK else " at least"
            raise ApiError(
                "PERMISSION_DENIED",
                f"{operation} needs{needs} the role {permission.least};"
                f" this token has the role {self.role.name.lower()}",
            )
        if permission.whole_cluster and self.namespaces:
            raise ApiError(
                "PERMISSION_DENIED",
                "this token is for some namespaces alone: "
                "what concerns all of them needs a token without any",
            )
        if permission is WORK and self.parent:
            raise ApiError("PERMISSION_DENIED", "a session takes no tasks: use a worker's token")

    def operations(self) -> list[str]:
        """The names of the calls that it may make: what a page offers it."""
        return [name for name in sorted(OPERATIONS) if self._may(name)]

    def _may(self, operation: str) -> bool:
        try:
            self.permit(operation)
        except ApiError:
            return False
        return True

    def may_see_payloads(self) -> None:
        if not self.sees_payloads:
            raise ApiError("PERMISSION_DENIED", "this token does not see payloads")

    def may_mint(self, *, sees_payloads: bool) -> None:
        """Otherwise every admin would give itself the right that it was minted without."""
        if sees_payloads and not self.sees_payloads:
            raise ApiError(
                "PERMISSION_DENIED", "this token does not see payloads, so it mints none that does"
            )


# Where nobody is asked who they are.
ANYBODY = Caller(actor="anonymous", role=Role.ADMIN)
# Where everybody is, in a call that is open to all.
NOBODY = Caller(actor="anonymous", role=Role.VIEWER, sees_payloads=False)


class Replica(Protocol):
    @property
    def catalog(self) -> Catalog: ...

    @property
    def time_ms(self) -> int: ...

    def subscribe(self, listener: Callable[[Any, Batch], None]) -> None: ...


class Clock(Protocol):
    def wall_ms(self) -> int: ...

    def skew_ms(self) -> float: ...


class Tokens:
    """The tokens that a node takes."""

    def __init__(self, lines: Sequence[FileToken] = (), *, on: bool = False) -> None:
        """``on``: tokens are asked for, also without a file."""
        self._lines = tuple(lines)
        self.on = on or bool(lines)
        self.calls = WaitingCalls()
        self._replica: Replica | None = None
        self._clock: Clock | None = None

    @classmethod
    def load(cls, file: str, *, on: bool = False) -> Tokens:
        """Raises StartRefused."""
        return cls(token_file.load(file) if file else (), on=on)

    def follow(self, replica: Replica, clock: Clock) -> None:
        """From where the rows are known, and what time it is."""
        self._replica, self._clock = replica, clock
        replica.subscribe(self._on_applied)

    @property
    def anybody(self) -> Caller:
        """Who makes a call that needs no token."""
        return NOBODY if self.on else ANYBODY

    # ---- callers --------------------------------------------------------------------------------

    def bearer(self, authorization: str) -> Caller:
        """Who sent this ``Authorization`` header. Raises ApiError."""
        if not self.on:
            return ANYBODY
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != _SCHEME or not token.strip():
            raise ApiError(
                "UNAUTHENTICATED",
                "a token is needed, in the header Authorization: Bearer TOKEN "
                "(curl -H 'Authorization: Bearer TOKEN')",
            )
        return self.holder(token.strip())

    def holder(self, text: str) -> Caller:
        """Who has this token. What is wrong with it hears only who has its secret."""
        line = token_file.find(self._lines, text)
        if line is not None:
            return Caller(actor=line.name, role=line.role, namespaces=line.namespaces)
        token_id, secret = token_text.parsed(text) or ("", "")
        record = self._rows.get(token_id)
        if not token_text.fits(record, secret) or record is None:
            raise ApiError("UNAUTHENTICATED", "this node does not know the token")
        caller = _caller(record)
        self.check(caller)
        return caller

    def check(self, caller: Caller) -> None:
        """Raises ApiError when its token is no longer good. Callers by file are good for the life
        of the process."""
        if caller.token_id and (problem := self._problem(caller)):
            error = ApiError("UNAUTHENTICATED", problem)
            error.actor = caller.actor
            raise error

    def status(self, record: TokenRecord) -> str:
        """In a word: good, revoked, expired, or over with its parent."""
        if record.revoked_ms:
            return "revoked"
        if record.expires_ms and record.expires_ms <= self._now_ms():
            return "expired"
        return "over" if self._problem(_caller(record)) else "good"

    def parent_of(self, caller: Caller) -> str:
        """What a session of this caller names as its parent; "" when it can have none."""
        if caller.token_id:
            return "" if caller.parent else caller.token_id
        return next((line.parent for line in self._lines if line.name == caller.actor), "")

    @property
    def _rows(self) -> Mapping[str, TokenRecord]:
        return {} if self._replica is None else self._replica.catalog.tokens

    def _problem(self, caller: Caller) -> str:
        problem = tokens.problem(self._rows, caller.token_id, self._now_ms())
        if problem or not caller.parent or tokens.TOKEN_ID.fullmatch(caller.parent):
            return problem
        # A line that gives less than it did must not live on in the sessions opened with it.
        opened_with = (caller.parent, caller.role, caller.namespaces)
        known = any(
            (each.parent, each.role, each.namespaces) == opened_with for each in self._lines
        )
        return "" if known else "the token of this session is not in this node's token file"

    def _now_ms(self) -> int:
        """Log time; while the log stands still, what the clocks of the voters say."""
        assert self._replica is not None
        assert self._clock is not None
        clocks_ms = self._clock.wall_ms() - round(self._clock.skew_ms())
        return max(self._replica.time_ms, clocks_ms)

    # ---- calls that wait ------------------------------------------------------------------------

    def _on_applied(self, applied: Any, _batch: Batch) -> None:
        if any(isinstance(effect, TokenEnded) for effect in applied.effects):
            self.look()

    def look(self) -> None:
        """End what waits for callers whose tokens are no longer good."""

        def why(caller: Caller) -> ApiError | None:
            try:
                self.check(caller)
            except ApiError as problem:
                return problem
            return None

        self.calls.end(why)


def _caller(record: TokenRecord) -> Caller:
    """A session acts for its parent, of which the row names the line and no more."""
    of_file = record.parent and not tokens.TOKEN_ID.fullmatch(record.parent)
    actor = record.parent.rpartition(":")[0] if of_file else record.parent or record.token_id
    return Caller(
        actor=actor,
        role=record.role,
        namespaces=frozenset(record.namespaces),
        sees_payloads=record.sees_payloads,
        token_id=record.token_id,
        parent=record.parent,
    )
