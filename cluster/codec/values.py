"""Values that several messages share: retry policies, limits, answers."""

from __future__ import annotations

from typing import Any

from raftflow.cluster.codec.shapes import OneOf, Shape, Special, UnknownValue, member, texts
from raftflow.engine.limits import Limits
from raftflow.engine.rejections import (
    Answer,
    Done,
    Granted,
    Minted,
    Reason,
    Rejection,
    Started,
)
from raftflow.engine.retry import NO_RETRY, RetryPolicy
from raftflow.proto.raftflow.internal.v1 import entry_pb2
from raftflow.proto.workflow.v1 import history_pb2

RETRY: Shape[RetryPolicy] = Shape(
    RetryPolicy,
    history_pb2.RetryPolicy,
    non_retryable_error_types=texts("non_retryable_error_types"),
)
LIMITS: Shape[Limits] = Shape(Limits, entry_pb2.Limits)


def retry_in(field: str) -> Special:
    """A retry policy; absent stands for the commonest, one attempt."""

    def put(message: Any, value: RetryPolicy) -> None:
        if value is not NO_RETRY and value != NO_RETRY:
            RETRY.put(getattr(message, field), value)

    def take(message: Any) -> RetryPolicy:
        return RETRY.take(getattr(message, field)) if message.HasField(field) else NO_RETRY

    return Special(put, take)


_REASONS = {reason.value: reason for reason in Reason}


def _take_reason(message: Any) -> Reason:
    try:
        return _REASONS[message.reason]
    except KeyError:
        raise UnknownValue(f"reason {message.reason!r} is unknown") from None


def _put_reason(message: Any, value: Reason) -> None:
    message.reason = value.value


ANSWERS: OneOf[Answer] = OneOf(
    "body",
    {
        "started": member(Started, entry_pb2.Started),
        "done": member(Done, entry_pb2.Done, handed=texts("handed")),
        "granted": member(Granted, entry_pb2.Granted),
        "minted": member(Minted, entry_pb2.Minted),
        "rejection": member(
            Rejection, entry_pb2.Rejection, reason=Special(_put_reason, _take_reason)
        ),
    },
)
