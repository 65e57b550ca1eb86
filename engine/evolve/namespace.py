"""The catalog: namespaces, and the workflow types known in each."""

from __future__ import annotations

from dataclasses import replace

from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import NamespaceRecord
from raftflow.engine.transitions import (
    NamespaceCreated,
    NamespaceUpdated,
    QuotaSet,
    StartPaid,
    TypesRegistered,
)


def created(rec: Recorder, move: NamespaceCreated) -> None:
    _put(rec, NamespaceRecord(move.name, move.retention_ms, rec.time_ms))


def updated(rec: Recorder, move: NamespaceUpdated) -> None:
    """The namespace `default` gets a row of its own by that."""
    known = _known(rec, move.name)
    _put(rec, replace(known, retention_ms=move.retention_ms))


def quota_set(rec: Recorder, move: QuotaSet) -> None:
    """What was started before costs nothing of a new rate."""
    known = _known(rec, move.name)
    _put(
        rec,
        replace(
            known,
            max_open_runs=move.max_open_runs,
            starts_per_second=move.starts_per_second,
            starts_paid_us=0,
        ),
    )


def start_paid(rec: Recorder, move: StartPaid) -> None:
    _put(rec, replace(_known(rec, move.name), starts_paid_us=move.paid_us))


def run_opened(rec: Recorder, namespace: str) -> None:
    open_runs = rec.state.catalog.open_runs
    open_runs[namespace] = open_runs.get(namespace, 0) + 1


def run_closed(rec: Recorder, namespace: str) -> None:
    rec.state.catalog.open_runs[namespace] -= 1


def types_registered(rec: Recorder, move: TypesRegistered) -> None:
    for workflow_type in move.workflow_types:
        rec.state.catalog.types.add((move.namespace, workflow_type))
        rec.changes.types[move.namespace, workflow_type] = None


def _known(rec: Recorder, name: str) -> NamespaceRecord:
    return rec.state.catalog.namespaces.get(name) or NamespaceRecord(name, 0, 0)


def _put(rec: Recorder, record: NamespaceRecord) -> None:
    rec.state.catalog.namespaces[record.name] = record
    rec.changes.namespaces[record.name] = record
