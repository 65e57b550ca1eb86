"""Replies: what travels back to the node whose call waits."""

from __future__ import annotations

from raftflow.cluster.codec.values import ANSWERS
from raftflow.engine.rejections import Answer, Reply
from raftflow.proto.raftflow.internal.v1 import entry_pb2 as pb


def encode_reply(reply: Reply) -> bytes:
    message = pb.Reply()
    message.command_id = reply.command_id
    ANSWERS.put(message.answer, reply.answer)
    return message.SerializeToString()


def decode_reply(data: bytes) -> Reply:
    message = pb.Reply.FromString(data)
    return Reply(message.command_id, ANSWERS.take(message.answer))


def encode_answer(answer: Answer) -> bytes:
    message = pb.Answer()
    ANSWERS.put(message, answer)
    return message.SerializeToString()


def decode_answer(data: bytes) -> Answer:
    return ANSWERS.take(pb.Answer.FromString(data))
