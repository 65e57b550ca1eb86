"""What workers answer: read as the API reads it, and compared."""

from __future__ import annotations

import json
from typing import Any

from raftflow.cluster.api.validation import Fields
from raftflow.engine.commands import CompleteActivity
from raftflow.engine.ids import DEFAULT_NAMESPACE
from raftflow_sdk import NondeterminismError

_OUTCOME_FIELDS = frozenset(
    {
        "workflow_id",
        "step_name",
        "sequence",
        "lease_token",
        "output",
        "output_base64",
        "error",
        "error_type",
        "non_retryable",
        "next_retry_delay_ms",
    }
)


def read_outcome(body: dict[str, Any]) -> CompleteActivity:
    """The completion of an activity."""
    fields = Fields(body, _OUTCOME_FIELDS)
    return CompleteActivity(
        namespace=DEFAULT_NAMESPACE,
        workflow_id=fields.identifier("workflow_id"),
        step_name=fields.identifier("step_name"),
        sequence=fields.integer("sequence"),
        lease_token=fields.identifier("lease_token"),
        failed=fields.values.get("error") is not None,
        output=fields.payload("output") or b"",
        error=fields.text("error"),
        error_type=fields.text("error_type"),
        non_retryable=fields.flag("non_retryable"),
        next_retry_delay_ms=fields.integer("next_retry_delay_ms", -1, least=-1),
    )


def check_same(what: str, first: dict[str, Any], again: dict[str, Any]) -> None:
    """A decision is a function of its history alone; but a side effect may come out otherwise when
    its decision was lost, and all that follows it."""
    before, after = _foreseeable(first), _foreseeable(again)
    if before != after:
        raise NondeterminismError(
            f"{what} was made again, differently:\n"
            f"  first  {json.dumps(before)}\n  then   {json.dumps(after)}"
        )


def _foreseeable(answer: dict[str, Any]) -> dict[str, Any]:
    decided = {name: value for name, value in answer.items() if name != "task_token"}
    for number, command in enumerate(answer["commands"]):
        if command.get("marker") == "side_effect":
            named = {name: value for name, value in command.items() if "data" not in name}
            return decided | {"commands": [*answer["commands"][:number], named]}
    return decided
