"""The catalog: namespaces, and the workflow types known in each."""

from __future__ import annotations

from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import NamespaceRecord
from raftflow.engine.transitions import NamespaceCreated, TypesRegistered


def created(rec: Recorder, move: NamespaceCreated) -> None:
    record = NamespaceRecord(move.name, move.retention_ms, rec.time_ms)
    rec.state.catalog.namespaces[move.name] = record
    rec.changes.namespaces[move.name] = record


def types_registered(rec: Recorder, move: TypesRegistered) -> None:
    for workflow_type in move.workflow_types:
        rec.state.catalog.types.add((move.namespace, workflow_type))
        rec.changes.types[move.namespace, workflow_type] = None
