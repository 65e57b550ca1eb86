"""How a command ends: one sentence on stderr and an exit status that scripts can rely on."""

from http import HTTPStatus
from typing import Any

EXIT_OK = 0
EXIT_FAILED = 1  # the run failed, something was not found, the server refused, a file is damaged
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3  # no node answered, or none had a leader in time


class CommandError(Exception):
    """Ends the command with this sentence and status."""

    def __init__(self, message: str, *, status: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.status = status


class ServerError(CommandError):
    """A node refused the call; `body` is the error object of the public contract."""

    def __init__(self, http_status: int, body: dict[str, Any]) -> None:
        message = str(body.get("error") or f"the node answered HTTP {http_status}")
        if http_status == HTTPStatus.UNAUTHORIZED:
            message += " (on the command line: --token TOKEN or RAFTFLOW_TOKEN)"
        super().__init__(message)
        self.http_status = http_status
        self.body = body


class Unreachable(CommandError):
    """No node gave an answer within the deadline. The last try may well say that it proposed
    nothing: ``maybe_applied`` is about all of them."""

    def __init__(self, message: str, *, maybe_applied: bool = False) -> None:
        if maybe_applied:
            message += "; an earlier try may still be applied: look before you send it once more"
        super().__init__(message, status=EXIT_UNREACHABLE)
        self.maybe_applied = maybe_applied
