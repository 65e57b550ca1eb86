"""How a run looks, once or while it goes on."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from raftflow.cluster.cli.client import (
    CLOSED_STATUSES,
    EVENT_WAIT_S,
    Client,
    events_after,
    followed,
    is_over,
    workflow_path,
)
from raftflow.cluster.cli.errors import Unreachable
from raftflow.cluster.cli.live import screen
from raftflow.cluster.cli.output import Block, Printer, Rows, shortened

# What a terminal has room for; all of them are shown once the run is closed.
RECENT_STEPS = 20
EVENTS_AT_ONCE = 200
PAUSE_S = 1.0
# A run has one of them, and it is the last.
CLOSING = frozenset(
    {
        *("WorkflowCompleted", "WorkflowFailed", "WorkflowTerminated"),
        *("WorkflowCancelled", "WorkflowTimedOut", "WorkflowContinuedAsNew"),
    }
)


def run_view(run: dict[str, Any], *, recent: int | None = None) -> list[Block]:
    names = ("workflow_id", "run_id", "workflow_type", "status", "task_queue", "history_length")
    times = ("started_at", "updated_at", "closed_at")
    fields = {name.replace("_", " "): run.get(name) for name in (*names, *times)}
    for name in ("input", "output", "error"):
        fields[name] = shortened(_shown(run, name) or "", 400)
    fields |= _relations(run)
    failed = {step.get("sequence"): step.get("last_error") for step in run["steps"]}
    waits = run.get("waiting_on") or ()
    told = (_waiting(each, failed.get(each.get("sequence"))) for each in waits)
    fields["waiting on"] = ", ".join(told)
    view: list[Block] = [fields]
    steps = run["steps"][-recent:] if recent else run["steps"]
    if steps:
        left_out = len(run["steps"]) - len(steps)
        view.append(_steps(steps, f"steps, {left_out} before them" if left_out else "steps"))
    past = [(step["sequence"], each) for step in steps for each in step.get("past_attempts", ())]
    if past:
        view.append(_past_attempts(past[-recent:] if recent else past))
    if run["signals"]:
        columns = ("signal", "payload", "taken by")
        rows = [
            (each["name"], shortened(_shown(each, "payload")), each.get("taken_by") or None)
            for each in run["signals"]
        ]
        view.append(Rows(columns, rows, "signals"))
    return view


def follow_run(client: Client, printer: Printer, workflow_id: str, run_id: str) -> None:
    """Until it is closed; a cluster that does not answer for a while is waited for."""
    if printer.format == "plain":
        _tell_events(client, printer, workflow_id, run_id)
    elif printer.format == "json":
        for found in _patiently(client, workflow_id, run_id):
            printer.line({"error": found} if isinstance(found, str) else found)
    else:
        printer.view(run_view(_draw(client, workflow_id, run_id)))


def _draw(client: Client, workflow_id: str, run_id: str) -> dict[str, Any]:
    run: dict[str, Any] = {}
    with screen(stays=False) as show:
        for found in _patiently(client, workflow_id, run_id):
            silent = [f"{found}; asking again"] if isinstance(found, str) else []
            run = run if isinstance(found, str) else found
            show([*(run_view(run, recent=RECENT_STEPS) if run else ()), *silent])
    return run


def _patiently(client: Client, workflow_id: str, run_id: str) -> Iterator[dict[str, Any] | str]:
    """The run whenever something happened to it, and why no node tells of it."""
    while True:
        try:
            yield from followed(client, workflow_id, run_id)
            return
        except Unreachable as error:
            yield str(error)
            time.sleep(PAUSE_S)


def _tell_events(client: Client, printer: Printer, workflow_id: str, run_id: str) -> None:
    path = workflow_path(workflow_id)
    run = client.get(path, run_id=run_id)
    printer.view(run_view(run))
    while not is_over(run, run_id):
        if run["status"] not in CLOSED_STATUSES:
            _until_closed(client, printer, workflow_id, run)
        closed, run = run, client.get(path, run_id=run_id)
        if run["run_id"] == closed["run_id"]:
            outcome = shortened(run.get("error") or _shown(run, "output") or "", 400)
            printer.note(f"{run['status']} {outcome}".rstrip())
        else:
            printer.note(f"it goes on as run {run['run_id']}")


def _until_closed(client: Client, printer: Printer, workflow_id: str, run: dict[str, Any]) -> None:
    seen = run["history_length"]
    while True:
        try:
            events = events_after(
                client, workflow_id, run, seen, wait_s=EVENT_WAIT_S, limit=EVENTS_AT_ONCE
            )
        except Unreachable as error:
            printer.note(f"{error}; asking again")
            time.sleep(PAUSE_S)
            continue
        for event in events:
            printer.note(f"{event['time']} {event['type']} {event_details(event)}".rstrip())
            seen = event["event_id"]
            if event["type"] in CLOSING:
                return


def _steps(steps: Sequence[dict[str, Any]], title: str) -> Rows:
    rows = [
        (
            step["sequence"],
            step["step_name"],
            step["kind"],
            step["status"],
            step.get("attempts"),
            shortened(_result(step)),
        )
        for step in steps
    ]
    return Rows(("seq", "step", "kind", "status", "attempts", "result"), rows, title)


def _past_attempts(past: Sequence[tuple[int, dict[str, Any]]]) -> Rows:
    rows = [
        (
            sequence,
            each["attempt"],
            each.get("worker_id"),
            each.get("node"),
            each["ended_at"],
            shortened(each.get("error", "")),
        )
        for sequence, each in past
    ]
    columns = ("seq", "attempt", "worker", "node", "ended at", "error")
    return Rows(columns, rows, "attempts before the last")


def _shown(holder: dict[str, Any], name: str) -> str | None:
    encoded = holder.get(f"{name}_base64")
    return f"base64:{encoded}" if encoded is not None else holder.get(name)


def _relations(run: dict[str, Any]) -> dict[str, Any]:
    """What joins the run to others, and what was said about it."""
    parent = run.get("parent")
    requested = run.get("cancel_requested_at")
    return {
        "parent": parent
        and f"{parent['workflow_id']} run {parent['run_id']} step {parent['sequence']}",
        "continued from": run.get("continued_from_run_id"),
        "continued to": run.get("continued_to_run_id"),
        "cancel requested": requested and f"{requested} {run.get('cancel_reason', '')}".rstrip(),
        "attributes": run.get("search_attributes") or None,
        "memo": run.get("memo") or None,
    }


def _result(step: dict[str, Any]) -> str:
    """What came of a step. A child is named, since that is where to look next."""
    result = step.get("error") or _shown(step, "output") or ""
    if step["kind"] == "MARKER":
        return f"{step['marker']}: {result}"
    if step["kind"] == "CHILD":
        named = f"{step['workflow_type']} {step['workflow_id']}"
        return f"{named}: {result}" if result else named
    return result


def event_details(event: dict[str, Any]) -> str:
    """What is particular to this type of event; empty fields are left out."""
    general = ("event_id", "type", "time")
    return " ".join(
        f"{name}={shortened(value, 200)}"
        for name, value in event.items()
        if name not in general and value not in ("", 0, None)
    )


def _waiting(item: dict[str, Any], last_error: str | None) -> str:
    said = " ".join(filter(None, (item.get("step_name"), item.get("detail"))))
    return f"{said} (it failed: {shortened(last_error)})" if last_error else said
