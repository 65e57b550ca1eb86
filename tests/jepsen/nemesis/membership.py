"""Nodes are taken out, emptied and put in again while everything goes on."""

from __future__ import annotations

import time

from tests.jepsen import api
from tests.jepsen.cluster import MEMBERSHIP, empty
from tests.jepsen.nemesis.fault import Fault, NotNow

PATIENCE_S = 60.0
FEWEST = 3


class Members(Fault):
    """Out with `inject`, in again with `heal`: a fault that ends has changed the group twice."""

    needs = frozenset({MEMBERSHIP})
    lasts_s = (0.5, 6.0)
    # Who is removed says so and ends (78); a SIGTERM may meet it on its way out.
    ends_nodes = True

    def choose(self) -> list[str]:
        raise NotImplementedError

    def inject(self) -> str:
        if len(self.cluster.ids()) <= FEWEST:
            raise NotNow("two nodes are no cluster to be under fire")
        chosen = self.choose()
        for node in chosen:
            self._until(api.remove_node(node), but=node, done="NODE_NOT_FOUND")
            self.victims.append(node)
            empty(self.cluster, node)
        return f"removed {' '.join(chosen)}"

    def effect(self) -> str:
        left = self._members(but=self.victims[0])
        gone = [node for node in self.victims if node not in left]
        return f"members are {' '.join(sorted(left))}" if gone == self.victims else ""

    def heal(self) -> None:
        for node in self.victims:
            added = api.add_node(node, self.cluster.address(node, "raft"))
            self._until(added, but=node, done="NODE_EXISTS")
            self.cluster.join(node)
            until = time.monotonic() + PATIENCE_S
            while self._members(but=node).get(node) != "voter":
                assert time.monotonic() < until, (
                    f"{node} does not become a voter; {self.cluster.last_words(node)}"
                )
                time.sleep(0.2)

    def _members(self, *, but: str) -> dict[str, str]:
        asked = [self.call(node, api.members()) for node in self.others(but)]
        return api.newest_members(outcome.body for outcome in asked if outcome.ok)

    def _until(self, request: api.Request, *, but: str, done: str) -> None:
        """Ask one after the other; `done` is the refusal that says that it was done before."""
        until = time.monotonic() + PATIENCE_S
        last = ""
        while time.monotonic() < until:
            for node in self.others(but):
                outcome = self.call(node, request)
                if outcome.ok or outcome.error == done:
                    return
                last = f"{node}: {outcome.error}"
            time.sleep(0.2)
        raise AssertionError(f"{request.method} {request.path}: not within a minute; {last}")


class ReplaceFollower(Members):
    name = "replace-follower"

    def choose(self) -> list[str]:
        return [self.others(self.leader())[0]]


class ReplaceLeader(Members):
    name = "replace-leader"

    def choose(self) -> list[str]:
        return [self.leader()]


class Shrink(Members):
    """Down to three and back, the leader among those that go in half of the cases."""

    name = "shrink-and-grow"

    def choose(self) -> list[str]:
        leader = self.leader()
        gone = self.others(leader)[: len(self.cluster.ids()) - FEWEST]
        return [leader, *gone[1:]] if self.chance.random() < 0.5 else gone


FAULTS = (ReplaceFollower, ReplaceLeader, Shrink)
