"""Repair over the peer channel: what this node tells of its log, and what it asks of others.

Every node answers, whoever leads and whether or not it is being repaired itself: then it serves
what it can read.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog
from google.protobuf.message import DecodeError

from raftflow.cluster.background import in_thread
from raftflow.cluster.consensus import membership
from raftflow.cluster.consensus.channel import PeerChannel, PeerError, PeerTimeout, PeerUnavailable
from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.proof import LogMap, Point, map_for_others
from raftflow.cluster.consensus.repair import (
    Answer,
    AskEntries,
    AskMaps,
    Request,
    Steps,
)
from raftflow.cluster.consensus.types import SnapshotManifest
from raftflow.proto.raftflow.internal.v1 import repair_pb2 as pb
from raftflow.raftlog.journal import Journal, LogEntry
from raftflow.raftlog.salvage import Run, Survey

log = structlog.get_logger()

M = TypeVar("M", pb.ReadLog, pb.WantCopy)

MAP = "log.map"
READ = "log.read"
COPY = "copy.want"

READ_BYTES = 1 << 20
_TIMEOUT_MS = 5_000
_COPY_TIMEOUT_MS = 120_000
_PAUSE_S = 0.25
_TELL_EVERY_S = 10.0


class LogServer:
    """Answers from the journal, or from what is left of it."""

    def __init__(self, channel: PeerChannel) -> None:
        self.journal: Journal | None = None
        self.survey: Survey | None = None
        self.files = threading.Lock()  # held while they are written anew, or read beside that
        channel.register(MAP, self._serve_map)
        channel.register(READ, self._serve_read)

    async def _serve_map(self, _peer: str, _payload: bytes) -> bytes:
        if self.journal is not None:
            journal = self.journal
            runs = tuple(Run(*run) for run in journal.runs())
            return _encode_map(LogMap(Point(journal.prev_index, journal.prev_term), runs))
        if self.survey is None:
            raise PeerError("NOT_READY", "the log is being read")
        return _encode_map(map_for_others(self.survey))

    async def _serve_read(self, _peer: str, payload: bytes) -> bytes:
        wanted = _parse(pb.ReadLog, payload)
        if self.journal is not None:
            entries = _read_journal(self.journal, wanted)
        else:
            entries = await asyncio.to_thread(self._read_survey, wanted)
        return pb.LogEntries(
            entries=[pb.LoggedEntry(term=e.term, payload=e.payload) for e in entries]
        ).SerializeToString()

    def _read_survey(self, wanted: pb.ReadLog) -> list[LogEntry]:
        with self.files:
            survey = self.survey
            if survey is None or not _stands(survey.term(wanted.anchor_index), wanted):
                return []
            return survey.entries(wanted.first, wanted.last, READ_BYTES)


def _read_journal(journal: Journal, wanted: pb.ReadLog) -> list[LogEntry]:
    if not _stands(journal.term(wanted.anchor_index), wanted):
        return []
    try:
        return journal.entries(wanted.first, wanted.last + 1, READ_BYTES)
    except IndexError:
        return []


def _stands(term: int | None, wanted: pb.ReadLog) -> bool:
    return wanted.anchor_index == 0 or term == wanted.anchor_term


class RepairClient:
    """Runs the steps of a repair in a thread and asks the peers what they want to know."""

    def __init__(self, channel: PeerChannel, server: LogServer, peers: Collection[str]) -> None:
        self._channel = channel
        self._server = server
        self._peers = sorted(peers)
        self.waiting_for = ""

    async def run(self, steps: Steps) -> bool:
        loop = asyncio.get_running_loop()
        began, told_at = loop.time(), -_TELL_EVERY_S
        answer: Answer = None
        while True:
            step = await in_thread(self._advance, steps, answer)
            if isinstance(step, bool):
                self.waiting_for = ""
                return step
            if isinstance(step, AskMaps):
                answer = await self._maps()
            elif isinstance(step, AskEntries):
                answer = await self._entries(step)
            else:
                self.waiting_for = step.reason
                if loop.time() - told_at >= _TELL_EVERY_S:
                    told_at = loop.time()
                    log.warning("repair_waiting", reason=step.reason)
                await asyncio.sleep(_PAUSE_S)
                answer = loop.time() - began

    def _advance(self, steps: Steps, answer: Answer) -> Request | bool:
        with self._server.files:
            try:
                return steps.send(answer)
            except StopIteration as stop:
                return bool(stop.value)

    async def _maps(self) -> Mapping[str, LogMap]:
        found = await asyncio.gather(*(self._map(peer) for peer in self._peers))
        return {peer: it for peer, it in zip(self._peers, found, strict=True) if it is not None}

    async def _map(self, peer: str) -> LogMap | None:
        answer = await _call(self._channel, peer, MAP, b"")
        return None if answer is None else _decode_map(answer)

    async def _entries(self, wanted: AskEntries) -> Sequence[LogEntry]:
        request = pb.ReadLog(first=wanted.first, last=wanted.last)
        if wanted.anchor is not None:
            request.anchor_index, request.anchor_term = wanted.anchor.index, wanted.anchor.term
        answer = await _call(self._channel, wanted.peer, READ, request.SerializeToString())
        if answer is None:
            return []
        try:
            entries = pb.LogEntries.FromString(answer).entries
        except DecodeError:
            return []
        return [LogEntry(wanted.first + n, e.term, e.payload) for n, e in enumerate(entries)]


@dataclass(frozen=True, slots=True)
class Offer:
    """A copy of a peer's state."""

    peer: str
    manifest: SnapshotManifest


