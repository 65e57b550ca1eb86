"""Which runs a filter asks for, as SQL: what leads to them, and what is checked of each.

Whatever leads gives run numbers in descending order by itself: an index that is named, so that no
statistics choose another one, or the text index. Several indexes are merged. Of what could lead,
that is taken which leaves the fewest runs to look at.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from raftflow.cluster.store.views import RunFilter
from raftflow.engine.state import RunStatus

# Up to here it is known how many there are of what no counter counts.
EXACT_TOTAL = 10_000
_TRIGRAM = 3

Attribute = tuple[str, str]
_TEXT = "runs_text"
_BY_ATTRIBUTE = "attributes AS led INDEXED BY attributes_by_value"
_HAS_ATTRIBUTE = """EXISTS (SELECT 1 FROM attributes AS other
    WHERE other.run_no = runs.run_no AND other.name = ? AND other.value = ?)"""
_HAVING = """SELECT count(*) FROM (SELECT 1 FROM attributes INDEXED BY attributes_by_value
    WHERE namespace = ? AND name = ? AND value = ? LIMIT ?)"""
_IN_QUEUE = """SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY runs_by_queue
    WHERE namespace = ? AND task_queue = ? LIMIT ?)"""
_MENTIONING = f"SELECT count(*) FROM (SELECT 1 FROM {_TEXT} WHERE {_TEXT} MATCH ? LIMIT ?)"


@dataclass(frozen=True, slots=True)
class Lead:
    """``number`` is its column of run numbers, ``answers`` what of the filter needs no check."""

    source: str
    number: str
    terms: tuple[str, ...]
    values: tuple[Any, ...]
    answers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Selection:
    """What leads, and the checks that each of its candidates must pass."""

    leads: Sequence[Lead]
    checks: Sequence[tuple[str, tuple[Any, ...]]]

    @property
    def by_text(self) -> bool:
        return self.leads[0].source == _TEXT

    def numbers(self, low: int, high: int, most: int) -> tuple[str, list[Any]]:
        """The run numbers from ``low`` to ``high``, newest first."""
        parts, values = self._parts("{number} AS run_no", low, high)
        union = " UNION ALL ".join(parts)
        return f"{union} ORDER BY 1 DESC LIMIT ?", [*values, most]

    def count(self, low: int, high: int, most: int) -> tuple[str, list[Any]]:
        """How many they are, one row."""
        parts, values = self._parts("1", low, high)
        union = " UNION ALL ".join(parts)
        return f"SELECT count(*) FROM ({union} LIMIT ?)", [*values, most]

    def by_status(self, low: int, high: int) -> tuple[str, list[Any]]:
        """How many of each status, a row each."""
        parts, values = self._parts("runs.status", low, high, joined=True)
        union = " UNION ALL ".join(parts)
        return f"SELECT status, count(*) FROM ({union}) GROUP BY 1", values

    def _parts(
        self, result: str, low: int, high: int, *, joined: bool = False
    ) -> tuple[list[str], list[Any]]:
        parts: list[str] = []
        values: list[Any] = []
        joined = joined or bool(self.checks)
        checks = [term for term, _ in self.checks]
        for lead in self.leads:
            source = lead.source
            if joined and lead.number != "runs.run_no":
                source += f" CROSS JOIN runs ON runs.run_no = {lead.number}"
            terms = " AND ".join([*lead.terms, f"{lead.number} BETWEEN ? AND ?", *checks])
            parts.append(f"SELECT {result.format(number=lead.number)} FROM {source} WHERE {terms}")
            values += [*lead.values, low, high]
            for _, checked in self.checks:
                values += checked
        return parts, values


def select(db: sqlite3.Connection, wanted: RunFilter) -> Selection:
    leads = _leads(db, wanted)
    answered = frozenset.intersection(*[lead.answers for lead in leads])
    checks = [(term, values) for name, term, values in _checks(wanted) if name not in answered]
    return Selection(leads, checks)


def by_counters_alone(wanted: RunFilter) -> bool:
    """Whether the counters know how many there are."""
    timed = wanted.started_after_ms is not None or wanted.started_before_ms is not None
    return not (wanted.query or wanted.task_queue or wanted.attributes or timed)


# ---- what leads ---------------------------------------------------------------------------------


def _leads(db: sqlite3.Connection, wanted: RunFilter) -> Sequence[Lead]:
    namespace, bound = wanted.namespace, EXACT_TOTAL + 1
    fewest, leads = counted(db, wanted), _by_status_and_type(wanted)
    if wanted.task_queue:
        (found,) = db.execute(_IN_QUEUE, (namespace, wanted.task_queue, bound)).fetchone()
        if found <= fewest:
            fewest, leads = found, [_by_queue(wanted)]
    for attribute in wanted.attributes:
        (found,) = db.execute(_HAVING, (namespace, *attribute, bound)).fetchone()
        if found <= fewest:
            fewest, leads = found, [_by_attribute(wanted, attribute)]
    if not _has_trigrams(wanted.query):
        return leads
    text = _by_text(wanted)
    if not wanted.query.isascii():
        return [text]  # nothing else knows these letters
    if fewest <= EXACT_TOTAL:
        return leads
    narrowed = wanted.statuses or wanted.workflow_type or wanted.task_queue or wanted.attributes
    if narrowed and db.execute(_MENTIONING, (*text.values, bound)).fetchone()[0] == bound:
        return leads
    return [text]


def _by_status_and_type(wanted: RunFilter) -> Sequence[Lead]:
    """An index for each status; they are merged. RUNNING has one of its own, unless it is asked for
    together with WAITING: for the other indexes the two are one phase."""
    statuses = set(wanted.statuses)
    if not statuses:
        if wanted.workflow_type:
            return [_by_index(wanted, "runs_by_type", "type")]
        return [_by_index(wanted, "runs_by_namespace")]
    index = "runs_by_type_phase" if wanted.workflow_type else "runs_by_phase"
    both = {RunStatus.RUNNING, RunStatus.WAITING} <= statuses
    leads = []
    for status in sorted(statuses):
        if status is not RunStatus.RUNNING:
            answers = () if status is RunStatus.WAITING and not both else ("status",)
            phase = ("runs.phase = ?", int(status))
            leads.append(_by_index(wanted, index, "type", *answers, term=phase))
        elif not both:
            # As the partial index says it.
            running = ("runs.status = 1",)
            leads.append(_by_index(wanted, "runs_running", "type", "status", term=running))
    return leads


def _by_index(wanted: RunFilter, index: str, *answers: str, term: tuple[Any, ...] = ()) -> Lead:
    terms, values = ["runs.namespace = ?"], [wanted.namespace]
    if wanted.workflow_type and "type" in answers:
        terms.append("runs.workflow_type = ?")
        values.append(wanted.workflow_type)
    if term:
        terms.append(term[0])
        values += term[1:]
    return Lead(
        f"runs INDEXED BY {index}",
        "runs.run_no",
        tuple(terms),
        tuple(values),
        frozenset({"namespace", *answers}),
    )


def _by_queue(wanted: RunFilter) -> Lead:
    return Lead(
        "runs INDEXED BY runs_by_queue",
        "runs.run_no",
        ("runs.namespace = ?", "runs.task_queue = ?"),
        (wanted.namespace, wanted.task_queue),
        frozenset({"namespace", "queue"}),
    )


def _by_attribute(wanted: RunFilter, attribute: Attribute) -> Lead:
    return Lead(
        _BY_ATTRIBUTE,
        "led.run_no",
        ("led.namespace = ?", "led.name = ?", "led.value = ?"),
        (wanted.namespace, *attribute),
        frozenset({"namespace", _label(attribute)}),
    )


def _by_text(wanted: RunFilter) -> Lead:
    escaped = wanted.query.replace('"', '""')
    return Lead(_TEXT, f"{_TEXT}.rowid", (f"{_TEXT} MATCH ?",), (f'"{escaped}"',), frozenset({"q"}))


def _has_trigrams(query: str) -> bool:
    return len(query) >= _TRIGRAM


# ---- what is checked ----------------------------------------------------------------------------


def _checks(wanted: RunFilter) -> list[tuple[str, str, tuple[Any, ...]]]:
    """All that the filter says: what it is about, the term, its values."""
    checks: list[tuple[str, str, tuple[Any, ...]]] = [
        ("namespace", "runs.namespace = ?", (wanted.namespace,))
    ]
    if wanted.statuses:
        marks = ",".join("?" * len(wanted.statuses))
        statuses = tuple(map(int, wanted.statuses))
        checks.append(("status", f"runs.status IN ({marks})", statuses))
    if wanted.workflow_type:
        checks.append(("type", "runs.workflow_type = ?", (wanted.workflow_type,)))
    if wanted.task_queue:
        checks.append(("queue", "runs.task_queue = ?", (wanted.task_queue,)))
    checks += [(_label(each), _HAS_ATTRIBUTE, each) for each in wanted.attributes]
    if wanted.query:
        # Only ASCII letters are alike in both cases, to SQLite; the text index knows all.
        term = "(instr(lower(runs.workflow_id), ?) OR instr(lower(runs.workflow_type), ?))"
        checks.append(("q", term, (_ascii_lower(wanted.query),) * 2))
    return checks


def _ascii_lower(text: str) -> str:
    """As `lower()` of SQLite does."""
    return "".join(each.lower() if each.isascii() else each for each in text)


def _label(attribute: Attribute) -> str:
    return "attr." + "=".join(attribute)


# ---- what the counters say ----------------------------------------------------------------------


def counted(db: sqlite3.Connection, wanted: RunFilter) -> int:
    """By status and type alone."""
    found = by_status(db, wanted)
    return sum(found.get(status, 0) for status in set(wanted.statuses) or found)


def by_status(db: sqlite3.Connection, wanted: RunFilter) -> dict[int, int]:
    """Of a namespace and type. In the counters running runs count as waiting; those are counted by
    their index, which has no more of them than there are leases."""
    only, values = "", [wanted.namespace]
    if wanted.workflow_type:
        only, values = " AND workflow_type = ?", [wanted.namespace, wanted.workflow_type]
    found = dict(
        db.execute(
            f"SELECT phase, sum(runs) FROM counters WHERE namespace = ?{only} GROUP BY phase",
            values,
        )
    )
    running = db.execute(
        "SELECT count(*) FROM runs INDEXED BY runs_running"
        f" WHERE status = 1 AND namespace = ?{only}",
        values,
    ).fetchone()[0]
    if running:
        found[int(RunStatus.RUNNING)] = running
        found[int(RunStatus.WAITING)] -= running
    return found
