"""Whatever the files of the log hold: they are refused in words, or what is read was written."""

from __future__ import annotations

from functools import cache

from accepted import ENTRY, LOG
from crash_disk import CrashDisk
from engine_harness import EngineHarness
from hypothesis import given
from hypothesis import strategies as st
from mutations import bent, fuzzed
from replica_rig import play
from strategies import random_wishes

from raftflow.cluster.codec import decode_entry
from raftflow.cluster.consensus.configurations import Held
from raftflow.cluster.consensus.membership import Configuration, Member
from raftflow.cluster.consensus.membership_file import MembershipFile
from raftflow.engine.apply import apply
from raftflow.engine.commands import Batch
from raftflow.engine.state import Catalog, WorkingSet
from raftflow.raftlog import segment
from raftflow.raftlog.hardstate import HardState
from raftflow.raftlog.journal import Journal, LogEntry

DIRECTORY = "/raft"
ENTRIES = [LogEntry(n, 1 + n // 9, b"%d." % n + b"\0x" * (n * 7 % 90)) for n in range(1, 31)]
MEMBERS = Configuration(members=(Member(id="n1", raft="h:1"), Member(id="n2", raft="h:2")))


def opened(disk: CrashDisk) -> Journal:
    size = segment.HEADER_BYTES + 900
    return Journal.open(DIRECTORY, disk=disk, segment_bytes=size, cache_bytes=1000)


@cache
def healthy() -> dict[str, bytes]:
    disk = CrashDisk()
    HardState.open(DIRECTORY, disk).store(4, "n2")
    MembershipFile.open(DIRECTORY, disk).store(Held(7, MEMBERS))
    journal = opened(disk)
    for start in range(0, len(ENTRIES), 4):
        journal.append(ENTRIES[start : start + 4])
        journal.flush()
    return disk.files()


@fuzzed()
@given(st.data())
def test_a_log_with_bent_files_gives_what_was_written_or_a_refusal(data: st.DataObject) -> None:
    files = dict(healthy())
    corpus = list(files.values())
    for path in data.draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=2)):
        files[path] = data.draw(bent([files[path], *corpus]) | st.just(files[path]))
    if data.draw(st.booleans()):
        # A file that is missing, or has the name of another.
        path = data.draw(st.sampled_from(sorted(files)))
        content = files.pop(path)
        if data.draw(st.booleans()):
            files[data.draw(st.sampled_from(sorted(files)))] = content
    try:
        journal = opened(CrashDisk(files))
        last, first = journal.last_index, journal.first_index
        found = journal.entries(first, last + 1, 1 << 30) if last >= first > 0 else []
    except LOG:
        return
    assert found == ENTRIES[first - 1 : last] if found else True


@fuzzed()
@given(st.data())
def test_a_bent_vote_or_membership_is_what_it_was_or_a_refusal(data: st.DataObject) -> None:
    files = dict(healthy())
    for name in ("hardstate", "membership"):
        path = f"{DIRECTORY}/{name}"
        assert path in files
        files[path] = data.draw(bent(list(files.values())))
    try:
        state = HardState.open(DIRECTORY, CrashDisk(files))
        assert (state.term, state.voted_for) == (4, "n2")
    except LOG:
        pass
    try:
        held = MembershipFile.open(DIRECTORY, CrashDisk(files)).held
        assert held == Held(7, MEMBERS)
    except LOG:
        pass


@cache
def payloads() -> tuple[bytes, ...]:
    return tuple(entry.payload for entry in play(random_wishes(3, 60))[1] if entry.payload)


@fuzzed()
@given(st.data())
def test_bent_entries_are_applied_or_refused_and_never_raise(data: st.DataObject) -> None:
    """Apply never raises, whatever a log holds that decodes (rule 7)."""
    state = WorkingSet(Catalog())
    for index in range(1, data.draw(st.integers(2, 12))):
        payload = data.draw(st.sampled_from(payloads()) | bent(payloads()))
        try:
            batch = decode_entry(index, 1, payload)
        except ENTRY:
            continue
        assert isinstance(batch, Batch)
        apply(state, batch)


@fuzzed(share=3)
@given(st.data())
def test_bent_commands_leave_the_engine_whole(data: st.DataObject) -> None:
    """Between the commands of a real history: all invariants hold on."""
    harness = EngineHarness()
    harness.register("Order")
    for payload in payloads()[: data.draw(st.integers(0, 30))]:
        harness.apply(*[command for _, command in decode_entry(2, 1, payload).commands])
        try:
            batch = decode_entry(3, 1, data.draw(bent(payloads())))
        except ENTRY:
            continue
        harness.apply(*[command for _, command in batch.commands])
