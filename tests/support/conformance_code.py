"""The code of the conformance workflows: one table for both ways to write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import conformance_async
import conformance_sync

from raftflow_sdk.payloads import Decode

IMPLEMENTATIONS: Mapping[str, ModuleType] = {
    "sync": conformance_sync,
    "async": conformance_async,
}
# Workflow types, and the functions of either module that are their code.
TYPES = {
    "Saga": "saga",
    "Fails": "fails",
    "Uncaught": "works",
    "Retried": "retried",
    "Policy": "policy",
    "FanOut": "fan_out",
    "Settled": "settled",
    "Waves": "waves",
    "ActivityOrTimer": "activity_or_timer",
    "ThreeWays": "three_ways",
    "Approval": "approval",
    "SideEffect": "side_effect",
    "Clockwork": "clockwork",
    "Countdown": "countdown",
    "Drops": "drops",
    "Cancellable": "cancellable",
    "Stubborn": "stubborn",
    "Working": "works",
    "StartToClose": "start_to_close",
    "ScheduleToClose": "schedule_to_close",
    "ScheduleToStart": "schedule_to_start",
    "Leased": "leased",
    "Patient": "patient",
    "Resumed": "resumed",
    "Parent": "parent",
    "Careful": "careful",
    "Leaving": "leaving",
    "Impatient": "impatient",
    "Child": "child",
    "Collects": "collects",
    "Patience": "patience",
    "Echo": "echo",
    "Json": "json_echo",
    "Tagged": "tagged",
}
# Of a type whose code changes: what a run meets now.
VARIANTS = {"Change": {"1": "change_1", "2": "change_2", "3": "change_3"}}
# Input as bytes rather than text.
BINARY = frozenset({"Echo"})


def code_of(implementation: str, workflow_type: str, variant: str = "") -> Callable[..., Any]:
    """The function of a type; of one whose code changes, that variant of it."""
    name = VARIANTS[workflow_type][variant] if variant else TYPES[workflow_type]
    code: Callable[..., Any] = getattr(IMPLEMENTATIONS[implementation], name)
    return code


def decode_of(workflow_type: str) -> Decode:
    return "bytes" if workflow_type in BINARY else "text"
