"""Who calls, and for which namespace: the one place where tokens are checked.

A token file has one token a line, and after it what the token is limited to (`namespace=NAME`).
Empty lines and lines that begin with # say nothing. Without a file nobody needs a token.
"""

from __future__ import annotations

import hmac
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import structlog

from raftflow.cluster.api.limits import check_id
from raftflow.cluster.api.status import ApiError
from raftflow.cluster.errors import StartRefused
from raftflow.engine.commands import Role
from raftflow.engine.ids import DEFAULT_NAMESPACE, id_problem

log = structlog.get_logger("raftflow.api")

NAMESPACE_HEADER = "X-Workflowd-Namespace"
# By operation, as both APIs name it. What is in neither works within a namespace.
OPEN = frozenset({"Health", "Ready", "DescribeApi"})
WHOLE_CLUSTER = frozenset(
    {
        *("CreateNamespace", "UpdateNamespace", "ListNamespaces"),
        *("AddNode", "RemoveNode", "TakeBackup"),
    }
)
_SCHEME = "bearer"
_SHORTEST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls. ``actor`` is the token's id, or the name of its line in the token file; no
    ``namespaces`` are all of them. ``token_id`` "": the token is not one of the log."""

    actor: str
    role: Role
    namespaces: frozenset[str] = frozenset()
    sees_payloads: bool = True
    token_id: str = ""


# Where nobody is asked who they are.
ANYBODY = Caller(actor="anonymous", role=Role.ADMIN)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a caller may reach. ``namespace`` "" is every one, and what belongs to none."""

    namespace: str = ""

    def within(self, named: str) -> str:
        """The namespace of a call that names this one, or none."""
        if not self.namespace:
            return named or DEFAULT_NAMESPACE
        if named not in ("", self.namespace):
            raise ApiError(
                "PERMISSION_DENIED", f"this token is for the namespace {self.namespace!r} alone"
            )
        return self.namespace

    def permit(self, operation: str) -> None:
        if self.namespace and operation in WHOLE_CLUSTER:
            raise ApiError(
                "PERMISSION_DENIED",
                f"this token is for the namespace {self.namespace!r} alone: "
                "what concerns all of them needs a token without one",
            )


EVERYTHING = Scope()


class Tokens:
    """The tokens of a node. They are kept as digests and never shown."""

    def __init__(self, scopes: Mapping[bytes, Scope] | None = None) -> None:
        self._scopes = scopes

    @classmethod
    def load(cls, file: str) -> Tokens:
        """Raises StartRefused, which names the line but never what stands in it."""
        if not file:
            return cls()
        try:
            lines = Path(file).read_text("utf-8").splitlines()
            _warn_if_exposed(file)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise StartRefused(f"auth_token_file {file}: {reason}") from None
        scopes: dict[bytes, Scope] = {}
        for number, line in enumerate(lines, 1):
            if line.strip() and not line.lstrip().startswith("#"):
                token, scope = _parsed(line.split(), f"auth_token_file {file}, line {number}")
                if _digest(token) in scopes:
                    raise StartRefused(f"auth_token_file {file}, line {number}: stands twice")
                scopes[_digest(token)] = scope
        if not scopes:
            raise StartRefused(f"auth_token_file {file}: it has no token, so nobody could call")
        return cls(scopes)

    def scope(self, authorization: str) -> Scope:
        """What the ``Authorization`` header of a call allows."""
        if self._scopes is None:
            return EVERYTHING
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != _SCHEME or not token.strip():
            raise ApiError(
                "UNAUTHENTICATED",
                "a token is needed, in the header Authorization: Bearer TOKEN "
                "(curl -H 'Authorization: Bearer TOKEN')",
            )
        given, found = _digest(token.strip()), None
        for known, scope in self._scopes.items():  # all of them: time must not tell which one
            if hmac.compare_digest(known, given):
                found = scope
        if found is None:
            raise ApiError("UNAUTHENTICATED", "this node does not know the token")
        return found

    def identify(self, headers: Mapping[str, str], operation: str = "") -> str:
        """The namespace of a call that may be made."""
        if operation in OPEN:
            return DEFAULT_NAMESPACE
        scope = self.scope(headers.get("Authorization", ""))
        scope.permit(operation)
        named = headers.get(NAMESPACE_HEADER, "")
        return scope.within(check_id(NAMESPACE_HEADER, named) if named else "")


def _warn_if_exposed(file: str) -> None:
    """Refused it is not: mounted secrets are often readable for all, in a container of one user."""
    mode = stat.S_IMODE(Path(file).stat().st_mode)
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        log.warning(
            "auth_token_file_exposed",
            file=file,
            mode=f"{mode:04o}",
            remedy=f"every user of this machine has access to the tokens: chmod 600 {file}",
        )


def _parsed(words: list[str], where: str) -> tuple[str, Scope]:
    token, *limits = words
    if len(token) < _SHORTEST or not (token.isascii() and token.isprintable()):
        raise StartRefused(f"{where}: a token is {_SHORTEST} or more ASCII characters")
    given = dict(limit.partition("=")[::2] for limit in limits)
    unknown = [name for name in given if name != "namespace"]
    if unknown or len(given) != len(limits):
        raise StartRefused(f"{where}: after a token only namespace=NAME may stand, once")
    if "namespace" in given and (problem := id_problem("namespace", given["namespace"])):
        raise StartRefused(f"{where}: {problem}")
    return token, Scope(given.get("namespace", ""))


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
