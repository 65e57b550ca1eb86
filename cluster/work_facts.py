"""Who asks for work, what waits for them and who has it: facts as nodes tell them one another.

Each node knows the polls parked on it, the leader alone what is queued and leased. They cross the
channel as JSON, which a release that says more or less can still read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

T = TypeVar("T")

WORKFLOW = "workflow"
ACTIVITY = "activity"
ANY_TYPE = "*"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for: everything, or what is of these namespaces, or of the queues so named."""

    namespaces: frozenset[str] = frozenset()  # none are all
    queue: str = ""

    def takes(self, namespace: str, queue: str) -> bool:
        in_namespace = not self.namespaces or namespace in self.namespaces
        return in_namespace and (not self.queue or queue == self.queue)

    def encode(self) -> bytes:
        return json.dumps({"namespaces": sorted(self.namespaces), "queue": self.queue}).encode()

    @classmethod
    def decode(cls, payload: bytes) -> Wanted:
        """Raises ValueError, LookupError or TypeError."""
        fields = json.loads(payload)
        return cls(frozenset(map(str, fields["namespaces"])), str(fields["queue"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Poller:
    """A worker at one queue, on the node that it polls. ``polls`` 0: it was there lately, and is
    at work or gone. ``since_ms``: it has come again and again since then."""

    node: str
    namespace: str
    kind: str
    queue: str
    worker: str
    types: tuple[str, ...]  # ANY_TYPE alone: whatever comes
    polls: int
    since_ms: int
    seen_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """``oldest_ms``: how long the task has waited that came first. ``expired``: leases of its tasks
    that were missed since this leader began to lead."""

    namespace: str
    kind: str
    queue: str
    queued: int
    oldest_ms: int | None
    leases: int
    expired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Tasks of one queue that a worker has, which it got through ``node``."""

    namespace: str
    kind: str
    queue: str
    worker: str
    node: str
    leases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    """What the leader adds. Not ``settled``: it is still reading what its predecessor left."""

    term: int
    settled: bool
    queues: tuple[QueueFacts, ...]
    holdings: tuple[Holding, ...]
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What one node says."""

    pollers: tuple[Poller, ...]
    truncated: bool = False
    leading: Leading | None = None

    def encode(self) -> bytes:
        leading = self.leading
        said: dict[str, Any] = {
            "pollers": _told(Poller, self.pollers),
            "truncated": self.truncated,
            "leading": leading and _told_of(leading),
        }
        return json.dumps(said, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, payload: bytes) -> NodeFacts:
        """Raises ValueError, LookupError or TypeError."""
        said = json.loads(payload)
        leading = said["leading"]
        for poller in said["pollers"]:
            poller["types"] = tuple(poller["types"])
        return cls(
            pollers=tuple(_heard(Poller, said["pollers"])),
            truncated=bool(said["truncated"]),
            leading=None if leading is None else _leading(leading),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What all said together. ``leading`` None: no leader answered. ``missing``: who did not
    answer, and why."""

    pollers: tuple[Poller, ...]
    leading: Leading | None
    missing: Mapping[str, str] = field(default_factory=dict)
    truncated: bool = False  # there is more than is told

    @property
    def complete(self) -> bool:
        told = self.leading is not None and self.leading.settled
        return told and not self.missing and not self.truncated


def _told_of(leading: Leading) -> dict[str, Any]:
    return {
        "term": leading.term,
        "settled": leading.settled,
        "queues": _told(QueueFacts, leading.queues),
        "holdings": _told(Holding, leading.holdings),
        "truncated": leading.truncated,
    }


def _leading(said: dict[str, Any]) -> Leading:
    return Leading(
        term=int(said["term"]),
        settled=bool(said["settled"]),
        queues=tuple(_heard(QueueFacts, said["queues"])),
        holdings=tuple(_heard(Holding, said["holdings"])),
        truncated=bool(said["truncated"]),
    )


# There may be a thousand rows: they are taken apart and put together by hand, since `asdict` and
# the like would hold up the loop for tens of milliseconds.


def _told(kind: type, rows: Sequence[Any]) -> list[dict[str, Any]]:
    names = _names(kind)
    return [{name: getattr(row, name) for name in names} for row in rows]


def _heard(kind: type[T], rows: list[dict[str, Any]]) -> Iterator[T]:
    """Without what a later release says beside it."""
    names = _names(kind)
    for row in rows:
        yield kind(**{name: row[name] for name in names})


def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))
