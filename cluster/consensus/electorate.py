"""Who counts: majorities of one configuration (CONSENSUS rows 20, 21; Raft dissertation §4.1).

Every quorum of the core is asked for here: votes, pre-votes, acknowledgements, read rounds,
contact. A member counts if it may vote and its promises are on the disk that the configuration
names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from raftflow.cluster.consensus.membership import Configuration


class Electorate:
    """`first_seen` names the disk of a voter of which the configuration records none; it may grow
    while the configuration is in force."""

    __slots__ = ("_disks", "_first_seen", "majority", "voters")

    def __init__(self, configuration: Configuration, first_seen: Mapping[str, str]) -> None:
        self._first_seen = first_seen
        self._disks = {m.id: m.incarnation for m in configuration.members if m.voter}
        self.voters = frozenset(self._disks)
        self.majority = configuration.majority

    def counts(self, member_id: str, incarnation: str) -> bool:
        """Whether what this process says counts. One whose disk is another has lost its promises,
        or holds those of somebody else."""
        if member_id not in self.voters:
            return False
        disk = self._disks[member_id] or self._first_seen.get(member_id, "")
        return disk in ("", incarnation)

    def contradiction(self, after: Configuration) -> str | None:
        """Why `after` must not record a disk: the voter was met with another one, and to record a
        disk is no change of voters."""
        for member in after.members:
            before = self._disks.get(member.id)
            met = self._first_seen.get(member.id, member.incarnation)
            if member.voter and before == "" and member.incarnation not in ("", met):
                return f"{member.id} had another disk when it was met first: it must learn anew"
        return None

    def agreed(self, ids: Collection[str]) -> bool:
        """Whether these are a majority; whoever is no voter is passed over."""
        return len(self.voters.intersection(ids)) >= self.majority

    def reached(self, values: Mapping[str, int]) -> int:
        """The highest value that a majority has reached; 0 stands for who is not named."""
        reached = sorted((values.get(voter, 0) for voter in self.voters), reverse=True)
        return reached[self.majority - 1] if reached else 0
