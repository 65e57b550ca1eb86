"""`raftflow node rebuild`: a data directory whose node starts anew, as a new incarnation.

Nothing is deleted: what was there goes to `damaged-TIME` beside it. What stays is whose directory
it is, and who belonged to the cluster: the node must find the others, and know that it has nothing
to promise until they have taken it in again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.identity import (
    FORMAT_VERSION,
    SET_ASIDE,
    DirectoryLock,
    Identity,
    IdentityError,
    read_identity,
    write_identity,
)
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.durable import sync_directory
from raftflow.raftlog.disk import OsDisk
from raftflow.raftlog.errors import JournalError

RAFT = "raft"


class Needed(Exception):
    """The others cannot take this node in again: they are no majority without it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known of the directory; None where it cannot be read."""

    directory: Path
    identity: Identity | None
    held: Held | None

    @property
    def node_id(self) -> str | None:
        return self.identity.node_id if self.identity else None

    @property
    def cluster_id(self) -> str | None:
        return self.identity.cluster_id if self.identity else None

    @property
    def others(self) -> tuple[str, ...] | None:
        """The members beside this node; None when that is not known."""
        if self.held is None or self.identity is None:
            return None
        members = self.held.configuration.members
        return tuple(each.id for each in members if each.id != self.identity.node_id)

    def require_majority(self) -> None:
        """Raises Needed. A node that begins anew counts in nothing until a leader, elected by a
        majority of the voters without it, has taken it in."""
        if not self.others or self.held is None:
            return
        configuration = self.held.configuration
        voters = configuration.voters
        rest = [each for each in voters if each != self.node_id]
        if self.node_id in voters and len(rest) < configuration.majority:
            learners = [each.id for each in configuration.members if each.kind == "learner"]
            first = (
                f"wait until {', '.join(learners)} votes"
                if learners
                else "let another node join (`raftflow node add`)"
            )
            raise Needed(
                f"the cluster needs this node: of the voters {', '.join(voters)} a majority of "
                f"{configuration.majority} must take it in again, and without it there is only "
                f"{', '.join(rest)}. Start it as it is and {first} first; `raftflow node list` "
                "shows who votes"
            )


def plan_rebuild(directory: Path) -> Plan:
    """Look, and change nothing. Raises IdentityError when a node runs there, or nothing is."""
    if not directory.is_dir():
        raise IdentityError(f"{directory} is no directory")
    DirectoryLock(str(directory)).release()
    if not _contents(directory):
        raise IdentityError(
            f"{directory} holds no data: there is nothing to set aside. Start the node"
        )
    identity, held = None, None
    with contextlib.suppress(IdentityError):  # damaged: then the node begins without it
        identity = read_identity(str(directory))
    if (directory / RAFT).is_dir():
        with contextlib.suppress(JournalError):
            held = MembershipFile.open(str(directory / RAFT), OsDisk()).held
    return Plan(directory, identity, held)


def rebuild_directory(plan: Plan) -> Path:
    """Returns where the old data is. Interrupted, it is safe to repeat."""
    directory = plan.directory
    lock = DirectoryLock(str(directory))
    try:
        aside = directory / f"{SET_ASIDE}{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
        aside.mkdir()
        # node.json goes first: without it, and with the rest, no node starts here.
        for name in sorted(_contents(directory), key=lambda each: (each != "node.json", each)):
            os.rename(directory / name, aside / name)
        sync_directory(str(aside))
        sync_directory(str(directory))
        if plan.identity is not None:
            _begin_anew(plan, plan.identity)
        return aside
    finally:
        lock.release()


def _begin_anew(plan: Plan, old: Identity) -> None:
    if plan.held is not None and plan.others:
        configuration = plan.held.configuration
        own = configuration.find(old.node_id)
        if own is not None:
            # Also where no disk was recorded: this node must know that its promises were the old
            # one's.
            recorded = replace(own, incarnation=own.incarnation or old.incarnation)
            configuration = configuration.put(recorded)
        (plan.directory / RAFT).mkdir()
        MembershipFile.open(str(plan.directory / RAFT), OsDisk()).store(
            Held(plan.held.index, configuration)
        )
    write_identity(
        str(plan.directory),
        Identity(
            format=FORMAT_VERSION,
            cluster_id=old.cluster_id,
            node_id=old.node_id,
            incarnation=secrets.token_hex(16),
        ),
    )


def _contents(directory: Path) -> list[str]:
    return [
        name for name in os.listdir(directory) if name != "lock" and not name.startswith(SET_ASIDE)
    ]
