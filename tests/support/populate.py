"""Runs in a rig's store, made by commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import engine_harness as make
from replica_rig import Rig, entry

from raftflow.engine.commands import (
    Command,
    RegisterTypes,
    StartChildWorkflow,
    TerminateRun,
    WorkflowCommand,
)
from raftflow.engine.state import Run

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
    labels = {name: start.pop(name) for name in ("search_attributes", "memo") if name in start}
    await apply(rig, RegisterTypes(namespace=namespace, workflow_types=(workflow_type,)))
    for workflow_id in ids:
        command = make.start(workflow_id, workflow_type, run_id=f"run-{workflow_id}", **start)  # type: ignore[arg-type]
        command = dataclasses.replace(command, **labels)  # type: ignore[arg-type]
        await apply(rig, command, time_ms=rig.replica.time_ms + 1)


async def decide(rig: Rig, workflow_id: str, *commands: WorkflowCommand) -> None:
    """A worker takes the run's decision and answers with these."""
    run = await view(rig, workflow_id)
    await apply(rig, make.grant_decision(run, nonce=f"d{rig.replica.applied_index}"))
    token = (await view(rig, workflow_id)).decision.token
    await apply(rig, make.complete_decision(workflow_id, token, *commands))


async def view(rig: Rig, workflow_id: str) -> Run:
    run = await rig.replica.run_view("default", workflow_id)
    assert run is not None
    return run


def child(sequence: int, *, workflow_id: str = "", input: bytes = b"in") -> StartChildWorkflow:
    return StartChildWorkflow(
        step_name="child",
        sequence=sequence,
        workflow_type="Order",
        workflow_id=workflow_id,
        input=input,
        task_queue="",
    )


def terminate(workflow_id: str, *, namespace: str = "default") -> TerminateRun:
    return TerminateRun(
        namespace=namespace, workflow_id=workflow_id, run_id="", reason="enough", request_id=""
    )
