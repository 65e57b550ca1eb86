"""What becomes of the configuration: what an operator may change, and what the leader does itself.

The functions are pure: they look at the configuration in force and at what the leader sees of the
members, and say what the next one is, or why not. `Steward` only asks and proposes.

The leader's standing policy has three parts, one change at a time: it records the disks and the
feature level once all members are of a release that can read such an entry; a voter that comes back
with another disk has lost its promises and becomes a learner; a learner that has caught up votes,
unless it was added as an API node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import structlog

from raftflow.cluster.background import end, spawn
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.membership import (
    MAX_API_NODES,
    MAX_VOTERS,
    Configuration,
    Member,
    step_problem,
)
from raftflow.cluster.consensus.types import ChangeRefused, NotLeader, Role
from raftflow.cluster.errors import MembershipRefused
from raftflow.engine.commands import RELEASE_0_3

log = structlog.get_logger("raftflow.members")

PERIOD_S = 0.1
# A learner no further behind than this has caught up: the rest takes it a moment.
CAUGHT_UP_ENTRIES = 64


@dataclass(frozen=True, slots=True)
class Seen:
    """A member as the leader sees it now; it is not in the mapping while it is not connected."""

    incarnation: str
    feature_level: int
    match_index: int


@dataclass(frozen=True, slots=True)
class Change:
    configuration: Configuration
    why: str


def present(configuration: Configuration, seen: Mapping[str, Seen]) -> tuple[str, ...]:
    """The voters that can say yes now: connected, and on the disk that is recorded."""
    return tuple(
        member.id
        for member in configuration.members
        if member.voter
        and (found := seen.get(member.id)) is not None
        and member.incarnation in ("", found.incarnation)
    )


def next_change(
    configuration: Configuration,
    *,
    seen: Mapping[str, Seen],
    first_seen: Mapping[str, str],
    commit_index: int,
) -> Change | None:
    """The leader's next change, if one is due. `first_seen`: the disk of each member that has
    counted while none was recorded."""
    change = _raised(configuration, seen, first_seen)
    if change is None and configuration.feature_level >= RELEASE_0_3:
        change = _lost_disk(configuration, seen) or _caught_up(configuration, seen, commit_index)
    return change


def _raised(
    configuration: Configuration, seen: Mapping[str, Seen], first_seen: Mapping[str, str]
) -> Change | None:
    """Releases before 0.3 stop at an entry with a configuration: none before all can read it."""
    if not all(member.id in seen for member in configuration.members):
        return None
    level = min(seen[member.id].feature_level for member in configuration.members)
    if level <= configuration.feature_level or level < RELEASE_0_3:
        return None
    members = tuple(
        member
        if member.incarnation
        else replace(member, incarnation=first_seen.get(member.id) or seen[member.id].incarnation)
        for member in configuration.members
    )
    return Change(Configuration(members, level), f"every member understands feature level {level}")


def _lost_disk(configuration: Configuration, seen: Mapping[str, Seen]) -> Change | None:
    for member in configuration.members:
        found = seen.get(member.id)
        if found is None or found.incarnation == member.incarnation:
            continue
        changed = configuration.put(replace(member, voter=False, incarnation=found.incarnation))
        if not member.voter:
            return Change(changed, f"{member.id} is on a disk that is not recorded")
        if changed.voters and len(present(changed, seen)) >= changed.majority:
            return Change(changed, f"{member.id} came back with another disk")
    return None


def _caught_up(
    configuration: Configuration, seen: Mapping[str, Seen], commit_index: int
) -> Change | None:
    for member in configuration.members:
        if member.voter or not_promoted(configuration, member, seen, commit_index) is not None:
            continue
        changed = configuration.put(replace(member, voter=True))
        return Change(changed, f"{member.id} has caught up")
    return None


class NotYet(StrEnum):
    """Why a member that does not vote is not made a voter."""

    FOR_GOOD = "for_good"  # it is an API node
    ENOUGH_VOTERS = "enough_voters"
    NOT_CONNECTED = "not_connected"
    OTHER_DISK = "other_disk"  # it came on a disk that is not recorded yet
    BEHIND = "behind"
    OLD_RELEASE = "old_release"  # than the cluster's feature level
    OTHERS_AWAY = "others_away"  # with one voter more, those that are there were no majority
    LEVEL = "level"  # the cluster has not agreed yet on a level at which members change


def not_promoted(
    configuration: Configuration, member: Member, seen: Mapping[str, Seen], commit_index: int
) -> NotYet | None:
    """None: it is promoted with the next change."""
    found = seen.get(member.id)
    if member.api:
        return NotYet.FOR_GOOD
    if configuration.feature_level < RELEASE_0_3:
        return NotYet.LEVEL
    if len(configuration.voters) >= MAX_VOTERS:
        return NotYet.ENOUGH_VOTERS
    if found is None:
        return NotYet.NOT_CONNECTED
    if found.incarnation != member.incarnation:
        return NotYet.OTHER_DISK
    if found.match_index + CAUGHT_UP_ENTRIES < commit_index:
        return NotYet.BEHIND
    if found.feature_level < configuration.feature_level:
        return NotYet.OLD_RELEASE
    changed = configuration.put(replace(member, voter=True))
    return None if len(present(changed, seen)) >= changed.majority else NotYet.OTHERS_AWAY


# ---- what an operator asks for ------------------------------------------------------------------


def added(
    configuration: Configuration,
    member_id: str,
    raft: str,
    *,
    held_back_by: Collection[str],
    api: bool = False,
) -> Configuration:
    """With a new learner, which is promoted once it has caught up, unless it is to be an API node.
    Raises MembershipRefused."""
    _refuse_below_0_3(configuration, held_back_by)
    there = configuration.find(member_id)
    if there is not None:
        raise MembershipRefused(
            "NODE_EXISTS",
            f"{member_id} is a member already, at {there.raft} "
            f"({there.kind}). Choose another id; to move a node, use "
            "`raftflow node replace`; to fill an empty disk, only start it again",
        )
    for member in configuration.members:
        if member.raft == raft:
            raise MembershipRefused(
                "NODE_EXISTS",
                f"{raft} is the address of {member.id} already. Give the new node its own",
            )
    alike = sum(member.api == api for member in configuration.members)
    what, most = ("API nodes", MAX_API_NODES) if api else ("voters and learners", MAX_VOTERS)
    if alike >= most:
        raise MembershipRefused(
            "MEMBERSHIP_REFUSED",
            f"there are {alike} {what}, and at most {most} may be. Remove one first",
        )
    return configuration.put(Member(member_id, raft, voter=False, api=api))


def removed(
    configuration: Configuration,
    member_id: str,
    seen: Mapping[str, Seen],
    *,
    held_back_by: Collection[str],
) -> Configuration:
    """Without that member. Raises MembershipRefused."""
    _refuse_below_0_3(configuration, held_back_by)
    member = configuration.find(member_id)
    if member is None:
        known = ", ".join(each.id for each in configuration.members)
        raise MembershipRefused(
            "NODE_NOT_FOUND", f"{member_id} is no member; the members are {known}"
        )
    changed = configuration.without(member_id)
    if not changed.voters:
        raise MembershipRefused(
            "MEMBERSHIP_REFUSED",
            f"{member_id} is the last voter: without it there is no cluster. Add another node "
            "first, or stop this one",
        )
    there = present(changed, seen)
    if len(there) < changed.majority:
        away = ", ".join(voter for voter in changed.voters if voter not in there)
        raise MembershipRefused(
            "MEMBERSHIP_REFUSED",
            f"of the {len(changed.voters)} voters that would be left only {len(there)} can answer "
            f"({away} cannot): the cluster would stand still. Bring them back, or remove those "
            "first that are gone for good",
        )
    return changed


def _refuse_below_0_3(configuration: Configuration, held_back_by: Collection[str]) -> None:
    if configuration.feature_level < RELEASE_0_3:
        who = ", ".join(held_back_by)
        raise MembershipRefused(
            "MEMBERSHIP_REFUSED",
            "members can be changed once all nodes of the cluster are connected and run release "
            "0.3 or later" + (f"; {who} not yet" if who else "; that is being settled, try again"),
        )


# ---- the leader's task --------------------------------------------------------------------------


def seen_by(consensus: Consensus) -> dict[str, Seen]:
    """What the leader sees of the members, itself included."""
    status, found = consensus.status(), {}
    for peer, info in consensus.peers().items():
        if not info.connected:
            continue
        own = peer == consensus.config.node_id
        progress = status.peers.get(peer)
        match = status.flushed_index if own else progress.match_index if progress else 0
        found[peer] = Seen(info.incarnation, info.feature_level, match)
    return found


def held_back_by(consensus: Consensus) -> list[str]:
    """Members that are away or of a release before 0.3."""
    return [
        f"{info.id} ({info.version or 'version unknown'}"
        + (")" if info.connected else ", not connected)")
        for info in consensus.peers().values()
        if not info.connected or info.feature_level < RELEASE_0_3
    ]


class Steward:
    """Runs on every node and acts on the one that leads."""

    def __init__(self, consensus: Consensus, *, period_s: float = PERIOD_S) -> None:
        self._consensus = consensus
        self._period_s = period_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = spawn(self._run(), name="steward", fatal=self._consensus.fatal)

    async def stop(self) -> None:
        await end(self._task)

    async def _run(self) -> None:
        while True:
            if self._consensus.role is Role.LEADER:
                self._act()
            await asyncio.sleep(self._period_s)

    def _act(self) -> None:
        consensus = self._consensus
        change = next_change(
            consensus.configuration,
            seen=seen_by(consensus),
            first_seen=consensus.first_seen,
            commit_index=consensus.commit_index,
        )
        if change is None:
            return
        assert step_problem(consensus.configuration, change.configuration) is None
        try:
            proposed = consensus.change_membership(change.configuration)
        except (ChangeRefused, NotLeader):
            return  # the one before is under way; this is looked at again
        log.info("membership_change_proposed", index=proposed.index, reason=change.why)
