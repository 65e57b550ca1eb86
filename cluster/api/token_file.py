"""The file of `auth_token_file`: tokens that a node knows by itself, the first admin's for one.

One token a line, and after it what it is limited to: `role=`, `namespace=`, and `name=`, under
which the audit log knows its holder. Empty lines and lines that begin with # say nothing. What is
not said is as it always was: everything, as an admin.
"""

from __future__ import annotations

import hmac
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import structlog

from raftflow.cluster.errors import StartRefused
from raftflow.engine.commands import Role
from raftflow.engine.ids import id_problem

log = structlog.get_logger("raftflow.api")

_SHORTEST = 16
_WORDS = ("name", "namespace", "role")


@dataclass(frozen=True, slots=True)
class FileToken:
    """Kept as a digest, and never shown."""

    digest: bytes
    name: str
    role: Role
    namespace: str

    @property
    def namespaces(self) -> frozenset[str]:
        return frozenset({self.namespace} if self.namespace else ())

    @property
    def parent(self) -> str:
        """What stands for the line in the row of a session: over when the line has another token.
        (Sixteen bits tell that, and nothing of a token that a person thought of.)"""
        return f"{self.name}:{self.digest[:2].hex()}"


def load(file: str) -> tuple[FileToken, ...]:
    """Raises StartRefused, which names the line but never what stands in it."""
    try:
        lines = Path(file).read_text("utf-8").splitlines()
        _warn_if_exposed(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise StartRefused(f"auth_token_file {file}: {reason}") from None
    found: list[FileToken] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where = f"auth_token_file {file}, line {number}"
        token = _parsed(line.split(), number, where)
        if any(known.digest == token.digest for known in found):
            raise StartRefused(f"{where}: stands twice")
        if any(known.name == token.name for known in found):
            raise StartRefused(f"{where}: another line has its name")
        found.append(token)
    if not found:
        raise StartRefused(f"auth_token_file {file}: it has no token, so nobody could call")
    return tuple(found)


def find(lines: Sequence[FileToken], text: str) -> FileToken | None:
    given, found = digest(text), None
    for line in lines:  # all of them: time must not tell which one
        if hmac.compare_digest(line.digest, given):
            found = line
    return found


def digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def _parsed(words: list[str], number: int, where: str) -> FileToken:
    token, *limits = words
    if len(token) < _SHORTEST or not (token.isascii() and token.isprintable()):
        raise StartRefused(f"{where}: a token is {_SHORTEST} or more ASCII characters")
    given = dict(limit.partition("=")[::2] for limit in limits)
    unknown = [name for name in given if name not in _WORDS]
    if unknown or len(given) != len(limits):
        raise StartRefused(
            f"{where}: after a token only name=NAME, namespace=NAME and role=ROLE may stand, once"
        )
    for word in ("name", "namespace"):
        if word in given and (problem := id_problem(word, given[word])):
            raise StartRefused(f"{where}: {problem}")
    role = Role.__members__.get(given.get("role", "admin").upper())
    if role is None:
        known = ", ".join([each.name.lower() for each in Role])
        raise StartRefused(f"{where}: role must be one of {known}")
    name = "file:" + given.get("name", str(number))
    return FileToken(digest(token), name, role, given.get("namespace", ""))


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
