"""Which harm is done where. A boundary is a place between two events of a history at which a
process may die; each has a name that people understand."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Harm(Enum):
    NONE = "nothing goes wrong"
    CRASH = "the worker and the node die"
    TWICE = "an activity runs twice"


EVERYWHERE = 0
NOWHERE = -1


@dataclass(slots=True)
class Plan:
    """``at`` is the number of the boundary that is harmed, from 1. ``boundaries`` are those that
    were met and could be."""

    harm: Harm = Harm.NONE
    at: int = EVERYWHERE
    boundaries: list[str] = field(default_factory=list)

    def strikes(self, harm: Harm, boundary: str) -> bool:
        if harm is not self.harm:
            return False
        self.boundaries.append(boundary)
        return self.at in (EVERYWHERE, len(self.boundaries))
