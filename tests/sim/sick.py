"""A simulated node with damaged data: the real repair, run step by step over simulated links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raftflow.cluster.consensus.proof import LogMap, Point, map_for_others
from raftflow.cluster.consensus.repair import Answer, AskEntries, AskMaps, RepairJob, Steps, repair
from raftflow.cluster.consensus.types import SnapshotManifest
from raftflow.raftlog import abstaining
from raftflow.raftlog.journal import LogEntry
from raftflow.raftlog.salvage import Run, Survey

if TYPE_CHECKING:
    from tests.sim.node import SimNode

READ_BYTES = 2_000
LOOK_AGAIN_S = 0.05


class Sickness:
    """Of one node, beside its processes."""

    def __init__(self, node: SimNode, directory: str) -> None:
        self._node = node
        self._directory = directory
        self._began = 0.0
        self._steps: Steps | None = None
        self.survey: Survey | None = None
        self.find_copies = True
        # Entries that were damaged and are not repaired yet; 0 stands for the state.
        self.rotten: set[int] = set()

    @property
    def repairing(self) -> bool:
        return self._steps is not None

    @property
    def lacking(self) -> bool:
        """It cannot help others yet, or could not when it died."""
        node = self._node
        if self.rotten or self.repairing:
            return True
        return node.incarnation > 0 and (node.core.abstaining or node.core.awaiting_copy)

    # -- before there is a core

    def begin(self, peers: list[str]) -> None:
        """The journal does not open: repair it, then start again."""
        node = self._node
        node.world.trace(f"{node.name} repairs its log")
        node.world.stats["repairs"] += 1
        self._began = node.world.clock.now

        def surveyed(survey: Survey) -> None:
            self.survey = survey

        self._steps = repair(
            RepairJob(
                disk=node.disk,
                directory=self._directory,
                peers=peers,
                applied=Point(node.durable.index, node.durable.term),
                segment_bytes=node.world.segment_bytes,
                surveyed=surveyed,
            )
        )
        self._step(node.incarnation, peers, None)

    def _step(self, incarnation: int, peers: list[str], answer: Answer) -> None:
        node = self._node
        if self._steps is None or node.incarnation != incarnation:
            return
        try:
            with node.acting():
                request = self._steps.send(answer)
        except StopIteration:
            self.end()
            node.start()
            return
        if isinstance(request, AskMaps):
            answer = {p: m for p in peers if (m := self._ask_map(p)) is not None}
        elif isinstance(request, AskEntries):
            answer = self._ask_entries(request)
        else:
            node.world.trace(f"{node.name} waits: {request.reason}")
            answer = node.world.clock.now - self._began
        later = node.rng.uniform(0.002, 0.03)
        node.world.clock.after(later, lambda: self._step(incarnation, peers, answer))

    def end(self) -> None:
        """The process is gone, or the log is whole."""
        self._steps = self.survey = None

    def _reached(self, peer: str) -> SimNode | None:
        world, name = self._node.world, self._node.name
        other = world.nodes.get(peer)
        if other is None or other.paused:
            return None
        links = world.network.links
        cut = links[name, peer].cut or links[peer, name].cut
        return None if cut or not (other.alive or other.sickness.survey) else other

    def _ask_map(self, peer: str) -> LogMap | None:
        other = self._reached(peer)
        if other is None:
            return None
        if not other.alive:
            assert other.sickness.survey is not None
            return map_for_others(other.sickness.survey)
        journal = other.journal
        runs = tuple(Run(*run) for run in journal.runs())
        return LogMap(Point(journal.prev_index, journal.prev_term), runs)

    def _ask_entries(self, wanted: AskEntries) -> list[LogEntry]:
        other = self._reached(wanted.peer)
        if other is None:
            return []
        source = other.journal if other.alive else other.sickness.survey
        assert source is not None
        if wanted.anchor and source.term(wanted.anchor.index) != wanted.anchor.term:
            return []
        try:
            if other.alive:
                return other.journal.entries(wanted.first, wanted.last + 1, READ_BYTES)
            assert other.sickness.survey is not None
            return other.sickness.survey.entries(wanted.first, wanted.last, READ_BYTES)
        except IndexError:
            return []

    # -- beside the core

    def recover(self) -> None:
        node, core = self._node, self._node.core
        self.rotten.clear()
        if core.awaiting_copy:
            node.world.stats["awaited copies"] += 1
            node._later(LOOK_AGAIN_S, self._look_for_copy)
        if core.abstaining:
            node.world.stats["abstained"] += 1
            node._later(LOOK_AGAIN_S, lambda: self._ask_committed(0))

    def _look_for_copy(self) -> None:
        node, least = self._node, self._node.journal.prev_index
        if not node.core.awaiting_copy:
            return
        for peer in sorted(node.world.nodes):
            other = self._reached(peer) if self.find_copies and peer != node.name else None
            if other is not None and other.alive and other.durable.index >= least:
                copy = other.durable
                held = other.core.committed_configuration
                name = f"{peer}-{copy.index}-{copy.term}"
                manifest = SnapshotManifest(
                    copy.index, copy.term, 100, "", name, held.configuration, held.index
                )
                node.membership.store(held)
                node._install(copy)
                node.world.checks.on_state(node)
                node._installed(manifest)
                return
        node._later(LOOK_AGAIN_S, self._look_for_copy)

    def _ask_committed(self, term: int, index: int = 0) -> None:
        """As recovery.py does: a read index of this term, and what the leader verified here."""
        node, core = self._node, self._node.core
        if not core.abstaining:
            return
        if index and core.term == term and core.covers(index):
            abstaining.clear(node.disk, self._directory)
            core.abstaining = False
            node.world.trace(f"{node.name} abstains no more: it has everything up to {index}")
            return
        if index and core.term == term:
            node._later(LOOK_AGAIN_S, lambda: self._ask_committed(term, index))
            return
        asked = core.term

        def done(found: int | None) -> None:
            node._later(LOOK_AGAIN_S, lambda: self._ask_committed(asked, found or 0))

        core.read_index(done)
        core.tick()
