"""The published document says what the server does: same routes, same fields, same answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from json_client import Client

from raftflow.cluster.api.decisions import COMMANDS, parse_command
from raftflow.cluster.api.json_routes import templates
from raftflow.cluster.api.openapi import document
from raftflow.cluster.api.routes.request import Route
from raftflow.cluster.api.status import TABLE, ApiError
from raftflow.cluster.config import Config

DOCUMENT = document(templates())
SCHEMAS = DOCUMENT["components"]["schemas"]
GOLDEN = Path(__file__).parent / "golden"
ROUTES = [
    (method, path, route) for path, methods in templates() for method, route in methods.items()
]
WITH_BODY = [(method, path, route) for method, path, route in ROUTES if route.body is not None]


def resolved(schema: Any) -> Any:
    while "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].removeprefix("#/components/schemas/")]
    return schema


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "$ref":
                yield value
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_the_document_has_the_routes_and_no_other() -> None:
    shown = {
        (method.upper(), path)
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
        if method != "parameters"
    }
    assert shown == {(method, path) for method, path, _ in ROUTES}
    names = [route.name for _, _, route in ROUTES]
    assert len(names) == len(set(names))


def test_every_reference_leads_somewhere_and_no_shape_is_left_over() -> None:
    named = {reference.rpartition("/")[2] for reference in references(DOCUMENT)}
    assert named <= set(SCHEMAS)
    assert set(SCHEMAS) - named == set()
    json.dumps(DOCUMENT, allow_nan=False)


def test_every_refusal_is_one_of_the_table() -> None:
    for _, _, route in ROUTES:
        assert set(route.refusals) <= set(TABLE), route.name


async def test_it_is_served_without_a_token(client: Client) -> None:
    reply = await client.get("/api/openapi.json", X_Workflowd_Namespace="default")
    assert reply.status == 200
    assert reply.json == json.loads(json.dumps(DOCUMENT))


# ---- what is described is read ------------------------------------------------------------------


def misfits(schema: Any) -> Any:
    """A value of a type that the schema does not allow."""
    kind = resolved(schema).get("type")
    return "no number, flag, list or object" if kind not in ("string", None) else {"a": 1}


@pytest.mark.parametrize(("method", "path", "route"), WITH_BODY)
async def test_every_described_field_is_looked_at(
    client: Client, method: str, path: str, route: Route
) -> None:
    assert route.body is not None
    target = path.replace("{id}", "default")
    good = {name: example(route.body.fields[name]) for name in route.body.required}
    for name, schema in route.body.properties.items():
        reply = await client.call(method, target, good | {name: misfits(schema)})
        assert reply.status == 400, f"{route.name}.{name}: {reply.content!r}"
        assert name in reply.json["error"], reply.json
    reply = await client.call(method, target, good | {"nobody": 1})
    assert (reply.status, reply.json["reason"]) == (400, "UNKNOWN_FIELD")
    for name in route.body.required:
        given = {key: value for key, value in good.items() if key != name}
        reply = await client.call(method, target, given)
        assert (reply.status, reply.json["reason"]) == (400, "INVALID_FIELD"), name


@pytest.mark.parametrize("kind", [kind for kind in COMMANDS if kind != "noop"])
def test_every_described_field_of_a_command_is_looked_at(kind: str, tmp_path: Path) -> None:
    takes = COMMANDS[kind].takes
    config = Config(data_dir=tmp_path)
    good = {name: example(takes.fields[name]) for name in takes.required} | {"type": kind}
    parse_command(good, "command", config)
    for name, schema in takes.properties.items():
        with pytest.raises(ApiError) as refused:
            parse_command(good | {name: misfits(schema)}, "command", config)
        assert f"command.{name}" in refused.value.message


def example(schema: Any) -> Any:
    schema = resolved(schema)
    if "enum" in schema:
        return schema["enum"][0]
    return {"string": "x", "integer": 1, "array": ["x"], "object": {}}[schema["type"]]


# ---- what is answered is described --------------------------------------------------------------


def problems(schema: Any, value: Any, where: str = "$") -> Iterator[str]:
    """How a value differs from its schema. Unlike a client, it minds what is not described."""
    schema = resolved(schema)
    if "oneOf" in schema or "anyOf" in schema:
        choices = schema.get("oneOf") or schema["anyOf"]
        if all(list(problems(choice, value)) for choice in choices):
            yield f"{where}: {value!r} is none of the choices"
        return
    kinds = schema.get("type", [])
    if kinds and not any(
        is_a(kind, value) for kind in ([kinds] if isinstance(kinds, str) else kinds)
    ):
        yield f"{where}: {value!r} is not {kinds}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not one of {schema['enum']}"
    told = isinstance(value, str) and "pattern" in schema
    if told and not re.search(schema["pattern"], value):
        yield f"{where}: {value!r} does not look like {schema['pattern']}"
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from problems(schema["items"], each, f"{where}[{number}]")
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        yield from (
            f"{where}: {name} is missing" for name in schema["required"] if name not in value
        )
        for name, each in value.items():
            if name in known:
                yield from problems(known[name], each, f"{where}.{name}")
            elif "description" not in schema:
                yield f"{where}: {name} is not described"


def is_a(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    types: dict[str, Any] = {
        "string": str,
        "integer": int,
        "number": int | float,
        "array": list,
        "object": dict,
        "null": type(None),
        "boolean": bool,
    }
    return isinstance(value, types[kind])


@pytest.mark.parametrize(
    ("golden", "shape"),
    [
        ("describe", "Run"),
        ("list", "RunPage"),
        ("runs", "Runs"),
        ("history", "HistoryPage"),
        ("workflow_task", "WorkflowTask"),
        ("activity_task", "ActivityTask"),
    ],
)
def test_answers_have_the_shapes_they_are_said_to_have(golden: str, shape: str) -> None:
    answer = json.loads((GOLDEN / f"{golden}.json").read_text())
    assert list(problems(SCHEMAS[shape], answer)) == []


async def test_so_do_answers_about_the_node(client: Client) -> None:
    for path, shape in (
        ("/api/health", "Health"),
        ("/api/ready", "Readiness"),
        ("/api/cluster", "Cluster"),
        ("/api/namespaces", "Namespaces"),
        ("/api/cluster/history", "ClusterHistory"),
        ("/api/queues", "Queues"),
        ("/api/workers", "Workers"),
        ("/api/nothing", "Error"),
        ("/api/workflows/nobody", "Error"),
    ):
        answer = (await client.get(path)).json
        assert list(problems(SCHEMAS[shape], answer, path)) == []
