"""A node with damaged data on its way back: the log, the state, the promises (CONSENSUS row 19).

In this order: a damaged log is made whole from the peers before the core is built; a state that is
older than the log is replaced by a copy; and a node that lost what it had acknowledged votes for
nobody until everything committed is back.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn, Protocol

import structlog

from raftflow.cluster.background import end, in_thread, spawn
from raftflow.cluster.consensus import membership_file, repair_exchange
from raftflow.cluster.consensus.channel import PeerChannel, PeerError
from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.core import Core
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.cluster.consensus.proof import Point
from raftflow.cluster.consensus.repair import RepairJob, repair
from raftflow.cluster.consensus.repair_exchange import LogServer, RepairClient
from raftflow.cluster.consensus.snapshots import SnapshotFetcher, SnapshotSource
from raftflow.cluster.consensus.types import Unavailable
from raftflow.raftlog import abstaining
from raftflow.raftlog.disk import Disk, OsDisk
from raftflow.raftlog.errors import JournalDamaged
from raftflow.raftlog.journal import Journal
from raftflow.raftlog.salvage import Survey

log = structlog.get_logger()

_LOOK_AGAIN_S = 0.1
_READ_INDEX_MS = 1_000
_TELL_EVERY_S = 10.0
_ABSTAINS = (
    "the acknowledged end of the log was lost: this node votes for nobody until it has what a "
    "leader that the others elect has committed"
)
_NOBODY_LEADS = (
    ". No leader is known: start every node that is away. If a majority abstains like this, nobody "
    'can be elected until an operator decides what to give up: docs/operating.md, "A majority '
    'abstains"'
)


@dataclass(frozen=True, slots=True)
class Lacks:
    """What a node that starts does not have."""

    promises: bool  # what it acknowledged is not all there
    state: bool  # its log begins after the state that it has


class Driver(Protocol):
    """What the recovery of a running node asks of it."""

    @property
    def term(self) -> int: ...

    async def read_index(self, *, timeout_ms: int) -> int: ...

    def fatal(self, error: BaseException) -> NoReturn: ...


def has_peers(data_dir: str, node_id: str, voters: Collection[Peer]) -> bool:
    """Whether there may be anybody to repair this node from, as far as its files and its
    configuration tell."""
    directory = os.path.join(data_dir, "raft")
    held: Held | None = None
    if os.path.exists(os.path.join(directory, membership_file.FILE)):
        with suppress(JournalDamaged):  # told when the log is opened
            held = MembershipFile.open(directory, OsDisk()).held
    members = {member.id for member in held.configuration.members} if held is not None else set()
    return bool((members | {peer.id for peer in voters}) - {node_id})


class Peer(Protocol):
    @property
    def id(self) -> str: ...


class Recovery:
    """`set_aside` is told of files before they are replaced."""

    def __init__(
        self, channel: PeerChannel, *, disk: Disk, directory: str, segment_bytes: int
    ) -> None:
        self.set_aside: Callable[[Sequence[str]], None] = lambda _paths: None
        self._channel = channel
        self._disk = disk
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._server = LogServer(channel)
        self._client: RepairClient | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._has_state = asyncio.Event()
        self._least_index = 0
        self._core: Core | None = None
        self._source: SnapshotSource | None = None
        channel.register(repair_exchange.COPY, self._serve_copy)

    async def has_state(self) -> None:
        """Wait until this node has the state that its log goes on from."""
        await self._has_state.wait()

    @property
    def waiting_for(self) -> str:
        """What this node waits for before it is whole; empty when it is."""
        if self._core is None:
            return self._client.waiting_for if self._client is not None else ""
        if self._core.awaiting_copy:
            return (
                "the state was damaged or lost: a copy is needed from any node that has one at "
                f"entry {self._least_index} or later"
            )
        if self._core.abstaining:
            return _ABSTAINS + ("" if self._core.leader is not None else _NOBODY_LEADS)
        return ""

    @property
    def wounds(self) -> tuple[str, ...]:
        """The damaged places of the log, as they were found at the start."""
        survey = self._server.survey
        if survey is None:
            return ()
        return tuple(f"{each.path} at {each.offset}: {each.message}" for each in survey.wounds)

    # ---- before the core --------------------------------------------------------------------

    async def open_journal(
        self,
        opened: Callable[[], Journal],
        peers: Collection[str],
        members: Collection[str],
        applied: Point,
        *,
        meet_peers: Callable[[], Awaitable[None]],
    ) -> Journal:
        """Open it, repaired if that is needed and there is anybody to ask. All `peers` are asked;
        only `members` are waited for: the setting may name one that was removed long ago. Raises
        JournalError."""
        try:
            journal = await in_thread(opened)
        except JournalDamaged as damage:
            if not peers:
                raise
            log.error("repair_started", reason=str(damage))
            await meet_peers()
            self._client = RepairClient(self._channel, self._server, peers)
            await self._client.run(repair(self._job(members or peers, applied)))
            journal = await in_thread(opened)
            log.info("repair_finished", last_index=journal.last_index)
        self._server.journal = journal
        return journal

    def _job(self, peers: Collection[str], applied: Point) -> RepairJob:
        def surveyed(survey: Survey) -> None:
            self._server.survey = survey

        return RepairJob(
            disk=self._disk,
            directory=self._directory,
            peers=peers,
            applied=applied,
            segment_bytes=self._segment_bytes,
            set_aside=self.set_aside,
            surveyed=surveyed,
        )

    def lacks(self, journal: Journal, applied_index: int, *, alone: bool) -> Lacks:
        if alone:
            return Lacks(promises=False, state=False)
        if applied_index > 0 and not journal.first_index:
            # A copy that was installed, and then a crash; or the whole log is gone. Who knows?
            abstaining.mark(self._disk, self._directory, "the log is gone")
        self._least_index = journal.prev_index
        return Lacks(
            promises=abstaining.marked(self._disk, self._directory),
            state=applied_index < journal.prev_index,
        )

    # ---- beside the core --------------------------------------------------------------------

    def begin(
        self, driver: Driver, core: Core, source: SnapshotSource, fetcher: SnapshotFetcher
    ) -> None:
        self._core, self._source = core, source
        if core.awaiting_copy:
            work = self._await_copy(core, fetcher)
            self._tasks.append(spawn(work, name="await-copy", fatal=driver.fatal))
        else:
            self._has_state.set()
        if core.abstaining:
            work = self._await_committed(core, driver)
            self._tasks.append(spawn(work, name="abstain", fatal=driver.fatal))

    async def stop(self) -> None:
        await end(*self._tasks)

    async def _await_copy(self, core: Core, fetcher: SnapshotFetcher) -> None:
        refused: set[str] = set()
        while core.awaiting_copy:
            members = {member.id for member in core.configuration.configuration.members}
            offer = await repair_exchange.find_copy(
                self._channel, members - refused, self._least_index
            )
            if offer is not None:
                fetcher.offered(offer.peer, offer.manifest)
                await fetcher.fetched()
            if core.awaiting_copy:
                # The next one's may be better. After all, begin anew.
                refused = refused | {offer.peer} if offer is not None else set()
                await self._pause()
        log.info("state_copied")
        self._has_state.set()

    async def _await_committed(self, core: Core, driver: Driver) -> None:
        """What a leader says to be committed, and has verified here, holds all that this node ever
        helped to commit: nobody could be elected with its vote meanwhile."""
        index, term = -1, 0
        while core.abstaining:
            await self._pause()
            if index < 0 or driver.term != term:
                index, term = -1, driver.term
                with suppress(Unavailable):
                    index = await driver.read_index(timeout_ms=_READ_INDEX_MS)
            elif core.covers(index):
                await in_thread(abstaining.clear, self._disk, self._directory)
                core.abstaining = False
                log.info("node_abstains_no_more", index=index)

    async def _pause(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._tell_at:
            self._tell_at = now + _TELL_EVERY_S
            log.warning("repair_waiting", reason=self.waiting_for)
        await asyncio.sleep(_LOOK_AGAIN_S)

    _tell_at = 0.0

    async def _serve_copy(self, peer: str, payload: bytes) -> bytes:
        core, source = self._core, self._source
        if core is None or source is None or core.awaiting_copy:
            raise PeerError("NOT_READY", "this node has no state itself")
        manifest = await source.copy_for(peer, repair_exchange.least_index(payload))
        if manifest is None:
            raise PeerError("BEHIND", "this node has not applied so much")
        return repair_exchange.encode_offer(manifest, core.committed_configuration)
