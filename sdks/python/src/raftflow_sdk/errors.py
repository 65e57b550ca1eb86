"""Everything this SDK raises."""


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
    choose the `error_type` that the workflow sees, or to forbid further attempts.
    """

    def __init__(
        self,
        message: str,
        *,
        error_type: str = "ActivityFailure",
        non_retryable: bool = False,
        step_name: str = "",
        attempts: int = 0,
    ) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.non_retryable = non_retryable
        self.step_name = step_name
        self.attempts = attempts


class ReplayError(RaftflowError):
    """A replay that must not become a decision."""


class NondeterminismError(ReplayError):
    """The workflow code does not do what it did when its history was written."""


class SwallowedSuspension(ReplayError):
    """The workflow code caught the suspension of its own replay and carried on."""


class RunFailed(RaftflowError):
    """`Client.result`: the run ended otherwise than COMPLETED; `status` says how."""

    def __init__(self, workflow_id: str, run_id: str, status: str, error: str) -> None:
        super().__init__(
            f"workflow {workflow_id!r} ended {status}" + (f": {error}" if error else "")
        )
        self.workflow_id = workflow_id
        self.run_id = run_id
        self.status = status
        self.error = error


class ApiError(RaftflowError):
    """The cluster refused a call."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str = "",
        reason: str = "",
        cancelled: bool = False,
        run_id: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.reason = reason
        self.cancelled = cancelled
        self.run_id = run_id


class NotFound(ApiError):
    """There is no such workflow, run or step."""


class AlreadyExists(ApiError):
    """The workflow id is in use; `run_id` is its holder."""


class Unavailable(RaftflowError):
    """No address gave an answer in time; `maybe_applied` says whether the call may have worked."""

    def __init__(self, message: str, *, maybe_applied: bool) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied
