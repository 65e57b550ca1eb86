"""Each fsync and write of a node's disk fails once, under load, on a real cluster.

Whatever fails: the process ends with the reason and exit status 70 (or, while it starts, 78),
nothing that was not on disk counts for it anywhere, the others go on, and it comes back. What an
fsync did not bring to disk is cut off the file before the next start, as a power loss would.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from corrupt import records
from dev_cluster import call, wait_for
from disk_shim import Fault, Hit
from shim_cluster import NODES, Load, ShimCluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

# `make campaigns` fails every site in both ways, and syncs and writes picked at random.
SOAK = int(os.environ.get("DISK_FAULTS", "0"))
EXITS = {"running": {70}, "starting": {70, 78}}
SAID = {
    errno.EIO: ("Input/output error", "disk I/O error", "IOERR"),
    errno.ENOSPC: ("No space left", "disk is full", "SQLITE_FULL"),
}


@dataclass(frozen=True, slots=True)
class Site:
    """A call that may fail, and what brings a node to it."""

    name: str
    kind: str
    pattern: str
    when: str = "load"  # load | start | election | copy | install
    after: str = "-"
    skip: int = 0

    def fault(self, node: str, code: int) -> Fault:
        after = self.after if self.after == "-" else f"{node}/{self.after}"
        pattern = f"{node}/{self.pattern}" if self.pattern else node
        return Fault(self.kind, pattern, code, self.skip, after)


SYNCS = [
    Site("flush", "sync", "raft/*.segment"),
    Site("new segment", "sync", "raft/*.segment.tmp"),
    Site("name of the new segment", "sync", "raft"),
    Site("seal of the one before", "sync", "raft/*.segment", after="raft"),
    Site("WAL before a checkpoint", "sync", "state.db-wal"),
    Site("checkpoint", "sync", "state.db"),
    Site("vote", "sync", "raft/hardstate.tmp", when="election"),
    Site("name of the vote", "sync", "raft", when="election", after="raft/hardstate.tmp"),
    Site("copy made", "sync", "snapshots/made/copy-*/state.db", when="copy"),
    Site("name of the copy", "sync", "snapshots/made/copy-?", when="copy"),
    Site("copy received", "sync", "snapshots/incoming/*/part", when="install"),
    Site("name of the copy received", "sync", "snapshots/incoming/*-?", when="install"),
    Site("old WAL removed", "sync", "", when="install", after="snapshots/incoming/*/part"),
    Site("copy before its swap", "sync", "snapshots/incoming/*/part", when="install", skip=1),
    Site("copy swapped in", "sync", "", "install", after="snapshots/incoming/*/part", skip=1),
    Site("log begun anew", "sync", "raft/*.tmp", when="install", after="snapshots/incoming/*/part"),
    Site("start counted", "sync", "node.json.tmp", when="start"),
    Site("members rewritten", "sync", "raft/membership.tmp", when="start"),
    Site("vote rewritten", "sync", "raft/hardstate.tmp", when="start"),
    Site("last segment rewritten", "sync", "raft/*.segment.tmp", when="start"),
    Site("name of the last segment", "sync", "raft", when="start", after="raft/*.segment.tmp"),
    Site("state at the start", "sync", "state.db*", when="start"),
]
WRITES = [
    Site("frames", "write", "raft/*.segment"),
    Site("a segment", "write", "raft/*.segment.tmp"),
    Site("WAL", "write", "state.db-wal"),
    Site("pages", "write", "state.db"),
    Site("the vote", "write", "raft/hardstate.tmp", when="election"),
    Site("a copy received", "write", "snapshots/incoming/*/part", when="install"),
    Site("the vote at the start", "write", "raft/hardstate.tmp", when="start"),
]


# Each costs seconds, and is next to one that is met every time.
LEFT_TO_SOAK = {
    "name of the vote",
    "name of the copy",
    "name of the copy received",
    "old WAL removed",
    "copy before its swap",
    "log begun anew",
    "name of the last segment",
    "state at the start",
    "name of the new segment",
    "copy made",
    "members rewritten",
    "last segment rewritten",
    "a segment",
    "pages",
    "the vote",
    "a copy received",
    "the vote at the start",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShimCluster]:
    made = ShimCluster(tmp_path_factory.mktemp("faults"))
    try:
        for name in NODES:
            made.start(name)
        made.leader()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def load(cluster: ShimCluster) -> Iterator[Load]:
    running = Load(cluster)
    running.start()
    yield running
    running.stop()


def any_call(seed: int) -> tuple[Site, int]:
    """The nth of all calls."""
    rng = Random(seed)
    kind, code = rng.choice(["sync", "write"]), rng.choice([errno.EIO, errno.ENOSPC])
    skip, when = rng.randrange(400), rng.choice(["load", "start"])
    return Site(f"any call, seed {seed}", kind, "*", when, skip=skip), code


def cases() -> list[tuple[Site, int]]:
    every = [(site, code) for site in (*SYNCS, *WRITES) for code in (errno.EIO, errno.ENOSPC)]
    if SOAK:
        return every + [any_call(seed) for seed in range(SOAK)]
    usual = {"sync": errno.EIO, "write": errno.ENOSPC}
    return [
        (site, code)
        for site, code in every
        if usual[site.kind] == code and site.name not in LEFT_TO_SOAK
    ]


@pytest.mark.parametrize(
    ("site", "code"), cases(), ids=lambda each: getattr(each, "name", None) or errno.errorcode[each]
)
def test_a_call_that_fails_ends_the_node_and_nothing_else(
    cluster: ShimCluster, load: Load, site: Site, code: int
) -> None:
    victim = choose(cluster, site)
    mark = len(cluster.log(victim))
    bring_to_it(cluster, load, victim, site, site.fault(victim, code))
    if site.when == "copy" and code == errno.ENOSPC:
        only_the_copy_failed(cluster, victim)
        return
    exit_status = cluster.ended(victim, timeout=90)
    ended_at = time.monotonic()
    hit = cluster.faults.hit()
    assert hit is not None
    assert ended_at - hit.monotonic_s < 10, "it went on after its disk had failed"
    assert exit_status in EXITS["starting" if site.when == "start" else "running"]
    said = cluster.log(victim)[mark:]
    assert any(each in said for each in SAID[code]), said[-3_000:]
    lose_what_was_not_synced(cluster, hit)
    nothing_counts_beyond_its_disk(cluster, victim)
    wait_for(
        "the others go on",
        lambda: load.acknowledged_since(ended_at) > 20,
        timeout=90,
    )
    cluster.start(victim)
    wait_for(f"{victim} is back", lambda: cluster.caught_up(victim), timeout=90)


def choose(cluster: ShimCluster, site: Site) -> str:
    leader = cluster.leader()
    if site.when == "copy":
        return leader
    followers = [name for name in NODES if name != leader]
    return followers[len(site.name) % 2]


def bring_to_it(cluster: ShimCluster, load: Load, victim: str, site: Site, fault: Fault) -> None:
    if site.when in ("start", "install"):
        cluster.kill(victim)
    if site.when == "install":
        fall_behind(cluster, victim)
    other = next(name for name in NODES if name not in (victim, cluster.leader()))
    if site.when == "copy":
        cluster.kill(other)
        fall_behind(cluster, other)
    cluster.faults.arm(fault)
    if site.when in ("start", "install"):
        cluster.start(victim)
    elif site.when == "copy":
        cluster.start(other)
    elif site.when == "election":
        leader = cluster.leader()
        cluster.pause(leader)
        try:
            wait_for("the fault was met", cluster.faults.hit, timeout=90)
        finally:
            cluster.resume(leader)


def fall_behind(cluster: ShimCluster, name: str) -> None:
    """Wait until the others' log begins after what this node, which is down, has."""
    last = max(record.index for record in records(cluster.data_dir(name) / "raft"))

    def gone() -> bool:
        rows = cluster.rows(cluster.leader())
        firsts = [row["first_index"] or 0 for each, row in rows.items() if each != name]
        return len(firsts) == 2 and min(firsts) > last + 1

    wait_for(f"{name} needs a copy", gone, timeout=90)


