"""Answers there and back."""

from __future__ import annotations

import typing

import pytest
from any_value import any_of
from hypothesis import given
from hypothesis import strategies as st

from raftflow.cluster.codec.replies import (
    decode_answer,
    decode_reply,
    encode_answer,
    encode_reply,
)
from raftflow.cluster.codec.shapes import UnknownValue
from raftflow.engine.rejections import Answer, Reply
from raftflow.proto.raftflow.internal.v1 import entry_pb2

ANSWERS = st.one_of([any_of(kind) for kind in typing.get_args(Answer)])


@given(ANSWERS)
def test_every_answer_comes_back(answer: Answer) -> None:
    assert decode_answer(encode_answer(answer)) == answer


@given(ANSWERS, st.text(max_size=8))
def test_every_reply_comes_back(answer: Answer, command_id: str) -> None:
    reply = Reply(command_id, answer)
    assert decode_reply(encode_reply(reply)) == reply


def test_a_reason_of_a_later_version_is_named() -> None:
    later = entry_pb2.Answer(rejection=entry_pb2.Rejection(reason="TOO_TUESDAY"))
    with pytest.raises(UnknownValue, match="TOO_TUESDAY"):
        decode_answer(later.SerializeToString())
