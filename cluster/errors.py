"""What a call into the node may raise instead of an answer. `api/status.py` maps each to HTTP and
gRPC; everything else that escapes is a bug."""

from __future__ import annotations


class Unavailable(Exception):
    """No answer could be had. ``maybe_applied`` says whether the command may still take effect:
    the same ids are then safe to send again. ``leader_http`` is set only by a node that cannot
    serve at all and knows who can."""

    def __init__(
        self,
        message: str,
        *,
        maybe_applied: bool = False,
        retry_after_ms: int = 1_000,
        leader_http: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.maybe_applied = maybe_applied
        self.retry_after_ms = retry_after_ms
        self.leader_http = leader_http


class Overloaded(Exception):
    """Refused before it was proposed. ``cause`` is a metric label: say which bound was met."""

    def __init__(self, message: str, *, cause: str, retry_after_ms: int = 1_000) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.retry_after_ms = retry_after_ms


class FeatureUnavailable(Exception):
    """Refused before it was proposed: a member of the cluster would not understand it yet."""

    def __init__(
        self,
        message: str,
        *,
        feature: str,
        needs_level: int,
        level: int,
        held_back_by: tuple[str, ...],
    ) -> None:
        super().__init__(message)
        self.message = message
        self.feature = feature
        self.needs_level = needs_level
        self.level = level
        self.held_back_by = held_back_by


class LeaseLost(Exception):
    """The lease is over. ``cancelled`` when the work is no longer wanted at all."""

    def __init__(self, message: str = "the lease is lost", *, cancelled: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.cancelled = cancelled


class HistoryDamaged(Exception):
    """A stored record of this run fails its checksum. Only this run stands still."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class MembershipRefused(Exception):
    """The members stay as they are. ``reason`` is one of the error table; the message says why,
    and what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class OperationRefused(Exception):
    """What an operator asked of a node is not possible there. ``reason`` is one of the error table;
    the message says why, and what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Indeterminate(Exception):
    """The command was proposed and leadership was lost before its fate was known: it may still be
    applied. Forwarding tries again with the same id; callers at the edge never see this."""


class StartRefused(Exception):
    """This node must not start like this. The message names the setting and the way out."""


class PortInUse(Exception):
    """An address to serve on is taken. The message names it."""
