"""The outside world of the order saga, made up. Activities run at least once: a real one would
use `info.run_id` and `info.step_name` as the idempotency key of its own calls."""

from raftflow_sdk import ActivityFailure, ActivityInfo


def reserve(order: str) -> str:
    return f"reservation of {order}"


def charge(reservation: str, info: ActivityInfo) -> str:
    if "declined" in reservation:
        raise ActivityFailure("card declined", error_type="Declined", non_retryable=True)
    if info.attempt == 1:
        raise ActivityFailure("the bank did not answer", error_type="BankTimeout")
    return f"paid: {reservation}"


def release(reservation: str) -> str:
    return f"released: {reservation}"


def ship(reservation: str) -> str:
    return f"shipped: {reservation}"
