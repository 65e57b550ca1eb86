"""The built-in saga is that of the example."""

import importlib.util
from pathlib import Path
from typing import Any

from raftflow.cluster.hosted.builtin import WORKFLOWS
from raftflow_sdk import decide

EXAMPLE = Path(__file__).parents[3] / "examples" / "order_saga" / "workflows.py"


def example() -> Any:
    spec = importlib.util.spec_from_file_location("order_saga_workflows", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.WORKFLOWS["OrderSaga"]


def history(approval: str, charge: str) -> list[dict[str, Any]]:
    done = {"status": "COMPLETED", "output": "x"}
    failed = {"status": "FAILED", "error": "declined", "error_type": "Declined"}
    rows = [
        {"kind": "ACTIVITY", "step_name": "reserve", **done},
        {"kind": "TIMER", "step_name": "settle", **done},
        {"kind": "SIGNAL", "step_name": "gate", **done, "output": approval},
    ]
    if approval != "yes":
        rows.append({"kind": "ACTIVITY", "step_name": "release", **done})
    elif charge == "paid":
        rows.append({"kind": "ACTIVITY", "step_name": "charge", **done})
        rows.append({"kind": "ACTIVITY", "step_name": "ship", **done})
    else:
        rows.append({"kind": "ACTIVITY", "step_name": "charge", **failed})
        rows.append({"kind": "ACTIVITY", "step_name": "release", **done})
    return [{**row, "sequence": n} for n, row in enumerate(rows, start=1)]


def test_either_decides_alike_at_every_point() -> None:
    ours, theirs = WORKFLOWS["OrderSaga"], example()
    for approval, charge in [("yes", "paid"), ("yes", "declined"), ("no", "")]:
        steps = history(approval, charge)
        for length in range(len(steps) + 1):
            head = {"workflow_id": "w", "run_id": "r", "task_token": "t", "workflow_type": "x"}
            task = {**head, "input": "order-1", "steps": steps[:length]}
            decision = decide(ours, task)
            assert decision == decide(theirs, task)
            assert len(decision["commands"]) == 1
        assert decision["commands"][0]["type"] in ("complete_workflow", "fail_workflow")
