"""What a call can meet between a node's edge and its reply. The API's error table maps them."""

from __future__ import annotations


class Indeterminate(Exception):
    """The command was proposed and its fate is not known: it may still be applied."""


class Overloaded(Exception):
    """Refused before it was proposed. ``cause`` is the label of the back-pressure metric."""

    def __init__(self, cause: str, *, retry_after_ms: int) -> None:
        super().__init__(f"the node is overloaded ({cause}); retry after {retry_after_ms} ms")
        self.cause = cause
        self.retry_after_ms = retry_after_ms


class Unavailable(Exception):
    """No leader with a majority within the wait. ``maybe_applied`` is what really holds: False
    only when the command surely was never proposed."""

    def __init__(
        self, message: str, *, maybe_applied: bool, retry_after_ms: int = 1_000, leader_http: str = ""
    ) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied
        self.retry_after_ms = retry_after_ms
        self.leader_http = leader_http


class LeaseLost(Exception):
    """The lease behind a heartbeat is gone. ``cancelled``: the work is no longer wanted."""

    def __init__(self, message: str, *, cancelled: bool) -> None:
        super().__init__(message)
        self.cancelled = cancelled
