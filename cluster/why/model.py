"""What `why` answers: a chain of links, from what the asker sees to the cause to act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from raftflow.cluster.why.causes import Cause


class Severity(StrEnum):
    """PROBLEM: it does not go on by itself. WAITING: it will, in its time. OK: nothing is wrong."""

    PROBLEM = "problem"
    WAITING = "waiting"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time, in Unix milliseconds; shown as every other time of the API."""

    ms: int


Scalar = str | int | float | bool | Moment | None
Fact = Scalar | tuple["Fact", ...] | Mapping[str, "Fact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One cause. ``says`` is a sentence with names and figures, ``evidence`` the same as fields;
    ``next`` is what to do about it, with the command where one does it ("": nothing to do here)."""

    cause: Cause
    severity: Severity
    says: str
    evidence: Mapping[str, Fact] = field(default_factory=dict)
    next: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``links[0]`` is what the asker sees, each next one is why the one before is so, and the last
    one is the cause to act on."""

    subject: Mapping[str, str]
    links: tuple[Link, ...]

    @classmethod
    def of(cls, subject: Mapping[str, str], links: Sequence[Link]) -> Answer:
        return cls(subject=subject, links=one_thing_to_do(links))

    @property
    def sentence(self) -> str:
        """The whole in one plain sentence: what is seen, and what it comes down to."""
        first, last = self.links[0], self.links[-1]
        if first is last:
            return first.says
        return f"{first.says.rstrip('.')}, because {_lower(last.says)}"


def _lower(sentence: str) -> str:
    """A sentence as the tail of another. Names keep their case: only our own words change."""
    head, space, rest = sentence.partition(" ")
    return (head.lower() if head in _OWN_WORDS else head) + space + rest


_OWN_WORDS = frozenset(
    {
        "A",
        "Activity",
        "All",
        "An",
        "Enough",
        "It",
        "Its",
        "No",
        "Nobody",
        "Nothing",
        "Of",
        "Signal",
        "Signals",
        "Somebody",
        "The",
        "There",
        "This",
        "Timer",
        "What",
        "Worker",
        "Workers",
        "Workflow",
    }
)


def one_thing_to_do(links: Sequence[Link]) -> tuple[Link, ...]:
    """A chain has one cause to act on: the last link that says what to do keeps it."""
    last = max((place for place, link in enumerate(links) if link.next), default=-1)
    return tuple(
        link if place >= last or not link.next else replace(link, next="")
        for place, link in enumerate(links)
    )
