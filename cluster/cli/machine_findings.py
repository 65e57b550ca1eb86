"""What may be wrong with a node's machine, process and ports; what is nearly used up, what
waits."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from raftflow.cluster.cli.findings import ADVICE, PROBLEM, Finding, answers

MIB = 1 << 20
DISK_LOW = 512 * MIB
DISK_SOON = 2_048 * MIB
_SKEW_MS = 1_000
_SKEW_SOON_MS = 250
_DAY_S = 86_400
_CERTIFICATE_DAYS = 14
_CERTIFICATE_DAYS_LOW = 3
# Of what may be open, in percent.
_NEAR = 80
_FULL = 95
_WAITS_MS = 60_000
_MOST_QUEUES = 5

_RENEW = 'raftflow cert rotate; docs/security.md, "New certificates without a restart"'
FREE_SPACE = "free space or grow it: a node whose disk is full ends itself"


def of_machine(node: Mapping[str, Any]) -> Iterator[Finding]:
    name, free, skew = node["id"], node.get("disk_free_bytes"), node.get("clock_skew_ms") or 0
    if free is not None and free < DISK_SOON:
        what = f"its disk has {free // MIB:,} MiB left"
        yield Finding(PROBLEM if free < DISK_LOW else ADVICE, name, what, FREE_SPACE, "disk")
    if abs(skew) > _SKEW_SOON_MS:
        way = "ahead of" if skew > 0 else "behind"
        what = f"its clock is {abs(skew):,} ms {way} the median of all"
        then = "set up NTP or chrony; a node more than a second off gives leadership away"
        yield Finding(PROBLEM if abs(skew) > _SKEW_MS else ADVICE, name, what, then, "clock")


def of_certificates(node: Mapping[str, Any]) -> Iterator[Finding]:
    for use, seconds in (node.get("certificates") or {}).items():
        days = seconds // _DAY_S
        if days < _CERTIFICATE_DAYS:
            what = f"its certificate ({use}) is over" + (f" in {days} days" if days >= 0 else "")
            severity = PROBLEM if days < _CERTIFICATE_DAYS_LOW else ADVICE
            yield Finding(severity, node["id"], what, _RENEW, "certificate")


def of_process(node: Mapping[str, Any]) -> Iterator[Finding]:
    """Open files and connections, against what the node may have."""
    process, name = node.get("process") or {}, node["id"]
    files, most_files = process.get("open_files"), process.get("open_files_limit")
    raise_it = "raise LimitNOFILE= of its systemd unit (`ulimit -n`), and restart it"
    if files is not None and most_files:
        yield from _near(name, files, most_files, "files open", raise_it, "files")
    most, wanted = process.get("connections_limit"), process.get("connections_wanted")
    if most and wanted and most < wanted:
        what = (
            f"it takes {most:,} connections and not {wanted:,} (limits.connections): its process"
            f" may have {most_files:,} files open"
        )
        yield Finding(ADVICE, name, what, raise_it, "files")
    if most and process.get("connections") is not None:
        then = (
            "find who holds them (`ss -tn sport = :PORT` there), spread callers over the nodes, or"
            " raise limits.connections"
        )
        yield from _near(name, process["connections"], most, "connections", then, "connections")


def _near(name: str, used: int, most: int, what: str, then: str, check: str) -> Iterator[Finding]:
    percent = 100 * used // most
    if percent >= _NEAR:
        said = f"it has {used:,} of {most:,} {what} that it may have"
        yield Finding(PROBLEM if percent >= _FULL else ADVICE, name, said, then, check)


def of_ports(state: Mapping[str, Any], seen: Mapping[str, Any] | None) -> Iterator[Finding]:
    """Of nodes that answer: the ports of one that does not are no news."""
    answering = {node["id"] for node in state["nodes"] if answers(node)}
    closed: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    why: dict[tuple[str, str, str], str] = {}
    dialled: dict[tuple[str, str, str], int] = defaultdict(int)
    hidden: dict[str, str] = {}
    for each in (seen or {}).get("ports", ()):
        port = (each["to"], each["port"], each["address"])
        if each["to"] not in answering or each["from"] not in answering:
            continue
        dialled[port] += 1
        if each["reachable"] is False:
            closed[port].append(each["from"])
            why[port] = each["problem"] or "not reached"
        elif each["reachable"] is None and each["port"] == "http":
            hidden[each["to"]] = each["address"]
    for port, by in closed.items():
        yield _closed(port, by, why[port], everybody=len(by) == dialled[port])
    for name, address in hidden.items():
        what = f"it advertises {address} for HTTP, where nobody but its own machine reaches it"
        then = (
            "where clients, the page or the command line are to reach it, set http_addr (0.0.0.0"
            " or a host of its own) and advertise_http_addr, and tokens: docs/security.md"
        )
        yield Finding(ADVICE, name, what, then, "ports")


def _closed(port: tuple[str, str, str], by: Sequence[str], why: str, *, everybody: bool) -> Finding:
    name, kind, address = port
    told = {"http": "HTTP", "grpc": "gRPC", "raft": "Raft", "metrics": "metrics"}[kind]
    who = ", ".join(by)
    what = f"its {told} port, {address}, is not reached by {who}: {why}"
    setting = f"advertise_{kind}_addr" if kind != "raft" else "peers"
    then = (
        f"see what it listens on (`ss -ltn` there) and what firewall is between; if {address} is"
        f" not where others reach it, set {setting}"
    )
    if not everybody:
        then = f"others reach it: look at the network and the firewall between it and {who}"
    return Finding(PROBLEM if kind == "raft" else ADVICE, name, what, then, "ports")


def of_namespaces(namespaces: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Quotas that are nearly used up, and runs that stand still until somebody acts."""
    for each in namespaces:
        name, most, opened = each["name"], each.get("max_open_runs"), each.get("open_runs")
        if most and opened is not None and 100 * opened // most >= _NEAR:
            what = f"namespace {name} has {opened:,} of {most:,} open runs that it may have"
            then = (
                "end what is not needed (`raftflow workflow list --namespace`), or raise it:"
                f" `raftflow namespace quota {name} --max-open-runs N` (what it does not name"
                " has no bound then)"
            )
            full = 100 * opened // most >= _FULL
            yield Finding(PROBLEM if full else ADVICE, "", what, then, "quota")
        if each.get("unknown_runs"):
            first, number = each.get("unknown_run") or "ID", each["unknown_runs"]
            runs = "1 run" if number == 1 else f"{number:,} runs"
            what = (
                f"{runs} of namespace {name} cannot go on (UNKNOWN): history or code cannot be"
                " replayed or read"
            )
            then = (
                f"`raftflow why run {first} --namespace {name}`, and `raftflow workflow list"
                f" --status UNKNOWN --namespace {name}`"
            )
            yield Finding(ADVICE, "", what, then, "runs")


def of_queues(queues: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Tasks that nobody takes for a minute. The cluster is well for all that: it is advice."""
    late = [each for each in queues if (each.get("oldest_ms") or 0) > _WAITS_MS]
    late.sort(key=lambda each: -each["oldest_ms"])
    for each in late[:_MOST_QUEUES]:
        polled = any(poller.get("polls", 1) for poller in each.get("pollers", ()))
        tasks = "task waits" if each["queued"] == 1 else "tasks wait"
        what = (
            f"queue {each['name']} of namespace {each['namespace']}: {each['queued']:,}"
            f" {each['kind']} {tasks}, the first for {each['oldest_ms'] // 1_000:,} s"
            + ("" if polled else ", and nobody polls it")
        )
        words = ["raftflow", "why", "queue", each["name"], "--namespace", each["namespace"]]
        yield Finding(ADVICE, "", what, f"`{shlex.join(words)}`", "queue")
    if len(late) > _MOST_QUEUES:
        more = f"{len(late) - _MOST_QUEUES:,} more queues have tasks that wait for over a minute"
        yield Finding(ADVICE, "", more, "`raftflow queue list`", "queue")
