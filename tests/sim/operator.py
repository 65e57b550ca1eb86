"""Whoever runs the cluster: nodes come, go, lose their disks and get new ones, one at a time.

It does what the product's own policy does, and refuses what would leave no majority alive.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.types import ChangeRefused, NotLeader

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World

MOST_NODES = 7
MOST_MEMBERS = 5
CAUGHT_UP = 20
HASTE = 0.1


class Operator:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"operator of {world.seed}")
        self.stopped = world.only_processes_crash  # stock PySyncObj is left as it was born

    def begin(self) -> None:
        self._world.clock.after(1.0, self._care)

    # -- what the nemesis asks for; each says whether it was done

    def join(self) -> bool:
        """A new node, or one that was removed: with its old disk or a new one."""
        leader = self._leader()
        if leader is None:
            return False
        configuration = leader.core.configuration.configuration
        if len(configuration.members) >= MOST_MEMBERS:
            return False
        node = self._newcomer(configuration)
        if node is None:
            return False
        member = Member(node.name, node.name, voter=False, incarnation=node.disk_id)
        return self._change(leader, configuration.put(member), f"add {node.name}")

    def leave(self, name: str) -> bool:
        leader = self._leader()
        if leader is None:
            return False
        after = leader.core.configuration.configuration.without(name)
        return self._change(leader, after, f"remove {name}")

    def lose_disk(self, name: str) -> bool:
        """Its disk is gone; it comes back with an empty one, and an operator who does not know."""
        world, node = self._world, self._world.nodes[name]
        recorded = [held.find(name) for held in self._configurations()]
        if any(m is not None and m.incarnation != node.disk_id for m in recorded):
            return False  # Not known by its disk yet, or known by one that it lost before.
        base = self._joinable(name)
        if base is None or not all(self._lives(h, without=name) for h in self._configurations()):
            return False
        if self._rng.random() < 0.5 and self._may_say_as_at_birth(name):
            base = world.birth
        world.trace(f"-- {name} loses its disk")
        if node.alive:
            node.kill(power=False)
        node.replace_disk(base)
        world.restart_after(node, self._rng.uniform(0.05, 1.0))
        return True

    # -- what the leader does by itself

    def _care(self) -> None:
        if self.stopped:
            return
        leader = self._leader()
        if leader is not None:
            configuration = leader.core.configuration.configuration
            if self._rng.random() < HASTE:
                self._change(leader, self._hasty(configuration), "in haste")
            else:
                self._care_for(leader, configuration)
        self._world.clock.after(self._rng.uniform(0.05, 0.4), self._care)

    def _care_for(self, leader: SimNode, configuration: Configuration) -> None:
        seen, status = leader.first_seen, leader.core.status()
        recorded = configuration
        for member in configuration.members:
            if not member.incarnation and member.id in seen:
                known = Member(member.id, member.raft, member.voter, seen[member.id])
                recorded = recorded.put(known)
        if recorded != configuration:
            self._change(leader, recorded, "record disks")
            return
        for member in configuration.members:
            peer, disk = status.peers.get(member.id), leader.met.get(member.id)
            if peer is None or not peer.connected or disk is None:
                continue
            if member.voter and disk != member.incarnation:
                learner = Member(member.id, member.raft, voter=False, incarnation=disk)
                self._change(leader, configuration.put(learner), f"{member.id} learns anew")
                return
            if not member.voter and peer.match_index >= status.last_index - CAUGHT_UP:
                voter = Member(member.id, member.raft, voter=True, incarnation=disk)
                self._change(leader, configuration.put(voter), f"{member.id} votes")
                return

    def _hasty(self, configuration: Configuration) -> Configuration:
        """What somebody might want at once, and mostly must not get."""
        after, rng = configuration, self._rng
        for member in configuration.members:
            fate = rng.random()
            if fate < 0.2:
                after = after.without(member.id)
            elif fate < 0.4:
                after = after.put(replace(member, voter=not member.voter))
            elif fate < 0.6:
                disk = self._world.nodes[member.id].disk_id
                after = after.put(replace(member, incarnation=disk))
        return after

    def _change(self, leader: SimNode, configuration: Configuration, what: str) -> bool:
        if not configuration.voters or not self._lives(configuration):
            return False
        done: list[bool] = []

        def change() -> None:
            before = leader.core.configuration
            try:
                proposed = leader.core.change(configuration)
            except (ChangeRefused, NotLeader):
                return
            done.append(True)
            self._world.trace(f"-- {what}: {''.join(configuration.voters)} by {leader.name}")
            self._world.stats["changes"] += 1
            self._world.checks.on_change(leader, before, proposed, configuration)
            leader.core.tick()

        leader.do(change)
        return bool(done)

    def _leader(self) -> SimNode | None:
        return self._world.leader()

    def _configurations(self) -> list[Configuration]:
        """Every one that a node may go by."""
        cores = [node.core for node in self._world.nodes.values() if node.incarnation]
        held = [core.configuration for core in cores]
        held += [core.committed_configuration for core in cores]
        return [each.configuration for each in held]

    def _lives(self, configuration: Configuration, *, without: str = "") -> bool:
        """Whether enough voters have the disk that they are known by, and all that was on it."""
        nodes = self._world.nodes
        intact = [
            member
            for member in configuration.members
            if member.voter
            and member.id != without
            and member.incarnation in ("", nodes[member.id].disk_id)
            and not nodes[member.id].sickness.lacking
        ]
        return len(intact) >= configuration.majority

    def _joinable(self, name: str = "") -> Configuration | None:
        """What an operator writes behind --join."""
        leader = self._leader()
        if leader is None:
            return None
        members = leader.core.configuration.configuration.without(name).members
        return Configuration(tuple(Member(m.id, m.raft) for m in members)) if members else None

    def _may_say_as_at_birth(self, name: str) -> bool:
        """To start an empty directory with the peers of long ago is safe while they are the members
        still, and a majority of them is not empty: otherwise it would be another cluster."""
        leader, nodes = self._leader(), self._world.nodes.values()
        assert leader is not None
        now = {member.id for member in leader.core.configuration.configuration.members}
        empty = [n for n in nodes if n.incarnation and n.core.configuration.index == 0]
        return now == set(self._world.birth.voters) and not [n for n in empty if n.name != name]

    def _newcomer(self, configuration: Configuration) -> SimNode | None:
        world, rng = self._world, self._rng
        known = {member.id for held in self._configurations() for member in held.members}
        gone = [node for name, node in world.nodes.items() if configuration.find(name) is None]
        if gone and rng.random() < 0.5:
            node = rng.choice(gone)
            base = self._joinable(node.name)
            if node.name not in known and base is not None and rng.random() < 0.5:
                if node.alive:
                    node.kill(power=False)
                node.replace_disk(base)
                world.restart_after(node, 0.01)
            return node
        base = self._joinable()
        if len(world.nodes) >= MOST_NODES or base is None:
            return None
        node = world.add_node(base)
        node.start()
        return node
