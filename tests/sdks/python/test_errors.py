"""Errors: what they say and which family they belong to."""

from raftflow_sdk import errors


def test_every_error_has_one_base() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert all(issubclass(kind, errors.RaftflowError) for kind in kinds)


def test_a_failed_run_says_how_it_ended() -> None:
    error = errors.RunFailed("order-1", "r", "TERMINATED", "by hand")
    assert str(error) == "workflow 'order-1' ended TERMINATED: by hand"
    assert str(errors.RunFailed("order-1", "r", "TIMED_OUT", "")).endswith("TIMED_OUT")


def test_failures_carry_their_message_alone() -> None:
    assert str(errors.ActivityFailure("declined", error_type="Declined")) == "declined"
    assert str(errors.WorkflowFailure("rejected")) == "rejected"
