"""What the doctor makes of a machine, a process, its ports, and of what is nearly used up."""

from __future__ import annotations

from typing import Any

import pytest

from raftflow.cluster.cli.findings import Finding
from raftflow.cluster.cli.machine_findings import (
    of_namespaces,
    of_ports,
    of_process,
    of_queues,
)


def process(**facts: Any) -> list[Finding]:
    return list(of_process({"id": "n1", "process": facts}))


def test_files_and_connections_near_their_bound() -> None:
    assert process() == []
    assert process(open_files=800, open_files_limit=1_024) == []
    [near] = process(open_files=900, open_files_limit=1_024)
    assert (near.severity, near.check) == ("advice", "files")
    assert "900 of 1,024 files open" in near.problem
    assert "LimitNOFILE" in near.next
    [full] = process(connections=97, connections_limit=100, connections_wanted=100)
    assert (full.severity, full.check) == ("problem", "connections")
    [few] = process(
        **{"connections": 1, "connections_limit": 256, "connections_wanted": 4_096},
        **{"open_files": 60, "open_files_limit": 1_024},
    )
    assert "it takes 256 connections and not 4,096" in few.problem
    assert list(of_process({"id": "n1"})) == [], "a release before 0.5 does not say"


STATE = {"nodes": [{"id": name, "applied_index": 1} for name in ("n1", "n2", "n3")]}


def port(came: str, to: str, kind: str, reachable: bool | None) -> dict[str, Any]:
    problem = "Connection refused" if reachable is False else None
    return {
        **{"from": came, "to": to, "port": kind, "address": f"10.0.0.{to[1:]}:1"},
        **{"reachable": reachable, "problem": problem},
    }


def told(*ports: dict[str, Any]) -> list[Finding]:
    return list(of_ports(STATE, {"ports": list(ports)}))


def test_a_port_that_nobody_reaches() -> None:
    assert told(port("n2", "n1", "http", True)) == []
    [found] = told(port("n2", "n1", "grpc", False), port("n3", "n1", "grpc", False))
    assert (found.severity, found.node) == ("advice", "n1")
    expected = "its gRPC port, 10.0.0.1:1, is not reached by n2, n3: Connection refused"
    assert found.problem == expected
    assert "advertise_grpc_addr" in found.next


def test_a_port_that_some_do_not_reach() -> None:
    [found] = told(port("n2", "n1", "raft", False), port("n3", "n1", "raft", True))
    assert found.severity == "problem"
    assert "not reached by n2:" in found.problem
    assert found.next == "others reach it: look at the network and the firewall between it and n2"


def test_what_is_bound_to_its_own_machine() -> None:
    metrics, http = port("n2", "n1", "metrics", None), port("n2", "n1", "http", None)
    [found] = told(metrics, http)
    assert found.severity == "advice"
    assert "nobody but its own machine" in found.problem


def test_the_ports_of_a_node_that_does_not_answer_are_no_news() -> None:
    state = {"nodes": [*STATE["nodes"][:2], {"id": "n3", "applied_index": None}]}
    seen = {"ports": [port("n1", "n3", "http", False), port("n3", "n1", "http", False)]}
    assert list(of_ports(state, seen)) == []
    assert list(of_ports(state, None)) == []


@pytest.mark.parametrize(
    ("opened", "severity"), [(None, None), (79, None), (80, "advice"), (96, "problem")]
)
def test_a_quota_that_is_nearly_used_up(opened: int | None, severity: str | None) -> None:
    found = list(of_namespaces([{"name": "shop", "max_open_runs": 100, "open_runs": opened}]))
    assert [each.severity for each in found] == ([severity] if severity else [])
    assert list(of_namespaces([{"name": "shop", "max_open_runs": 0, "open_runs": 5}])) == []


def test_runs_that_stand_still() -> None:
    [found] = of_namespaces([{"name": "shop", "unknown_runs": 3, "unknown_run": "order-7"}])
    assert "3 runs of namespace shop cannot go on" in found.problem
    assert "`raftflow why run order-7 --namespace shop`" in found.next
    [found] = of_namespaces([{"name": "shop", "unknown_runs": 1}])
    assert found.problem.startswith("1 run of")


def queue(name: str, oldest_ms: int | None, **more: Any) -> dict[str, Any]:
    place = {"name": name, "namespace": "shop", "kind": "activity", "pollers": []}
    return {**place, "queued": 2, "oldest_ms": oldest_ms, **more}


def test_tasks_that_nobody_takes() -> None:
    quiet = [queue("a", None, queued=0), queue("b", 59_000)]
    assert list(of_queues(quiet)) == []
    polled = queue("d", 70_000, queued=1, pollers=[{"polls": 1}])
    late, busy = of_queues([*quiet, polled, queue("c d", 90_000)])
    assert (late.severity, late.check) == ("advice", "queue")
    assert "2 activity tasks wait, the first for 90 s, and nobody polls it" in late.problem
    assert late.next == "`raftflow why queue 'c d' --namespace shop`"
    assert busy.problem.endswith("1 activity task waits, the first for 70 s")
    *_, more = of_queues([queue(f"q{number}", 61_000) for number in range(9)])
    assert more.problem.startswith("4 more queues")
