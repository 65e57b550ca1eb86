"""Runs in a rig's store, made by commands."""

from __future__ import annotations

from collections.abc import Sequence

import engine_harness as make
from replica_rig import Rig, entry

from raftflow.engine.commands import Command, RegisterTypes, TerminateRun

BIRTH_MS = 1_000_000


async def apply(rig: Rig, *commands: Command, time_ms: int = BIRTH_MS) -> None:
    """One entry, applied and written."""
    index = rig.replica.applied_index + 1
    await rig.feed([entry(index, commands, max(time_ms, rig.replica.time_ms))])
    await rig.settle()


async def populate(rig: Rig, ids: Sequence[str], **start: object) -> None:
    """Start these workflows, one entry and one millisecond each."""
    workflow_type = str(start.pop("workflow_type", "Order"))
    namespace = str(start.get("namespace", "default"))
    await apply(rig, RegisterTypes(namespace=namespace, workflow_types=(workflow_type,)))
    for workflow_id in ids:
        command = make.start(workflow_id, workflow_type, run_id=f"run-{workflow_id}", **start)  # type: ignore[arg-type]
        await apply(rig, command, time_ms=rig.replica.time_ms + 1)


def terminate(workflow_id: str) -> TerminateRun:
    return TerminateRun(
        namespace="default", workflow_id=workflow_id, run_id="", reason="enough", request_id=""
    )
