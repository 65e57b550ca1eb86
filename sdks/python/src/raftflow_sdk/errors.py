"""Everything this SDK raises."""

from raftflow_sdk.retry import in_seconds


class RaftflowError(Exception):
    """The base of every error of this SDK."""


class PayloadError(RaftflowError, ValueError):
    """A value that cannot be sent, or bytes that are not what the reader asked for."""


class WorkflowFailure(RaftflowError):
    """Raise it in workflow code to end the run FAILED."""

    def __init__(self, message: str, *, error_type: str = "WorkflowFailure") -> None:
        super().__init__(message)
        self.error_type = error_type


class ActivityFailure(RaftflowError):
    """An activity failed for good.

    In workflow code `ctx.activity` raises it after the last attempt. In activity code raise it to
    choose the `error_type` that the workflow sees, to forbid further attempts, or to say in how
    many seconds the next one may start (`next_retry_delay`, instead of what the policy says).
    """

    def __init__(
        self,
        message: str,
        *,
        error_type: str = "ActivityFailure",
        non_retryable: bool = False,
        next_retry_delay: float | None = None,
        step_name: str = "",
        attempts: int = 0,
    ) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.non_retryable = non_retryable
        if next_retry_delay is not None:
            in_seconds("next_retry_delay", next_retry_delay)
        self.next_retry_delay = next_retry_delay
        self.step_name = step_name
        self.attempts = attempts


class ChildFailure(RaftflowError):
    """A child workflow ended otherwise than COMPLETED, or could not be started."""

    def __init__(
        self,
        message: str,
        *,
        error_type: str = "",
        step_name: str = "",
        workflow_id: str = "",
        run_id: str = "",
    ) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.step_name = step_name
        self.workflow_id = workflow_id
        self.run_id = run_id


class CancelledFailure(RaftflowError):
    """What the code waited for was cancelled: by the code itself, or with the whole run.

    A run that was asked to cancel and ends with it ends CANCELLED.
    """

    error_type = "Cancelled"

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "cancelled")
        self.reason = reason


class ReplayError(RaftflowError):
    """A replay that must not become a decision: it fails the run, or parks it as UNKNOWN until
    repaired code is deployed."""

    parks = False


class NondeterminismError(ReplayError):
    """The workflow code does not do what it did when its history was written."""

    parks = True


class ForeignAwait(ReplayError):
    """The workflow code awaited something that no history can replay."""

    parks = True


class BlockedForever(ReplayError):
    """The coroutines of a run wait for one another and for no step."""

    parks = True


class SwallowedSuspension(ReplayError):
    """The workflow code caught the suspension of its own replay and carried on."""


class RunFailed(RaftflowError):
    """`Client.result`: the run ended otherwise than COMPLETED; `status` says how."""

    def __init__(
        self, workflow_id: str, run_id: str, status: str, error: str, *, error_type: str = ""
    ) -> None:
        super().__init__(
            f"workflow {workflow_id!r} ended {status}" + (f": {error}" if error else "")
        )
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.status = status
        self.error = error
        self.error_type = error_type


class ApiError(RaftflowError):
    """The cluster refused a call. `maybe_applied` says whether an earlier try of it, whose answer
    did not arrive, may have worked."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str = "",
        reason: str = "",
        cancelled: bool = False,
        run_id: str = "",
        maybe_applied: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.reason = reason
        self.cancelled = cancelled
        self.run_id = run_id
        self.maybe_applied = maybe_applied


class NotFound(ApiError):
    """There is no such workflow, run or step."""


class AlreadyExists(ApiError):
    """The workflow id is in use; `run_id` is its holder."""


class Unavailable(RaftflowError):
    """No address gave an answer in time; `maybe_applied` says whether the call may have worked."""

    def __init__(self, message: str, *, maybe_applied: bool) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied
