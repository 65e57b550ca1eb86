"""What a world is like: drawn from its seed, each part by itself, or said by a flag.

Swarm testing: a world that does a few things often finds what one that does everything a little
does not. So each seed has its own cluster size, faults, clocks, sizes and snapshots.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

SLOT_S = 0.5  # the workload is cut into so long pieces, for schedules that leave some out

ANYWHERE = ("kill", "pause")
BETWEEN_NODES = (
    "partition",
    "bridge",
    "one_way",
    "deaf",
    "flapping",
    "slow_link",
    "thin_link",
    "reset",
    "transfer",
)
OF_DISKS = ("power_loss", "power_loss_everywhere", "slow_disk", "disk_error")
OF_CLOCKS = ("clock_jump", "clock_strobe")
OF_MEMBERS = ("join", "leave", "lost_disk")
ROT = ("rot", "lost_state")
FAULTS = (*ANYWHERE, *BETWEEN_NODES, *OF_DISKS, *OF_CLOCKS, *OF_MEMBERS, *ROT)

CLOCKS: Mapping[str, tuple[int, int]] = {
    # How far wall clocks are apart in ms, and how wrong all clocks run in millionths.
    "exact": (0, 0),
    "usual": (200, 100),
    "poor": (800, 20_000),
}
PAYLOADS: Mapping[str, tuple[int, int, float]] = {
    # Usual bytes, large bytes, share of the large.
    "small": (40, 40, 0.0),
    "mixed": (40, 3_000, 0.02),
    "big": (400, 60_000, 0.05),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    nodes: int = 3
    snapshots: int = 20  # so many entries are kept beside a snapshot
    segment: int = 24_096
    faults: tuple[str, ...] = FAULTS
    pace: float = 0.5  # mean seconds from fault to fault
    clocks: str = "exact"
    payloads: str = "small"
    bandwidth: int = 0  # bytes a second of each link; 0: without a bound

    def flags(self) -> str:
        """As they are said on the command line."""
        return " ".join(f"--{name} {_said(value)}" for name, value in _values(self).items())

    @classmethod
    def drawn(cls, seed: int, said: Mapping[str, Any], *, engine: bool = False) -> Options:
        """Each option has its own chance: to set one leaves the others as they were."""

        def chance(name: str) -> random.Random:
            return random.Random(f"{name} of {seed}")

        nodes = said.get("nodes") or chance("nodes").choice((1, 3, 3, 3, 3, 3, 5, 5))
        options = cls(
            nodes=nodes,
            snapshots=chance("snapshots").choice((5, 20, 60)),
            segment=chance("segment").choice((1_500, 4_000, 20_000)) + 4_096,
            faults=_some(chance("faults"), nodes, engine=engine)
            + _rot(chance("rot"), nodes, engine=engine),
            pace=chance("pace").choice((0.15, 0.25, 0.4) if engine else (0.2, 0.5, 0.5)),
            clocks=chance("clocks").choice(("exact", "usual", "usual", "poor")),
            payloads=chance("payloads").choice(("small", "mixed", "mixed", "big")),
            bandwidth=chance("bandwidth").choice((0, 0, 0, 2_000_000, 500_000)),
        )
        return replace(options, **said)


def _some(rng: random.Random, nodes: int, *, engine: bool) -> tuple[str, ...]:
    """Half of the worlds know every fault, the others a few."""
    known = [*ANYWHERE, *OF_DISKS]
    known += BETWEEN_NODES if nodes > 1 else ()
    # One of the two: a cluster that shrinks may be left with the clock that is wrong.
    known += OF_CLOCKS if engine and rng.random() < 0.5 else OF_MEMBERS
    if rng.random() < 0.5:
        return tuple(known)
    few = {rng.choice(ANYWHERE), rng.choice(known), *rng.sample(known, 3)}
    return tuple(name for name in known if name in few)


def _rot(rng: random.Random, nodes: int, *, engine: bool) -> tuple[str, ...]:
    """It takes others to be repaired from."""
    return ROT if nodes > 1 and not engine and rng.random() < 0.4 else ()


def add_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("options of the world, instead of those of the seed")
    group.add_argument("--nodes", type=int, choices=(1, 3, 5))
    group.add_argument("--snapshots", type=int, metavar="ENTRIES", help="kept beside a snapshot")
    group.add_argument("--segment", type=int, metavar="BYTES", help="of a segment of the journal")
    group.add_argument("--faults", type=_faults, metavar="A,B", help=f"of {', '.join(FAULTS)}")
    group.add_argument("--pace", type=float, metavar="S", help="mean time from fault to fault")
    group.add_argument("--clocks", choices=tuple(CLOCKS))
    group.add_argument("--payloads", choices=tuple(PAYLOADS))
    group.add_argument("--bandwidth", type=int, metavar="BYTES", help="a second, of each link")


def said_in(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that were set."""
    names = (option.name for option in fields(Options))
    return {
        name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None
    }


def _faults(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = set(names) - set(FAULTS)
    if unknown:
        raise argparse.ArgumentTypeError(f"no such fault: {', '.join(sorted(unknown))}")
    return names


def _values(options: Options) -> dict[str, Any]:
    return {option.name: getattr(options, option.name) for option in fields(options)}


def _said(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What is left of a run when it is shrunk: which strikes of the nemesis happen, in which slots
    clients call, and when the strife ends. None: all of it."""

    strikes: frozenset[int] | None = None
    slots: frozenset[int] | None = None
    until_s: float | None = None

    def strikes_at(self, number: int) -> bool:
        return self.strikes is None or number in self.strikes

    def works_in(self, slot: int) -> bool:
        return self.slots is None or slot in self.slots

    @property
    def whole(self) -> bool:
        return self == WHOLE

    def flags(self) -> str:
        parts = []
        if self.strikes is not None:
            parts.append(f"--strikes {ranges(self.strikes)}")
        if self.slots is not None:
            parts.append(f"--slots {ranges(self.slots)}")
        if self.until_s is not None:
            parts.append(f"--until {self.until_s:g}")
        return " ".join(parts)


WHOLE = Schedule()


def add_schedule_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a part of a run, as --shrink prints it")
    group.add_argument("--strikes", type=numbers, metavar="1,4-6", help="- for none")
    group.add_argument("--slots", type=numbers, metavar="0-9", help="half seconds with clients")
    group.add_argument("--until", type=float, metavar="S", help="when the strife ends")


def schedule_in(arguments: argparse.Namespace) -> Schedule:
    return Schedule(strikes=arguments.strikes, slots=arguments.slots, until_s=arguments.until)


def numbers(text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(",") if text != "-" else ():
        first, dash, last = part.partition("-")
        found.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(found)


def ranges(values: Iterable[int]) -> str:
    """The same as text: 0-3,7."""
    spans: list[list[int]] = []
    for value in sorted(values):
        if spans and spans[-1][1] == value - 1:
            spans[-1][1] = value
        else:
            spans.append([value, value])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in spans) or "-"
