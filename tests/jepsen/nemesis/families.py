"""The faults by family: what `--nemesis` names."""

from __future__ import annotations

from collections.abc import Sequence

from tests.jepsen.nemesis import (
    clocks,
    corruption,
    disks,
    fsyncs,
    kills,
    links,
    membership,
    partitions,
    pauses,
    power,
    upgrades,
    workers,
)
from tests.jepsen.nemesis.fault import Fault

Family = tuple[type[Fault], ...]

# What takes nodes down, of which one at a time goes on ...
PROCESS: dict[str, Family] = {
    "kill": kills.FAULTS,
    "pause": pauses.FAULTS,
    "power": power.FAULTS,
    "disk": disks.FAULTS,
    "fsync": fsyncs.FAULTS,
    "corruption": corruption.FAULTS,
    "membership": membership.FAULTS,
    "upgrade": upgrades.FAULTS,
}
# ... and what is wrong around them meanwhile.
AROUND: dict[str, Family] = {
    "partition": partitions.FAULTS,
    "links": links.FAULTS,
    "slow-fsync": fsyncs.SLOW,
    "clock": clocks.FAULTS,
    "workers": workers.FAULTS,
}
FAMILIES: dict[str, Family] = {**PROCESS, **AROUND}


FAULTS: dict[str, type[Fault]] = {
    fault.name: fault for family in FAMILIES.values() for fault in family
}


def faults_of(name: str) -> Family:
    """Of a family, or the single fault of that name."""
    return FAMILIES[name] if name in FAMILIES else (FAULTS[name],)


def takes_nodes_down(name: str) -> bool:
    return any(set(faults_of(name)) <= set(family) for family in PROCESS.values())


def possible(names: Sequence[str], capabilities: frozenset[str]) -> tuple[list[str], list[str]]:
    """Those of the names of which these hosts can do anything, and words for what they cannot."""
    can, cannot = [], []
    for name in names:
        if doable(name, capabilities):
            can.append(name)
        for fault in faults_of(name):
            missing = fault.needs - capabilities
            if missing:
                cannot.append(f"{fault.name}: there is no {', '.join(sorted(missing))}")
    return can, cannot


def doable(name: str, capabilities: frozenset[str]) -> Family:
    return tuple(fault for fault in faults_of(name) if fault.needs <= capabilities)
