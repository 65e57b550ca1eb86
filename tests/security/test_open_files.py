"""Connections never take the files that a node needs for itself, however few the system allows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import probes
import pytest
from dev_cluster import HttpError, call, serve_command, wait_for
from ports import free_ports

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.platform != "linux", reason="other systems count otherwise"),
]

ALLOWED = 700


FEW_FILES = (
    "import os, resource, sys;"
    f"resource.setrlimit(resource.RLIMIT_NOFILE, ({ALLOWED}, {ALLOWED}));"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[dict[str, str]]:
    names = ("http", "grpc", "raft", "metrics")
    ports = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(4), strict=True)}
    log = tmp_path / "log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", FEW_FILES, *serve_command("n1", tmp_path / "data", **ports)],
            stdout=output,
            stderr=output,
        )
    try:
        wait_for("it leads", lambda: ready(ports["http"]))
        yield ports | {"log": str(log)}
        assert process.poll() is None, log.read_text()[-3_000:]
    finally:
        process.terminate()
        process.wait(20)


def ready(address: str) -> bool:
    try:
        return bool(call(address, "GET", "/api/ready", timeout=5.0)["ready"])
    except (OSError, HttpError):
        return False


def test_a_flood_of_connections_leaves_a_node_its_files(node: dict[str, str]) -> None:
    assert "connections_bounded" in Path(node["log"]).read_text()
    begun = {"http": b"GET / HT", "grpc": b"PRI * H", "raft": b"\x10", "metrics": b"GET /m"}
    callers = []
    try:
        for number in range(ALLOWED):
            for port, sent in begun.items():
                caller = probes.connected(node[port])
                caller.sendall(sent)
                callers.append(caller)
            if number % 100 == 0:
                assert probes.health(node["http"])["role"] == "leader"
        types = {"workflow_types": ["Order"]}
        call(node["http"], "POST", "/api/workflow-types", types, timeout=10)
        started = call(node["http"], "POST", "/api/workflows", {"type": "Order"}, timeout=10)
        assert started["started"]
    finally:
        for caller in callers:
            caller.close()
    assert "EMFILE" not in Path(node["log"]).read_text()
    assert "Too many open files" not in Path(node["log"]).read_text()
