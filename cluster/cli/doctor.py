"""`raftflow doctor`: what is wrong with a cluster, or keeps a node from starting; and what to do.

It only asks, here and in `questions`; what follows from the answers is said by `diagnosis` and
`checkup`, which ask nobody.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from raftflow.cluster.cli.client import Client
from raftflow.cluster.cli.diagnosis import Digests, compare, diagnose
from raftflow.cluster.cli.errors import CommandError
from raftflow.cluster.cli.findings import PROBLEM, Finding, answers
from raftflow.cluster.cli.options import client_options
from raftflow.cluster.cli.output import Block, Printer, Rows
from raftflow.cluster.cli.questions import ask_beside, ask_states
from raftflow.cluster.cli.status import headline
from raftflow.cluster.cli.top import size


@click.command()
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Check a stopped node on this machine instead: its TOML file. What the environment says"
    " (RAFTFLOW_*) counts as it would for `raftflow serve`.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="The same, of a node without a file, or with another directory than its file names.",
)
@client_options
def doctor(client: Client, printer: Printer, file: Path | None, data_dir: Path | None) -> None:
    """Check every node of a cluster and say what to do; or why a stopped one does not start.

    Of a cluster: who is reachable and why not, which ports the nodes reach of one another,
    versions, leader, lag, state digests compared, what the background checks of each node found
    (with the runs), a log that is not compacted, disk, clock, certificates, open files and
    connections, quotas, runs that stand still, and the setting peers against the members.

    With --config or --data-dir, of a node on this machine: its settings, its directory and whose it
    is, its log and its state, certificates, token file, ports, disk and open files.

    It changes nothing. Exit status 1 when something is wrong.
    """
    if file or data_dir:
        # SQLite and the log cost a quarter of a second that only these checks should pay.
        from raftflow.cluster.cli.checkup import examine

        checkup = examine(file, data_dir, os.environ)
        report: dict[str, Any] = {
            "node": checkup.node_id,
            "data_dir": checkup.data_dir,
            "checked": checkup.checked,
        }
        _tell(printer, checkup.findings, report, [f"checked: {', '.join(checkup.checked)}"])
        return
    states = ask_states(client)
    findings = diagnose(states, ask_beside(client, states))
    digests, newest = compare(states), states[-1]
    report = {
        "cluster_id": newest["cluster_id"],
        "leader": newest.get("leader"),
        "term": newest["term"],
        "nodes": [_summary(node, digests) for node in newest["nodes"]],
    }
    columns = ("node", "role", "version", "lag", "digest", "checked", "violated", "disk", "skew")
    rows = [_line(node, digests) for node in newest["nodes"]]
    _tell(printer, findings, report, [headline(newest), Rows(columns, rows)])


def _tell(
    printer: Printer, findings: Sequence[Finding], report: dict[str, Any], view: Sequence[Block]
) -> None:
    problems = sum(each.severity == PROBLEM for each in findings)
    if printer.format == "json":
        told = [asdict(each) for each in findings]
        printer.document({"healthy": not problems, **report, "findings": told})
    else:
        printer.view(view)
        for each in findings:
            printer.note("")
            printer.note(f"{each.severity}: {each.node or 'cluster'}: {each.problem}")
            for why in each.because:
                printer.note(f"  because: {why}")
            printer.note(f"  next: {each.next}")
        if not findings:
            printer.note("nothing is wrong")
    if problems:
        raise CommandError(f"{problems} {'problem' if problems == 1 else 'problems'} found")


def _digest(node: dict[str, Any], digests: Digests) -> str:
    if node["id"] in digests.differing:
        return "differs"
    return "same" if node["id"] in digests.compared else "not compared"


_SUMMARY = (
    *("id", "role", "version", "term", "applied_index", "lag", "last_contact_ms"),
    *("disk_free_bytes", "clock_skew_ms", "certificates", "peers", "invariants", "process"),
)


def _summary(node: dict[str, Any], digests: Digests) -> dict[str, Any]:
    return {
        "reachable": answers(node),
        "digest": _digest(node, digests),
        **{name: node.get(name) for name in _SUMMARY},
    }


def _line(node: dict[str, Any], digests: Digests) -> tuple[Any, ...]:
    if not answers(node):
        return (node["id"], "no answer", node.get("version") or None, *[None] * 6)
    checks = node.get("invariants") or {}
    skew = node.get("clock_skew_ms")
    return (
        node["id"],
        node["role"],
        node.get("version"),
        node.get("lag"),
        _digest(node, digests),
        checks.get("checked"),
        checks.get("violated"),
        size(node.get("disk_free_bytes")),
        None if skew is None else f"{skew} ms",
    )
