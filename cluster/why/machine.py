"""What is wrong with one node that answers: its disk, its clock, its processor, its certificates,
its state, its release. Each function gives one link, or None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raftflow.cluster.features import RELEASES
from raftflow.cluster.why.causes import Cause
from raftflow.cluster.why.members import Member, Members
from raftflow.cluster.why.model import Fact, Link, Moment, Severity
from raftflow.cluster.why.words import count, names, span

_MIB = 1 << 20
DISK_LOW_BYTES = 512 * _MIB
DISK_SOON_BYTES = 2_048 * _MIB
# A disk that fills up within a day is worth a word, within three hours a problem.
DISK_SOON_MS = 86_400_000
DISK_LOW_MS = 10_800_000
# A rate is believed for so many times as long as it was watched.
FORECAST_TIMES = 60
SLOW_FSYNC_MS = 100
VERY_SLOW_FSYNC_MS = 400  # a leader is given up after so long
LOOP_LAG_MS = 100
LONG_LOOP_LAG_MS = 400
CLOCK_SOON_MS = 250
CLOCK_MS = 1_000  # a node further off gives leadership away
_DAY_S = 86_400
CERTIFICATE_SOON_S = 14 * _DAY_S
CERTIFICATE_LOW_S = 3 * _DAY_S
DISPUTE_MS = 600_000

Check = Callable[[Members, Member], Link | None]


def links_of_machine(members: Members, node: Member) -> list[Link]:
    """All that is wrong with it, worst first."""
    found = [link for check in _CHECKS if (link := check(members, node)) is not None]
    return sorted(found, key=lambda link: link.severity is not Severity.PROBLEM)


def slow_disk(_members: Members, node: Member) -> Link | None:
    took = node.number("fsync_ms")
    if took is None or took < SLOW_FSYNC_MS:
        return None
    return Link(
        cause=Cause.SLOW_FSYNC,
        severity=Severity.PROBLEM if took >= VERY_SLOW_FSYNC_MS else Severity.WAITING,
        says=f"The disk of {node.id} is slow: one flush of the log in a hundred took"
        f" {took:,.0f} ms or more within the last minute.",
        evidence={"node": node.id, "fsync_p99_ms": took, "slow_from_ms": SLOW_FSYNC_MS},
        next=f"see what else writes to the disk of {node.id} (`iostat -x 1`), or move its data"
        " directory to a faster one",
    )


def late_loop(_members: Members, node: Member) -> Link | None:
    late = node.number("loop_lag_ms")
    if late is None or late < LOOP_LAG_MS:
        return None
    return Link(
        cause=Cause.LOOP_LAG,
        severity=Severity.PROBLEM if late >= LONG_LOOP_LAG_MS else Severity.WAITING,
        says=f"{node.id} is short of processor: its event loop was up to {late:,.0f} ms late within"
        " the last seconds.",
        evidence={"node": node.id, "loop_lag_ms": late, "late_from_ms": LOOP_LAG_MS},
        next=f"see what takes the processor of {node.id} (`top`), and whether its process was"
        " stopped (`loop_lagged` in its log says when)",
    )


def full_disk(_members: Members, node: Member) -> Link | None:
    disk = node.of("disk")
    free = disk.get("free_bytes", node.number("disk_free_bytes"))
    if free is None:
        return None
    growth = disk.get("growth") or {}
    full_in = growth.get("full_in_ms")
    if full_in is not None and full_in > FORECAST_TIMES * growth["over_ms"]:
        full_in = None
    low = free < DISK_LOW_BYTES or (full_in is not None and full_in < DISK_LOW_MS)
    soon = free < DISK_SOON_BYTES or (full_in is not None and full_in < DISK_SOON_MS)
    if not (low or soon):
        return None
    evidence: dict[str, Fact] = {
        "node": node.id,
        "free_bytes": int(free),
        "size_bytes": disk.get("size_bytes"),
        "parts": dict(disk.get("parts") or {}),
    }
    says = f"The disk of {node.id} has {free / _MIB:,.0f} MiB left"
    if growth:
        grown = growth["used_bytes"]
        says += f"; it lost {grown / _MIB:,.0f} MiB in the last {span(growth['over_ms'])}"
        evidence |= {
            "used_bytes": grown,
            "over_ms": growth["over_ms"],
            "grown": dict(growth["parts"]),
            "full_in_ms": full_in,
        }
        own = sum(growth["parts"].values())
        if full_in is not None:
            says += f", and is full in {span(full_in)} at that rate"
            if own * 2 < grown:
                says += " (most of it is not raftflow's)"
    return Link(
        cause=Cause.DISK_NEARLY_FULL,
        severity=Severity.PROBLEM if low else Severity.WAITING,
        says=says + ".",
        evidence=evidence,
        next=f"free space on {node.id} or grow its disk before it is full: the node then ends"
        " itself; `raftflow namespace update NAMESPACE --retention` makes closed runs go sooner",
    )


def wrong_clock(_members: Members, node: Member) -> Link | None:
    skew = node.number("clock_skew_ms")
    if skew is None or abs(skew) < CLOCK_SOON_MS:
        return None
    way = "ahead of" if skew > 0 else "behind"
    gives_away = " Such a node gives leadership away." if abs(skew) > CLOCK_MS else ""
    return Link(
        cause=Cause.CLOCK_SKEW,
        severity=Severity.PROBLEM if abs(skew) > CLOCK_MS else Severity.WAITING,
        says=f"The clock of {node.id} is {span(round(abs(skew)))} {way} the median of the voters."
        + gives_away,
        evidence={"node": node.id, "skew_ms": round(skew), "at_most_ms": CLOCK_MS},
        next=f"set up NTP or chrony on {node.id} (`chronyc tracking`)",
    )


def ending_certificate(members: Members, node: Member) -> Link | None:
    ends = {
        use: left
        for use, left in (node.row.get("certificates") or {}).items()
        if left < CERTIFICATE_SOON_S
    }
    if not ends:
        return None
    use, left = min(ends.items(), key=lambda each: each[1])
    over = left <= 0
    when = f"is over since {span(-left * 1_000)}" if over else f"is over in {span(left * 1_000)}"
    bad = left < CERTIFICATE_LOW_S
    return Link(
        cause=Cause.CERTIFICATE_EXPIRED if over else Cause.CERTIFICATE_EXPIRES,
        severity=Severity.PROBLEM if bad else Severity.WAITING,
        says=f"A certificate of {node.id} ({use}) {when}.",
        evidence={"node": node.id, "use": use, "ends": Moment(members.ago(-left * 1_000))},
        next=f"`raftflow cert rotate CERTS {node.id}`, and copy its .crt and .key to the node, "
        "which takes them without a restart; docs/security.md",
    )


def disputed_state(members: Members, node: Member) -> Link | None:
    """Nobody could tell who is wrong, or another one was: then that one is asked about."""
    dispute = node.of("dispute")
    if not dispute or dispute["decided"] or dispute["ago_ms"] > DISPUTE_MS:
        return None
    return Link(
        cause=Cause.DIGEST_DIVERGENCE,
        severity=Severity.PROBLEM,
        says=f"The states of {node.id} and {dispute['peer']} differ since entry {dispute['index']},"
        " and no majority stands on either side.",
        evidence={
            "node": node.id,
            "other": dispute["peer"],
            "index": dispute["index"],
            "at": Moment(members.ago(dispute["ago_ms"])),
        },
        next="bring the other voters back: a majority decides, and whoever it contradicts ends"
        ' itself; docs/operating.md, "Checking a cluster"',
    )


def old_release(members: Members, node: Member) -> Link | None:
    """It holds back what the others could do."""
    levels = {
        each.id: int(each.row.get("feature_level") or 0)
        for each in members.by_id.values()
        if each.row.get("feature_level")
    }
    own = levels.get(node.id, 0)
    newest = max(levels.values(), default=0)
    if not own or own >= newest:
        return None
    behind = sorted(name for name, level in levels.items() if level < newest)
    agreed = members.facts.feature_level
    return Link(
        cause=Cause.VERSION_GATE,
        severity=Severity.WAITING,
        says=f"{node.id} runs {node.release or 'an older release'}: the cluster stays at feature"
        f" level {agreed} until {names(behind)} can do level {newest}"
        f" (release {RELEASES.get(newest, 'newer')}).",
        evidence={
            "node": node.id,
            "release": node.release,
            "level": own,
            "agreed_level": agreed,
            "newest_level": newest,
            "held_back_by": tuple(behind),
        },
        next=f"finish the upgrade: {count(len(behind), 'node')} to go, one after the other",
    )


_CHECKS: tuple[Check, ...] = (
    disputed_state,
    full_disk,
    slow_disk,
    late_loop,
    wrong_clock,
    ending_certificate,
    old_release,
)


def also(links: list[Link]) -> tuple[dict[str, Any], ...]:
    """What else is wrong, beside the chain that is told."""
    return tuple(
        {"cause": each.cause.value, "says": each.says, "next": each.next} for each in links
    )
