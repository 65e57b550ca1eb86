"""Clusters as `why` gathers them, for tests of its pure functions: three nodes that are well, and
whatever a test changes."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from raftflow.cluster.api.payloads import timestamp
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.facts import ClusterFacts
from raftflow.cluster.why.model import Link

NOW_MS = 1_800_000_000_000
IDS = ("n1", "n2", "n3")


@dataclass
class Picture:
    """``rows`` and ``told`` by node; a test changes them, `facts` freezes them."""

    leader: str | None = "n1"
    asked: str = "n1"
    elections: list[dict[str, Any]] = field(default_factory=list)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    told: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in IDS:
            self.add(name)
        if self.leader is not None:
            self.told[self.leader] |= {
                "backlog": {
                    **{"commands": 0, "bytes": 0, "entries": 0, "oldest_entry_ms": 0},
                    **{"refused": 0, "refused_ago_ms": None},
                },
                "not_promoted": {},
                "followers": {
                    name: {"mode": "streaming", "match_index": 500}
                    for name in IDS
                    if name != self.leader
                },
            }

    def add(self, name: str, kind: str = "voter") -> None:
        self.rows[name] = {
            "id": name,
            "raft": f"host-{name}:9233",
            "member": kind,
            "role": "leader" if name == self.leader else "follower",
            "term": 3,
            "version": "0.5.0",
            "feature_level": 4,
            "connected": True,
            "commit_index": 500,
            "applied_index": 500,
            "match_index": 500,
            "lag": 0,
            "last_contact_ms": 10,
            "first_index": 1,
            "uptime_seconds": 600.0,
            "disk_free_bytes": 50 << 30,
            "clock_skew_ms": 1,
            "fsync_ms": 2.0,
            "loop_lag_ms": 1.0,
            "certificates": {},
        }
        self.told[name] = {
            "peers": {},
            "tls_refused": {},
            "votes": {"voted_for": None, "asked_term": 0, "granted_by": [], "ballots": []},
            "log": {
                **{"first_index": 1, "last_index": 500, "flushed_index": 500},
                **{"applied_index": 500, "checkpointed_index": 490, "checkpoint_age_ms": 900},
                **{"checkpoint_every_ms": 5_000, "tail_entries": 10_000, "store_has_room": True},
                "pins": [],
            },
            "fetch": None,
            "repair": None,
            "disk": {"size_bytes": 100 << 30, "free_bytes": 50 << 30, "parts": {}, "growth": None},
            "dispute": None,
        }
        for other in self.told:
            if other != name:
                self.told[other]["peers"][name] = {"connected": True, "for_ms": 600_000}
                self.told[name]["peers"][other] = {"connected": True, "for_ms": 600_000}

    def free(self, name: str, free_bytes: int) -> None:
        self.rows[name]["disk_free_bytes"] = free_bytes
        self.told[name]["disk"]["free_bytes"] = free_bytes

    def lost(self, by: str, name: str, trouble: str, **more: Any) -> None:
        """``by`` has no connection with it."""
        seen = {"connected": False, "for_ms": 42_000, "trouble": trouble, "detail": "", **more}
        self.told[by]["peers"][name] = seen

    def away(self, name: str, trouble: str = "connection_refused", **more: Any) -> None:
        """Nobody reaches it."""
        self.silence(name)
        for other in self.told:
            self.lost(other, name, trouble, **more)

    def silence(self, name: str) -> None:
        """It answers nothing: what is left of its row is what the others know."""
        self.told.pop(name, None)
        known = ("id", "raft", "member", "version", "feature_level", "match_index")
        row = {key: self.rows[name][key] for key in known}
        self.rows[name] = {**row, "role": "unknown", "connected": False, "applied_index": None}

    def elected(self, leader: str | None, *, ago_ms: int, term: int = 3, reason: str = "") -> None:
        at = timestamp(NOW_MS - ago_ms)
        self.elections.append({"at": at, "term": term, "leader": leader, "reason": reason})

    @property
    def facts(self) -> ClusterFacts:
        return ClusterFacts(
            node=self.asked,
            leader=self.leader,
            term=3,
            nodes=copy.deepcopy(list(self.rows.values())),
            elections=copy.deepcopy(self.elections),
            told=copy.deepcopy(self.told),
            now_ms=NOW_MS,
            configuration_index=7,
            feature_level=4,
        )


def causes(links: Iterable[Link]) -> list[Cause]:
    return [link.cause for link in links]
