"""`raftflow cluster restart`: every node once, one after the other, while the cluster works.

How a node is restarted is its host's affair: systemd, a container, a pod. So the caller says it, as
a command that is run once for each node. What this adds is the order (the leader last, so that
leadership moves once), and that the next one is not touched before the last is well again.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.errors import EXIT_UNREACHABLE, CommandError, ServerError, Unreachable
from raftflow.cluster.cli.output import Printer
from raftflow.cluster.config import Address

LOOK_S = 0.2
# Well for so long, it is well: one that has just started may not have heard yet what it lacks.
SETTLED_S = 1.0
# As far behind as `/api/ready` allows: under load it never is nothing.
READY_LAG = 1_000
# How often a wait that goes on says what for.
TELL_EVERY_S = 10.0
# So long after the command a node that does not say how old it is was restarted, if it ever was.
BLIND_S = 10.0


@dataclass(frozen=True, slots=True)
class Restarted:
    """Times in seconds: the command, and until the node was well again."""

    node: str
    took_s: float
    well_after_s: float
    version: str


def restart_all(
    client: Client, printer: Printer, *, command: str, release: str, timeout_s: float
) -> list[Restarted]:
    """Raises CommandError at the first node that does not come back; the rest is left alone."""
    state = client.get("/api/cluster")
    if problems := ailing(state):
        raise CommandError(f"nothing was restarted: {'; '.join(problems)}")
    waiting = [row["id"] for row in _members(state)]
    printer.note(_releases(_members(state), release))
    done: list[Restarted] = []
    while waiting:
        state = client.get("/api/cluster")
        node_id = next_of(waiting, state["leader"])
        waiting.remove(node_id)
        row = next(each for each in _members(state) if each["id"] == node_id)
        leads = ", which leads" if node_id == state["leader"] else ""
        printer.note(f"{node_id}{leads}: restarting")
        try:
            restarted = _restart(
                client, printer, row, command, release=release, timeout_s=timeout_s
            )
        except CommandError as error:
            raise CommandError(
                f"{error}. {_left(done, waiting)}. Once that is put right, run this command again:"
                " it restarts all nodes, those that were restarted already, too",
                status=error.status,
            ) from None
        printer.note(
            f"{node_id}: release {restarted.version}, well again {restarted.well_after_s:.1f} s"
            " after the command ended"
        )
        done.append(restarted)
    return done


def _releases(rows: list[dict[str, Any]], wanted: str) -> str:
    """What runs where, which after an upgrade that was broken off is not the same everywhere."""
    at: dict[str, list[str]] = {}
    for row in rows:
        at.setdefault(_release(row), []).append(row["id"])
    said = "; ".join(
        f"{', '.join(nodes)} {'run' if len(nodes) > 1 else 'runs'} {each}"
        for each, nodes in at.items()
    )
    return f"{said}; each is to come back with {wanted}" if wanted else said


def _release(row: dict[str, Any]) -> str:
    return str(row["version"]) if row.get("version") else "a release that it does not say"


def _left(done: list[Restarted], waiting: list[str]) -> str:
    before = ", ".join(f"{each.node} ({each.version})" for each in done)
    restarted = f"Restarted before it: {before}" if before else "None was restarted before it"
    return f"{restarted}; left alone: {', '.join(waiting) or 'none'}"


def next_of(waiting: list[str], leader: str | None) -> str:
    return min(waiting, key=lambda node_id: (node_id == leader, node_id))


def ailing(state: dict[str, Any]) -> list[str]:
    """Why no node may be stopped now; the cluster would stand still, or lose what makes it safe."""
    found = [] if state.get("leader") else ["no leader is known"]
    if state.get("pending_change"):
        found.append(str(state["pending_change"]))
    judged = [(row["id"], _problem(row)) for row in _members(state)]
    return found + [f"{node_id} {problem}" for node_id, problem in judged if problem]


def _problem(row: dict[str, Any]) -> str:
    lag = row.get("lag")
    if not row.get("connected") or lag is None:
        return "does not answer"
    if row.get("no_vote") or row.get("repair"):
        return str(row.get("repair") or row["no_vote"])
    return f"is {lag} entries behind" if lag > READY_LAG else ""


def _restart(
    client: Client,
    printer: Printer,
    row: dict[str, Any],
    command: str,
    *,
    release: str,
    timeout_s: float,
) -> Restarted:
    node_id, began = row["id"], time.monotonic()
    ended = subprocess.run(["sh", "-c", command], check=False, env=_environment(row))
    if ended.returncode != 0:
        raise CommandError(f"{node_id}: the command ended with status {ended.returncode}")
    took_s = time.monotonic() - began
    told = _until_well(client, printer, row, began=began, give_up_at=began + took_s + timeout_s)
    version = _release(told)
    if release and version != release:
        raise CommandError(_another_release(row, version, release))
    return Restarted(node_id, took_s, time.monotonic() - began - took_s, version)


def _another_release(before: dict[str, Any], version: str, wanted: str) -> str:
    """It was restarted, and --release says that it should be another now."""
    name = before["id"]
    if version == _release(before):
        return (
            f"{name} came back with {version}, as before, and not with {wanted}: the command has"
            f" restarted it and has not installed {wanted}, or its process is started from"
            " somewhere else"
        )
    return (
        f"{name} ran {_release(before)}, came back with {version}, and not with {wanted}: the"
        f" command installs {version}, or --release names the wrong one"
    )


def _until_well(
    client: Client,
    printer: Printer,
    before: dict[str, Any],
    *,
    began: float,
    give_up_at: float,
) -> dict[str, Any]:
    """The node's row, once it is another process and everything has been well for a moment."""
    node_id = before["id"]
    well_since: float | None = None
    tell_at = time.monotonic() + TELL_EVERY_S
    row: dict[str, Any]
    while True:
        try:
            state = client.get("/api/cluster")
            problems = ailing(state)
            row = next((each for each in state["nodes"] if each["id"] == node_id), {})
            if not problems and not _is_another(before, row, began):
                problems = [f"{node_id} runs on: the command has not restarted it"]
        except (Unreachable, ServerError) as error:
            problems, row = [str(error)], {}
        now = time.monotonic()
        if problems:
            well_since = None
        elif well_since is None:
            well_since = now
        elif now - well_since >= SETTLED_S:
            return row
        if problems and now >= give_up_at:
            raise CommandError(
                f"{node_id} is not well again: {'; '.join(problems)}", status=EXIT_UNREACHABLE
            )
        if problems and now >= tell_at:
            printer.note(f"{node_id}: not well yet: {'; '.join(problems)}")
            tell_at = now + TELL_EVERY_S
        time.sleep(LOOK_S)


def _is_another(before: dict[str, Any], row: dict[str, Any], began: float) -> bool:
    """Whether its process is younger than the command. Releases before 0.4 do not say how old they
    are, nor pass it on: with those it is another release, or was given time enough."""
    since_s, uptime_s = time.monotonic() - began, row.get("uptime_seconds")
    if uptime_s is None:
        return row.get("version") != before.get("version") or since_s > BLIND_S
    return bool(uptime_s < since_s)


def _members(state: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in state["nodes"] if row.get("member") != "removed"]


def _environment(row: dict[str, Any]) -> dict[str, str]:
    return {**os.environ, "NODE": row["id"], "HOST": Address.parse(row["raft"]).host}
