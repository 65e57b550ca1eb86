"""Sessions of the page: a minted token in a cookie that no script reads.

A browser sends a cookie along with whatever any page makes it ask. So what changes something by
cookie must carry a header that only our page sends, and come from a page of this cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from raftflow.cluster.api.auth import Caller, Tokens
from raftflow.cluster.api.handlers.access import SESSION_MS
from raftflow.cluster.api.permissions import OPEN, OPERATIONS
from raftflow.cluster.api.status import ApiError

COOKIE = "rf_session"
HEADER = "X-Raftflow-Session"


class Http(Protocol):
    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def cookies(self) -> Mapping[str, str]: ...


def cookie(text: str, *, secure: bool) -> str:
    return _set_cookie(text, SESSION_MS // 1_000, secure=secure)


def no_cookie(*, secure: bool) -> str:
    return _set_cookie("", 0, secure=secure)


def identify(
    http: Http, tokens: Tokens, operation: str, *, is_ours: Callable[[str], bool]
) -> Caller:
    """Who makes this call, and that it may be made. ``is_ours`` tells the origins of the pages of
    this cluster. Raises ApiError."""
    permission = OPERATIONS[operation]
    authorization = http.headers.get("Authorization", "")
    by_cookie = tokens.on and not authorization and COOKIE in http.cookies
    if permission is OPEN:
        caller = tokens.anybody
    elif by_cookie:
        caller = tokens.holder(http.cookies[COOKIE])
        if not caller.parent:
            raise ApiError("UNAUTHENTICATED", "the cookie holds no session")
    else:
        caller = tokens.bearer(authorization)
    if by_cookie and permission.changes:
        _refuse_forgeries(http, is_ours)
    caller.permit(operation)
    return caller


def log_in(http: Http, tokens: Tokens, token: str, *, is_ours: Callable[[str], bool]) -> Caller:
    """Who holds the token of a login. Nobody is logged in by another's page."""
    origin = http.headers.get("Origin")
    if origin is not None and not is_ours(origin):
        raise ApiError("PERMISSION_DENIED", "a login comes from a page of this cluster")
    return tokens.holder(token.strip()) if tokens.on else tokens.anybody


def _refuse_forgeries(http: Http, is_ours: Callable[[str], bool]) -> None:
    if http.headers.get(HEADER) != "1" or not is_ours(http.headers.get("Origin", "")):
        raise ApiError(
            "PERMISSION_DENIED",
            f"what changes something by cookie carries {HEADER}: 1 and comes from a page of this"
            " cluster",
        )


def _set_cookie(value: str, max_age_s: int, *, secure: bool) -> str:
    parts = [f"{COOKIE}={value}", "Path=/", f"Max-Age={max_age_s}", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, *(["Secure"] if secure else [])])
