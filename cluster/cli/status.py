"""How a cluster looks, and what changed between two looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.live import looking, screen, unless_silent
from raftflow.cluster.cli.output import Block, Printer, Rows

COLUMNS = (
    *("node", "role", "member", "term", "commit", "applied", "lag", "contact"),
    *("version", "level", "incarnation", "http"),
)


def headline(state: dict[str, Any]) -> str:
    return (
        f"cluster {state['cluster_id']}  leader {state.get('leader') or 'none'}  "
        f"term {state['term']}  (as {state['node']} sees it)"
    )


def status_view(state: dict[str, Any]) -> list[Block]:
    view: list[Block] = [headline(state)]
    if state.get("pending_change"):
        view.append(f"pending: {state['pending_change']}")
    return [*view, Rows(COLUMNS, [_row(node, state["node"]) for node in state["nodes"]])]


def watch_status(client: Client, printer: Printer, every_ms: int, count: int | None) -> None:
    if printer.format == "table":
        _draw(client, every_ms, count)
        return
    before: dict[str, Any] | None = None
    silent = ""
    with looking(every_ms, count) as looks:
        for _ in looks:
            state = look(client)
            if printer.format == "json":
                printer.line({"error": state} if isinstance(state, str) else state)
            elif isinstance(state, str):
                if state != silent:
                    printer.note(f"{now()} {state}")
                silent = state
            else:
                if before is None:
                    printer.view(status_view(state))
                for change in changes(before, state) if before else ():
                    printer.note(f"{now()} {change}")
                before, silent = state, ""


def look(client: Client) -> dict[str, Any] | str:
    """The cluster as some node sees it; any that it knows of may be asked the next time."""
    state = unless_silent(lambda: client.get("/api/cluster"))
    if not isinstance(state, str):
        client.learn(row["http"] for row in state["nodes"] if row.get("http"))
    return state


def changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """What somebody who reads along wants to hear, in words."""
    if before.get("leader") != after.get("leader"):
        yield _new_leader(after)
    if before.get("pending_change") != after.get("pending_change"):
        yield f"members: {after.get('pending_change') or 'nothing pending any more'}"
    rows = {row["id"]: row for row in before["nodes"]}
    for row in after["nodes"]:
        old = rows.pop(row["id"], None)
        if old is None:
            yield f"{row['id']} is new, as {row.get('member') or 'a member'}"
            continue
        for name, text in (("member", "is {}"), ("version", "runs release {}")):
            if row.get(name) and old.get(name) and old[name] != row[name]:
                yield f"{row['id']} {text.format(row[name])}"
        if _lost(old, before["node"]) != _lost(row, after["node"]):
            lost = _lost(row, after["node"])
            yield f"{row['id']} {'is lost' if lost else 'is back'}, as {after['node']} sees it"
    for gone in rows:
        yield f"{gone} is gone"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _new_leader(state: dict[str, Any]) -> str:
    leader = state.get("leader")
    if not leader:
        return f"no leader is known (term {state['term']})"
    reason = next(
        (
            f": {each['reason']}"
            for each in reversed(state.get("elections") or ())
            if each["leader"] == leader and each.get("reason")
        ),
        "",
    )
    return f"{leader} leads in term {state['term']}{reason}"


def _lost(node: dict[str, Any], answering: str) -> bool:
    return not node.get("connected", True) and node["id"] != answering


def _row(node: dict[str, Any], answering: str) -> tuple[Any, ...]:
    contact = node.get("last_contact_ms")
    return (
        node["id"],
        node["role"],
        node.get("member"),
        node.get("term"),
        node.get("commit_index"),
        node.get("applied_index"),
        node.get("lag"),
        "lost" if _lost(node, answering) else None if contact is None else f"{contact} ms",
        node.get("version") or None,
        node.get("feature_level"),
        (node.get("incarnation") or "")[:8] or None,
        node.get("http"),
    )


def _draw(client: Client, every_ms: int, count: int | None) -> None:
    view: list[Block] = []
    with screen() as show, looking(every_ms, count) as looks:
        for _ in looks:
            state = look(client)
            if isinstance(state, str):
                show([*view, state, "looking again"])
            else:
                view = status_view(state)
                show(view)
