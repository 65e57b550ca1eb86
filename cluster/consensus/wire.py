"""Peer messages: PySyncObj's dictionaries as protobuf, checked field by field.

What does not pass here never reaches the consensus core. Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from raftflow.cluster.consensus import membership
from raftflow.cluster.consensus.configurations import CONFIGURATION
from raftflow.cluster.consensus.membership import Configuration, MembershipError
from raftflow.cluster.consensus.types import SnapshotManifest
from raftflow.proto.raftflow.internal.v1 import peer_pb2 as pb
from raftflow.raftlog.journal import LogEntry

Message = dict[str, Any]
Value = TypeVar("Value")

# Terms and indexes stay far below 2**63, so that arithmetic on them fits every language and disk.
LIMIT = 1 << 62
MAX_TEXT = 128


class WireError(Exception):
    """The bytes are no message of ours; the connection they came from is to be closed."""


def encode(message: Message) -> bytes:
    packed = pb.PeerMessage(term=message["term"])
    _ENCODERS[message["type"]](packed, message)
    return packed.SerializeToString()


def decode(data: bytes) -> Message:
    packed = pb.PeerMessage()
    try:
        packed.ParseFromString(data)
    except DecodeError as error:
        raise WireError("not a peer message") from error
    kind = packed.WhichOneof("body")
    if kind is None:
        raise WireError("a peer message without a body")
    term = packed.term
    # Only a node that has never seen an election is in term 0, and only answers from there: it may
    # be asked for a vote, or for a read, by one that knew it as a leader before it lost its disk.
    _check((term > 0 or kind in ("pre_vote_reply", "read_reply")) and term < LIMIT, "term", term)
    message = _DECODERS[kind](getattr(packed, kind), term)
    message["term"] = term
    return message


def _check(holds: bool, field: str, value: object) -> None:
    if not holds:
        raise WireError(f"{field} is out of range: {value!r:.60}")


def _configuration(parse: Callable[[Value], Configuration], value: Value) -> Configuration:
    try:
        configuration = parse(value)
    except MembershipError as error:
        raise WireError(f"configuration: {error}") from error
    _check(bool(configuration.voters), "configuration", configuration)
    return configuration


def _encode_append(packed: pb.PeerMessage, message: Message) -> None:
    if (manifest := message.get("serialized")) is not None:
        _encode_offer(packed, message, manifest)
        return
    packed.append.SetInParent()
    body = packed.append
    body.prev_index = message["prevLogIdx"]
    body.prev_term = message["prevLogTerm"]
    body.commit_index = message["commit_index"]
    body.round = message["round"]
    add = body.entries.add
    for entry in message["entries"]:
        add(term=entry.term, payload=entry.payload)


def _decode_append(body: pb.AppendEntries, term: int) -> Message:
    prev, last_term = body.prev_index, body.prev_term
    _check(prev < LIMIT, "prev_index", prev)
    _check(last_term <= term, "prev_term", last_term)
    _check(body.commit_index < LIMIT, "commit_index", body.commit_index)
    _check(body.round < LIMIT, "round", body.round)
    entries = []
    for index, entry in enumerate(body.entries, prev + 1):
        entry_term, payload = entry.term, entry.payload
        _check(last_term <= entry_term <= term, "entry term", entry_term)
        # 0 = entry, 1 = no-op, 2 = configuration; another kind would be of a later release.
        _check(len(payload) > 0 and payload[0] <= CONFIGURATION[0], "entry payload", payload)
        if payload[0] == CONFIGURATION[0]:
            _configuration(membership.decode, payload[1:])
        last_term = entry_term
        entries.append(LogEntry(index, entry_term, payload))
    return {
        "type": "append_entries",
        "prevLogIdx": prev,
        "prevLogTerm": body.prev_term,
        "commit_index": body.commit_index,
        "round": body.round,
        "entries": entries,
    }


def _encode_offer(packed: pb.PeerMessage, message: Message, manifest: SnapshotManifest) -> None:
    packed.snapshot_offer.SetInParent()
    body = packed.snapshot_offer
    body.snapshot_id = manifest.snapshot_id
    body.index = manifest.index
    body.index_term = manifest.term
    body.size = manifest.size
    body.sha256 = manifest.sha256
    body.round = message["round"]
    if manifest.configuration is not None:
        body.configuration.CopyFrom(membership.to_message(manifest.configuration))
        body.configuration_index = manifest.configuration_index


def _decode_offer(body: pb.SnapshotOffer, term: int) -> Message:
    _check(0 < body.index < LIMIT, "snapshot index", body.index)
    _check(body.index_term <= term, "snapshot term", body.index_term)
    _check(body.size < LIMIT, "snapshot size", body.size)
    _check(0 < len(body.snapshot_id) <= MAX_TEXT, "snapshot_id", body.snapshot_id)
    _check(len(body.sha256) <= MAX_TEXT, "sha256", body.sha256)
    _check(body.round < LIMIT, "round", body.round)
    _check(body.configuration_index < LIMIT, "configuration_index", body.configuration_index)
    configuration, configuration_index = None, 0
    if body.HasField("configuration"):
        configuration = _configuration(membership.from_message, body.configuration)
        configuration_index = body.configuration_index
    manifest = SnapshotManifest(
        index=body.index,
        term=body.index_term,
        size=body.size,
        sha256=body.sha256,
        snapshot_id=body.snapshot_id,
        configuration=configuration,
        configuration_index=configuration_index,
    )
    return {"type": "append_entries", "serialized": manifest, "round": body.round}


def _encode_append_reply(packed: pb.PeerMessage, message: Message) -> None:
    body = packed.append_reply
    body.success = message["success"]
    body.next_index = message["next_node_idx"]
    body.received = message["received"]
    body.rejected = message["rejected"]
    body.hint_term = message["hint_term"]
    body.round = message["round"]


def _decode_append_reply(body: pb.AppendReply, term: int) -> Message:
    _check(0 < body.next_index < LIMIT, "next_index", body.next_index)
    _check(body.received < LIMIT, "received", body.received)
    _check(body.rejected < LIMIT, "rejected", body.rejected)
    _check(body.hint_term < LIMIT, "hint_term", body.hint_term)
    _check(body.round < LIMIT, "round", body.round)
    return {
        "type": "next_node_idx",
        "success": body.success,
        "next_node_idx": body.next_index,
        "received": body.received,
        "rejected": body.rejected,
        "hint_term": body.hint_term,
        "round": body.round,
    }


def _encode_vote(packed: pb.PeerMessage, message: Message) -> None:
    body = packed.vote if message["type"] == "request_vote" else packed.pre_vote
    body.SetInParent()
    body.last_index = message["last_log_index"]
    body.last_term = message["last_log_term"]


def _decode_vote(kind: str) -> Callable[[pb.RequestVote, int], Message]:
    def decode_vote(body: pb.RequestVote, term: int) -> Message:
        _check(body.last_index < LIMIT, "last_index", body.last_index)
        # A candidate stands for a term above that of every entry it has.
        _check(body.last_term < term, "last_term", body.last_term)
        return {"type": kind, "last_log_index": body.last_index, "last_log_term": body.last_term}

    return decode_vote


def _encode_vote_reply(packed: pb.PeerMessage, _message: Message) -> None:
    packed.vote_reply.SetInParent()


def _encode_pre_vote_reply(packed: pb.PeerMessage, message: Message) -> None:
    packed.pre_vote_reply.asked_term = message["asked_term"]
    packed.pre_vote_reply.granted = message["granted"]


def _decode_pre_vote_reply(body: pb.PreVoteReply, _term: int) -> Message:
    _check(0 < body.asked_term < LIMIT, "asked_term", body.asked_term)
    return {
        "type": "pre_vote_reply",
        "asked_term": body.asked_term,
        "granted": body.granted,
    }


def _encode_timeout_now(packed: pb.PeerMessage, _message: Message) -> None:
    packed.timeout_now.SetInParent()


def _encode_read(packed: pb.PeerMessage, message: Message) -> None:
    packed.read.id = message["id"]


def _decode_read(body: pb.ReadRequest, _term: int) -> Message:
    _check(0 < body.id < LIMIT, "read id", body.id)
    return {"type": "read_request", "id": body.id}


def _encode_read_reply(packed: pb.PeerMessage, message: Message) -> None:
    packed.read_reply.id = message["id"]
    packed.read_reply.index = message["index"]


def _decode_read_reply(body: pb.ReadReply, _term: int) -> Message:
    _check(0 < body.id < LIMIT, "read id", body.id)
    _check(body.index < LIMIT, "read index", body.index)
    return {"type": "read_reply", "id": body.id, "index": body.index}


_ENCODERS: dict[str, Callable[[pb.PeerMessage, Message], None]] = {
    "append_entries": _encode_append,
    "next_node_idx": _encode_append_reply,
    "request_vote": _encode_vote,
    "response_vote": _encode_vote_reply,
    "pre_vote": _encode_vote,
    "pre_vote_reply": _encode_pre_vote_reply,
    "timeout_now": _encode_timeout_now,
    "read_request": _encode_read,
    "read_reply": _encode_read_reply,
}
_DECODERS: dict[str, Callable[[Any, int], Message]] = {
    "append": _decode_append,
    "append_reply": _decode_append_reply,
    "vote": _decode_vote("request_vote"),
    "vote_reply": lambda _body, _term: {"type": "response_vote"},
    "pre_vote": _decode_vote("pre_vote"),
    "pre_vote_reply": _decode_pre_vote_reply,
    "timeout_now": lambda _body, _term: {"type": "timeout_now"},
    "read": _decode_read,
    "read_reply": _decode_read_reply,
    "snapshot_offer": _decode_offer,
}
