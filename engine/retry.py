"""Retry policies of activities and the waits between attempts."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Recorded with the step when it is scheduled. ``max_attempts`` counts the first one; 0 means
    no bound. ``max_backoff_ms`` 0 means no cap. The coefficient is in thousandths (2000 = doubles),
    since the engine knows no floats."""

    max_attempts: int = 1
    initial_backoff_ms: int = 0
    max_backoff_ms: int = 0
    backoff_coefficient_milli: int = 2_000
    non_retryable_error_types: tuple[str, ...] = ()
    jitter_milli: int = 0  # each wait is longer or shorter by up to this share, in thousandths
    jitter_seed: int = 0  # drawn when the step is scheduled, so that every node waits alike


NO_RETRY = RetryPolicy()

# A backoff never grows past this (30 days): beyond it the product of many doublings would leave
# every integer type that stores or clients use.
MAX_BACKOFF_MS = 30 * 24 * 3_600_000


def backoff_ms(policy: RetryPolicy, attempts: int) -> int:
    """Milliseconds to wait after ``attempts`` failed attempts (1 = the first has failed)."""
    wait = policy.initial_backoff_ms
    cap = policy.max_backoff_ms or MAX_BACKOFF_MS
    for _ in range(attempts - 1):
        longer = wait * policy.backoff_coefficient_milli // 1_000
        # A wait that grows no more stays as it is; a policy without a bound may have come far.
        if longer <= wait or wait >= cap:
            break
        wait = longer
    wait = min(wait, cap, MAX_BACKOFF_MS)
    spread = wait * policy.jitter_milli // 1_000
    if spread == 0:
        return wait
    drawn = blake2b(f"{policy.jitter_seed} {attempts}".encode(), digest_size=8).digest()
    offset = int.from_bytes(drawn, "little") % (2 * spread + 1) - spread
    return min(wait + offset, MAX_BACKOFF_MS)


def may_retry(policy: RetryPolicy, *, attempts: int, error_type: str, non_retryable: bool) -> bool:
    """Whether another attempt follows after ``attempts`` of them failed, the last one so."""
    if non_retryable or error_type in policy.non_retryable_error_types:
        return False
    return policy.max_attempts == 0 or attempts < policy.max_attempts


def policy_problem(policy: RetryPolicy) -> str | None:
    """Return why a policy cannot be followed, or None when it can."""
    if policy.max_attempts < 0:
        return f"retry_policy.max_attempts is {policy.max_attempts}, the least is 0 (no bound)"
    if policy.initial_backoff_ms < 0:
        return f"retry_policy.initial_backoff_ms is {policy.initial_backoff_ms}, the least is 0"
    if policy.max_backoff_ms < 0:
        return f"retry_policy.max_backoff_ms is {policy.max_backoff_ms}, the least is 0 (no cap)"
    if policy.backoff_coefficient_milli < 1_000:
        return "retry_policy.backoff_coefficient must be at least 1"
    if not 0 <= policy.jitter_milli <= 1_000:
        return "retry_policy.jitter must be 0 to 1"
    return None
