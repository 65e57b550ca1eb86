"""docs/protocol.md names what there is, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from raftflow.cluster.api.decisions import _PARSERS, LATER_TYPES
from raftflow.cluster.api.json_routes import PATHS, RUN_PATHS
from raftflow.proto.workflow.v1 import service_pb2 as pb

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "protocol.md").read_text()


def test_every_path_and_method_is_documented() -> None:
    served = {f"{method} {path}" for path, methods in PATHS.items() for method in methods}
    for verb, methods in RUN_PATHS.items():
        path = "/api/workflows/{id}" + (f"/{verb}" if verb else "")
        served |= {f"{method} {path}" for method in methods}
    served.remove("DELETE /api/workflows/{id}")  # refused by name in this release
    documented = set(re.findall(r"^\| `((?:GET|POST) [^`]+)`", TEXT, re.M))
    assert documented == served


def test_every_command_and_grpc_call_is_documented() -> None:
    for name in (*_PARSERS, *LATER_TYPES):
        assert f"`{name}`" in TEXT, name
    for method in pb.DESCRIPTOR.services_by_name["WorkflowService"].methods:
        assert re.search(rf"\b{method.name}\b", TEXT), method.name
