"""docs/protocol.md names what there is, and nothing else."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

from raftflow.cluster.api.decisions import COMMANDS
from raftflow.cluster.api.json_routes import templates
from raftflow.engine.events import EventBody
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


def test_every_event_and_its_fields_are_documented() -> None:
    renamed = {"retry": "retry_policy", "fire_at_ms": "fire_at", "started_ms": "started_at"}
    for body in get_args(EventBody):
        names = (f"`{renamed.get(field.name, field.name)}`" for field in fields(body))
        assert f"| {body.__name__} | {', '.join(names)} |" in TEXT