def only_the_copy_failed(cluster: ShimCluster, victim: str) -> None:
    """No room for a copy is no damage: it is given up, and made when the follower asks again."""
    wait_for("the fault was met", cluster.faults.hit, timeout=90)
    for name in NODES:
        wait_for(f"{name} is there", lambda name=name: cluster.caught_up(name), timeout=90)
    assert "snapshot_failed" in cluster.log(victim)


def lose_what_was_not_synced(cluster: ShimCluster, hit: Hit) -> None:
    path = cluster.root / hit.path
    if hit.kind == "sync" and path.is_file() and path.suffix in (".segment", ".db-wal"):
        with path.open("r+b") as file:
            file.truncate(hit.synced_bytes)


def nothing_counts_beyond_its_disk(cluster: ShimCluster, victim: str) -> None:
    """The leader counts no entry of the node that its files do not hold."""
    raft = cluster.data_dir(victim) / "raft"
    on_disk = max(record.index for record in records(raft))
    row = cluster.rows(cluster.leader()).get(victim, {})
    assert (row.get("match_index") or 0) <= on_disk


@pytest.mark.parametrize(
    ("kind", "pattern", "code"),
    [
        ("sync", "n1/node.json.tmp", errno.EIO),
        ("sync", "n1", errno.EIO),
        ("sync", ".", errno.EIO),
        ("write", "n1/node.json.tmp", errno.ENOSPC),
        ("sync", "n1/raft/membership.tmp", errno.EIO),
    ],
)
def test_a_birth_that_fails_is_refused_and_can_be_tried_again(
    tmp_path: Path, kind: str, pattern: str, code: int
) -> None:
    alone = ShimCluster(tmp_path, ("n1",))
    try:
        alone.faults.arm(Fault(kind, pattern, code))
        alone.start("n1")
        assert alone.ended("n1", timeout=90) == 78
        assert any(each in alone.log("n1") for each in SAID[code])
        alone.start("n1")
        assert alone.leader() == "n1"
    finally:
        alone.stop()


def test_everything_acknowledged_is_there_in_the_end(cluster: ShimCluster, load: Load) -> None:
    """After all of the above, whose load ran on."""
    load.stop()
    wait_for("all nodes have the same state", cluster.same_state, timeout=90)
    assert len(load.acknowledged) > 100
    for name in NODES:
        found: set[str] = set()
        cursor = ""
        while True:
            page = call(cluster.http(name), "GET", f"/api/workflows?limit=500&cursor={cursor}")
            found |= {each["workflow_id"] for each in page["workflows"]}
            cursor = page.get("next_cursor") or ""
            if not cursor:
                break
        lost = load.acknowledged.keys() - found
        assert not lost, f"{name} lost {sorted(lost)[:5]}"
