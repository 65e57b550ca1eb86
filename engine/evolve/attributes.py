"""Search attributes: sorted by name, each name once."""

from __future__ import annotations

from raftflow.engine.commands import Attributes
from raftflow.engine.events import SearchAttributesUpserted
from raftflow.engine.evolve.recorder import Recorder
from raftflow.engine.state import Run

_REMOVED = "null"


def upserted(rec: Recorder, run: Run, body: SearchAttributesUpserted) -> None:
    rec.event(run, body, sum([len(name) + len(value) for name, value in body.attributes]))
    run.search_attributes = merged(run.search_attributes, body.attributes)


def merged(before: Attributes, upserted: Attributes) -> Attributes:
    if not upserted:
        return before
    values = {**dict(before), **dict(upserted)}
    return tuple(sorted([(name, v) for name, v in values.items() if v != _REMOVED]))
