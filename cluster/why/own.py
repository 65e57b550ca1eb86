"""What one node tells of itself when another asks why something does not go on.

JSON over the peer channel, under a method that releases before 0.5 do not know. Times are ages, so
that nobody's wall clock matters. It answers from the moment its peers can reach it: a node that
repairs its log has no state yet, and says what it lacks.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Protocol

from raftflow.cluster import damage, steward
from raftflow.cluster.asking import Untold, ask
from raftflow.cluster.config import Config
from raftflow.cluster.consensus.contacts import Contact
from raftflow.cluster.consensus.driver import Consensus
from raftflow.cluster.consensus.types import Role, Votes
from raftflow.cluster.digest_exchange import DigestExchange
from raftflow.cluster.disk_watch import DiskUse, Growth
from raftflow.cluster.proposer import Proposer
from raftflow.cluster.replica import Replica
from raftflow.cluster.store import Store
from raftflow.engine.commands import FEATURE_LEVEL

METHOD = "why.node"
_ANSWER_MS = 700

Told = Mapping[str, Any]


class Disk(Protocol):
    def look(self) -> tuple[DiskUse, Growth | None] | None: ...


class OwnFacts:
    def __init__(
        self,
        *,
        config: Config,
        consensus: Consensus,
        replica: Replica,
        store: Store,
        proposer: Proposer,
        digests: DigestExchange,
        disk: Disk,
    ) -> None:
        self._config = config
        self._consensus = consensus
        self._replica = replica
        self._store = store
        self._proposer = proposer
        self._digests = digests
        self._disk = disk
        consensus.channel.register(METHOD, self._on_asked)

    async def all(self) -> dict[str, Told]:
        """This node's, and those of every other that answers, by id."""
        own = self._config.node_id
        others = [peer for peer in self._consensus.peers() if peer != own]
        found = await asyncio.gather(*(self._ask(peer) for peer in others))
        told = {peer: each for peer, each in zip(others, found, strict=True) if each is not None}
        return {own: self.tell(), **told}

    def tell(self) -> Told:
        now = time.monotonic()
        insight = self._consensus.insight
        votes = insight.votes()
        told = {
            "feature_level": FEATURE_LEVEL,
            "peers": {peer: _contact(seen, now) for peer, seen in insight.contacts().items()},
            "tls_refused": {
                host: {"ago_ms": _ago(at, now), "why": why}
                for host, (at, why) in insight.refused_hosts().items()
            },
            "votes": _votes(votes, now) if votes is not None else None,
            "log": self._log(now),
            "fetch": self._fetch(now),
            "repair": self._repair(),
            "disk": self._disk_use(),
            "dispute": self._dispute(now),
        }
        if votes is not None and self._consensus.role is Role.LEADER:
            told |= self._as_leader()
        return told

    async def _on_asked(self, _peer: str, _payload: bytes) -> bytes:
        return json.dumps(self.tell()).encode()

    async def _ask(self, peer: str) -> Told | None:
        channel = self._consensus.channel
        try:
            told = await ask(channel, peer, METHOD, b"", read=json.loads, timeout_ms=_ANSWER_MS)
        except Untold:
            return None
        return told if isinstance(told, dict) else None

    def _log(self, now: float) -> Told | None:
        span = self._consensus.insight.log()
        if span is None:
            return None
        storage = self._config.storage
        return {
            "first_index": span.first_index,
            "last_index": span.last_index,
            "flushed_index": span.flushed_index,
            "applied_index": self._replica.applied_index,
            "checkpointed_index": self._store.checkpointed_index,
            "checkpoint_age_ms": round(self._replica.snapshot_age_seconds * 1_000),
            "checkpoint_every_ms": storage.checkpoint_interval_ms,
            "tail_entries": storage.log_tail_entries,
            "store_has_room": self._store.has_room,
            "pins": [
                {
                    "index": pin.index,
                    "for_ms": _ago(pin.since_s, now),
                    "size": pin.size,
                    "readers": pin.readers,
                }
                for pin in span.pins
            ],
        }

    def _fetch(self, now: float) -> Told | None:
        fetch = self._consensus.insight.fetch()
        if fetch is None:
            return None
        return {
            "source": fetch.source,
            "index": fetch.index,
            "size": fetch.size,
            "received": fetch.received,
            "for_ms": _ago(fetch.since_s, now),
            "installing": fetch.installing,
        }

    def _repair(self) -> Told | None:
        found = self._consensus.insight.damage()
        if found is None:
            return None
        return {**asdict(found), "noted": damage.noted(self._config.data_dir)}

    def _disk_use(self) -> Told | None:
        looked = self._disk.look()
        if looked is None:
            return None
        use, growth = looked
        return {**asdict(use), "growth": None if growth is None else asdict(growth)}

    def _dispute(self, now: float) -> Told | None:
        dispute = self._digests.last_dispute
        if dispute is None:
            return None
        return {
            "index": dispute.index,
            "peer": dispute.peer,
            "decided": dispute.decided,
            "odd": dispute.odd,
            "ago_ms": _ago(dispute.at_s, now),
        }

    def _as_leader(self) -> dict[str, Any]:
        consensus, backlog = self._consensus, self._proposer.backlog()
        seen = steward.seen_by(consensus)
        configuration, commit_index = consensus.configuration, consensus.commit_index
        waits = {
            member.id: steward.not_promoted(configuration, member, seen, commit_index)
            for member in configuration.members
            if not member.voter
        }
        return {
            "backlog": {
                "commands": backlog.commands,
                "bytes": backlog.bytes,
                "entries": backlog.entries,
                "oldest_entry_ms": backlog.oldest_entry_ms,
                "refused": backlog.refused,
                "refused_ago_ms": backlog.refused_ago_ms,
            },
            "not_promoted": {peer: why for peer, why in waits.items() if why is not None},
            "followers": {
                peer: {"mode": seen.mode, "match_index": seen.match_index}
                for peer, seen in consensus.status().peers.items()
            },
        }


def _ago(at_s: float, now_s: float) -> int:
    return max(0, round((now_s - at_s) * 1_000))


def _contact(seen: Contact, now: float) -> Told:
    told: dict[str, Any] = {"connected": seen.connected, "for_ms": _ago(seen.since_s, now)}
    if not seen.connected:
        told |= {"trouble": seen.trouble, "detail": seen.detail}
    if seen.refusal:
        told |= {"refusal": seen.refusal, "refused_ago_ms": _ago(seen.refused_at_s, now)}
    return told


def _votes(votes: Votes, now: float) -> Told:
    return {
        "voted_for": votes.voted_for,
        "asked_term": votes.asked_term,
        "granted_by": sorted(votes.granted_by),
        "ballots": [
            {
                "ago_ms": _ago(each.at_s, now),
                "term": each.term,
                "candidate": each.candidate,
                "pre": each.pre,
                "objection": each.objection,
                "candidate_log": each.candidate_log,
                "own_log": each.own_log,
            }
            for each in votes.ballots
        ],
    }
