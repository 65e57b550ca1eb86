"""What the doctor asks of a cluster. A node too old for a question, or a token that may not ask it,
only means that less is known."""

from __future__ import annotations

import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.diagnosis import compare
from raftflow.cluster.cli.errors import ServerError, Unreachable
from raftflow.cluster.cli.findings import Told, answers

LOOKS = 5
PAUSE_S = 0.4
DIRECT_S = 1.0
PORTS_AGAIN_S = 1.2  # nodes share an answer for a second
# Namespaces whose quotas and runs are looked at.
MOST_NAMESPACES = 50
OPEN = ("RUNNING", "WAITING", "PAUSED", "UNKNOWN")
_UNTOLD = (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN)


def ask_states(client: Client) -> list[dict[str, Any]]:
    """Ask until the digests of all nodes that answer were compared at some index, a few times at
    most: a busy node is somewhere else each time."""
    states: list[dict[str, Any]] = []
    while True:
        states.append(client.get("/api/cluster"))
        answering = {node["id"] for node in states[-1]["nodes"] if answers(node)}
        if len(states) == LOOKS:
            return states
        if len(states) > 1 and (len(answering) < 2 or answering <= compare(states).compared):
            return states
        time.sleep(PAUSE_S)


def ask_beside(client: Client, states: list[dict[str, Any]]) -> Told:
    newest = states[-1]
    nodes = newest["nodes"]
    why: dict[str, Any] = {}
    for node in nodes:
        answer = _told(client, f"/api/why/node/{quote(node['id'], safe='')}")
        if answer is None:
            break  # this release does not tell, whichever node is asked about
        why[node["id"]] = answer
    led = bool(newest.get("leader"))
    return Told(
        ports=_ports(client),
        why=why,
        why_log=_told(client, "/api/why/log") if why and led else None,
        why_leader=_told(client, "/api/why/leader") if why and not led else None,
        directly=dict(_directly(client, nodes)),
        namespaces=list(_namespaces(client)) if led else (),
        queues=(_told(client, "/api/queues") or {}).get("queues", ()) if led else (),
    )


def _told(client: Client, path: str, **query: Any) -> Any:
    try:
        return client.get(path, **query)
    except ServerError as error:
        if error.http_status not in _UNTOLD:
            raise
        return None
    except Unreachable:
        return None


def _ports(client: Client) -> Any:
    """One that is closed is dialled once more: a node that has just come back was on its way."""
    seen = _told(client, "/api/cluster/ports")
    if seen and any(each["reachable"] is False for each in seen["ports"]):
        time.sleep(PORTS_AGAIN_S)
        seen = _told(client, "/api/cluster/ports")
    return seen


def _directly(client: Client, nodes: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A node that repairs itself answers nobody but who asks its HTTP port what it does."""
    for node in nodes:
        if not answers(node) and node.get("http"):
            said = client.health_of(node["http"], patience_s=DIRECT_S)
            # Where all advertise this machine, another one may have the port here.
            if said and said.get("node", node["id"]) == node["id"]:
                yield node["id"], said


def _namespaces(client: Client) -> Iterator[dict[str, Any]]:
    """Those that this caller may see, with their open runs and those that stand still."""
    listed = _told(client, "/api/namespaces")
    names = listed["namespaces"] if listed else [{"name": client.namespace or "default"}]
    for namespace in names[:MOST_NAMESPACES]:
        with client.within(namespace["name"]) as inside:
            found = dict(namespace)
            unknown = _told(inside, "/api/workflows", status="UNKNOWN", limit=1)
            if unknown and unknown["total"] and unknown["workflows"]:
                first = unknown["workflows"][0]["workflow_id"]
                found |= {"unknown_runs": unknown["total"], "unknown_run": first}
            if namespace.get("max_open_runs"):
                found["open_runs"] = _open_runs(inside)
            yield found


def _open_runs(client: Client) -> int | None:
    """None where they are too many for the lists of a release that does not count them."""
    counts = _told(client, "/api/workflow-counts") or {}
    if "by_status" in counts:
        return sum(int(counts["by_status"].get(status, 0)) for status in OPEN)
    pages = [_told(client, "/api/workflows", status=status, limit=1) for status in OPEN]
    if not all(page and page.get("total_exact", True) for page in pages):
        return None
    return sum(int(page["total"]) for page in pages)
