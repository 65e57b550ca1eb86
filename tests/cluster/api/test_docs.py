"""docs/protocol.md names what there is, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from raftflow.cluster.api.decisions import COMMANDS
from raftflow.cluster.api.json_routes import templates
from raftflow.proto.workflow.v1 import service_pb2 as pb

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "protocol.md").read_text()


def test_every_path_and_method_is_documented() -> None:
    served = {f"{method} {path}" for path, methods in templates() for method in methods}
    documented = set(re.findall(r"^\| `((?:GET|POST|PUT|DELETE) [^`]+)`", TEXT, re.M))
    assert documented == served


def test_every_command_and_grpc_call_is_documented() -> None:
    for name in COMMANDS:
        assert f"`{name}`" in TEXT, name
    for method in pb.DESCRIPTOR.services_by_name["WorkflowService"].methods:
        assert re.search(rf"\b{method.name}\b", TEXT), method.name
