"""The catalog: namespaces, and the workflow types known in each."""

from __future__ import annotations

from dataclasses import replace

from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import NamespaceRecord
from raftflow.engine.transitions import NamespaceCreated, NamespaceUpdated, TypesRegistered


def created(rec: Recorder, move: NamespaceCreated) -> None:
    record = NamespaceRecord(move.name, move.retention_ms, rec.time_ms)
    rec.state.catalog.namespaces[move.name] = record
    rec.changes.namespaces[move.name] = record


def updated(rec: Recorder, move: NamespaceUpdated) -> None:
    """The namespace `default` gets a row of its own by that."""
    namespaces = rec.state.catalog.namespaces
    known = namespaces.get(move.name) or NamespaceRecord(move.name, 0, 0)
    record = replace(known, retention_ms=move.retention_ms)
    namespaces[move.name] = record
    rec.changes.namespaces[move.name] = record


def types_registered(rec: Recorder, move: TypesRegistered) -> None:
    for workflow_type in move.workflow_types:
        rec.state.catalog.types.add((move.namespace, workflow_type))
        rec.changes.types[move.namespace, workflow_type] = None
