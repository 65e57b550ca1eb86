"""Who belongs to the cluster: the words, and what may follow what (CONSENSUS rows 20 to 22).

A configuration is an entry of the log, in force from the moment it is appended (Raft §4.1 of the
dissertation). One voter at most differs from one to the next, so that any majority of the one meets
any majority of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from google.protobuf.message import DecodeError

from raftflow.proto.raftflow.internal.v1 import membership_pb2 as pb

MAX_VOTERS = 7
# The leader sends every entry to each of them itself.
MAX_API_NODES = 9


class MembershipError(Exception):
    """The bytes are no configuration, or one that cannot be."""


@dataclass(frozen=True, slots=True)
class Member:
    """`incarnation` names the disk that holds this member's promises; "" = not recorded yet. `api`:
    a learner for good, which serves and never votes."""

    id: str
    raft: str
    voter: bool = True
    incarnation: str = ""
    api: bool = False

    @property
    def kind(self) -> str:
        """As operators call it."""
        return "voter" if self.voter else "api" if self.api else "learner"


@dataclass(frozen=True, slots=True)
class Configuration:
    """Members sorted by id; `feature_level` 0 = nothing agreed yet."""

    members: tuple[Member, ...]
    feature_level: int = 0

    def __post_init__(self) -> None:
        ids = [member.id for member in self.members]
        if ids != sorted(set(ids)):
            raise MembershipError(f"members must be sorted by id, each once: {', '.join(ids)}")

    @property
    def voters(self) -> tuple[str, ...]:
        return tuple(member.id for member in self.members if member.voter)

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def find(self, member_id: str) -> Member | None:
        return next((member for member in self.members if member.id == member_id), None)

    def put(self, member: Member) -> Configuration:
        """With this member added, or in the place of the one with its id."""
        others = [each for each in self.members if each.id != member.id]
        return replace(self, members=tuple(sorted([*others, member], key=lambda each: each.id)))

    def without(self, member_id: str) -> Configuration:
        return replace(self, members=tuple(m for m in self.members if m.id != member_id))


def step_problem(before: Configuration, after: Configuration) -> str | None:
    """Why `after` must not follow `before`, or None (Raft dissertation §4.1).

    To record the disk of a voter whose disk was not known is no change of voters; another disk is
    another voter.
    """
    recorded = {m.id: m.incarnation for m in after.members}
    old = {(m.id, m.incarnation or recorded.get(m.id, "")) for m in before.members if m.voter}
    new = {(m.id, m.incarnation) for m in after.members if m.voter}
    if not after.voters:
        return "nobody would be left to vote"
    if len(after.voters) > MAX_VOTERS:
        return f"at most {MAX_VOTERS} members may vote"
    if len(old ^ new) > 1:
        return "more than one voter differs: change one at a time"
    if after.feature_level < before.feature_level:
        return f"the feature level would fall from {before.feature_level} to {after.feature_level}"
    return None


def encode(configuration: Configuration) -> bytes:
    return to_message(configuration).SerializeToString()


def decode(data: bytes) -> Configuration:
    """Raises MembershipError."""
    try:
        return from_message(pb.Configuration.FromString(data))
    except DecodeError as error:
        raise MembershipError("not a configuration") from error


def to_message(configuration: Configuration) -> pb.Configuration:
    return pb.Configuration(
        members=[
            pb.Member(id=m.id, raft=m.raft, voter=m.voter, incarnation=m.incarnation, api=m.api)
            for m in configuration.members
        ],
        feature_level=configuration.feature_level,
    )


def from_message(message: pb.Configuration) -> Configuration:
    """Raises MembershipError."""
    members = tuple(Member(m.id, m.raft, m.voter, m.incarnation, m.api) for m in message.members)
    if not all(member.id for member in members):
        raise MembershipError("a member has no id")
    if any(member.api and member.voter for member in members):
        raise MembershipError("an API node votes")
    return Configuration(members, message.feature_level)
