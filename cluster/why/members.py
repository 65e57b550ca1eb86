"""The members as the causes look at them: what `/api/cluster` says of each, and what each says of
itself, as far as it answers and its release can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from raftflow.cluster.why.facts import ClusterFacts


@dataclass(frozen=True, slots=True)
class Member:
    """``row`` is its row of `/api/cluster`; ``told`` what it told of itself, empty when it does
    not answer or is of a release before 0.5."""

    id: str
    row: Mapping[str, Any]
    told: Mapping[str, Any]

    @property
    def answers(self) -> bool:
        return bool(self.told) or self.row.get("applied_index") is not None

    @property
    def kind(self) -> str:
        return str(self.row.get("member") or "voter")

    @property
    def votes(self) -> bool:
        return self.kind == "voter"

    @property
    def raft(self) -> str:
        return str(self.row.get("raft") or "")

    @property
    def release(self) -> str:
        return str(self.row.get("version") or "")

    def of(self, part: str) -> Mapping[str, Any]:
        """A part of what it told; empty when there is none."""
        found: Mapping[str, Any] = self.told.get(part) or {}
        return found

    def contact(self, other: str) -> Mapping[str, Any]:
        """How it reaches another."""
        found: Mapping[str, Any] = self.of("peers").get(other) or {}
        return found

    def reaches(self, other: str) -> bool:
        return bool(self.contact(other).get("connected"))

    def number(self, name: str) -> float | None:
        """A figure of its row, None when it is not known."""
        value = self.row.get(name)
        return value if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True)
class Members:
    """``asked`` is the node that gathered all this."""

    facts: ClusterFacts
    by_id: Mapping[str, Member]

    @classmethod
    def of(cls, facts: ClusterFacts) -> Members:
        rows = {str(row["id"]): row for row in facts.nodes}
        return cls(
            facts, {name: Member(name, row, facts.told.get(name, {})) for name, row in rows.items()}
        )

    def __getitem__(self, name: str) -> Member:
        return self.by_id[name]

    @property
    def asked(self) -> Member:
        return self.by_id[self.facts.node]

    @property
    def voters(self) -> list[Member]:
        return [each for each in self.by_id.values() if each.votes]

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def answering(self) -> list[Member]:
        return [each for each in self.by_id.values() if each.answers]

    @property
    def leader(self) -> Member | None:
        """Who leads, as far as the node that was asked hears."""
        return self.by_id.get(self.facts.leader or "")

    def others(self, but: str) -> Iterable[Member]:
        return (each for each in self.by_id.values() if each.id != but)

    def ago(self, ms: float) -> int:
        """The moment so long ago, by the clock of the node that was asked."""
        return self.facts.now_ms - round(ms)