async def find_copy(channel: PeerChannel, peers: Collection[str], least_index: int) -> Offer | None:
    """Ask one peer after another, leader or not, for a copy at this index or later."""
    request = pb.WantCopy(least_index=least_index).SerializeToString()
    for peer in sorted(peers):
        answer = await _call(channel, peer, COPY, request, timeout_ms=_COPY_TIMEOUT_MS)
        if answer is None:
            continue
        try:
            offered = pb.OfferedCopy.FromString(answer)
            configuration = membership.from_message(offered.configuration)
        except (DecodeError, membership.MembershipError):
            continue
        manifest = SnapshotManifest(
            index=offered.index,
            term=offered.term,
            size=offered.size,
            sha256=offered.sha256,
            snapshot_id=offered.snapshot_id,
            configuration=configuration,
            configuration_index=offered.configuration_index,
        )
        return Offer(peer, manifest)
    return None


def least_index(payload: bytes) -> int:
    """Which copy is wanted at least."""
    return int(_parse(pb.WantCopy, payload).least_index)


def encode_offer(manifest: SnapshotManifest, held: Held) -> bytes:
    return pb.OfferedCopy(
        index=manifest.index,
        term=manifest.term,
        size=manifest.size,
        sha256=manifest.sha256,
        snapshot_id=manifest.snapshot_id,
        configuration=membership.to_message(held.configuration),
        configuration_index=held.index,
    ).SerializeToString()


async def _call(
    channel: PeerChannel, peer: str, method: str, payload: bytes, *, timeout_ms: int = _TIMEOUT_MS
) -> bytes | None:
    try:
        return await channel.call(peer, method, payload, timeout_ms=timeout_ms)
    except PeerUnavailable:
        return None
    except (PeerTimeout, PeerError) as error:
        log.info("repair_unanswered", peer=peer, method=method, reason=str(error))
        return None


def _encode_map(known: LogMap) -> bytes:
    return pb.LogMap(
        prev_index=known.start.index,
        prev_term=known.start.term,
        runs=[pb.LogRun(first=r.first, last=r.last, term=r.term) for r in known.runs],
        points=[pb.LogPoint(index=p.index, term=p.term) for p in known.points],
    ).SerializeToString()


def _decode_map(answer: bytes) -> LogMap | None:
    try:
        told = pb.LogMap.FromString(answer)
    except DecodeError:
        return None
    runs = tuple(Run(run.first, run.last, run.term) for run in told.runs)
    ends = [told.prev_index, *(index for run in runs for index in (run.first, run.last))]
    if ends != sorted(ends):
        return None
    points = tuple(Point(point.index, point.term) for point in told.points)
    return LogMap(Point(told.prev_index, told.prev_term), runs, points)


def _parse(kind: type[M], payload: bytes) -> M:
    message = kind()
    try:
        message.ParseFromString(payload)
    except DecodeError as error:
        raise PeerError("BAD_REQUEST", f"{len(payload)} bytes") from error
    return message
