"""schemathesis reads the published OpenAPI document and calls a real node by it, rightly and
wrongly, with runs of every status at hand: what is refused is refused as documented and changes
nothing."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote
from zlib import crc32

import pytest
import requests
import schemathesis
from fuzz_node import TYPE, FuzzNode, Stage
from hypothesis import HealthCheck, Phase, settings
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import positive_data_acceptance

from raftflow.cluster.api import openapi
from raftflow.cluster.api.decisions import MAX_SEQUENCE
from raftflow.cluster.api.json_routes import templates
from raftflow.cluster.api.status import TABLE
from raftflow.engine.ids import id_problem
from raftflow.engine.state import RunStatus

pytestmark = pytest.mark.cluster

DOCUMENT = openapi.document(templates())
# A stream of events has no end that could be read.
STREAMS = {route.name for _, methods in templates() for route in methods.values() if route.streams}
schema = schemathesis.openapi.from_dict(DOCUMENT, config=schemathesis.Config(seed=1)).exclude(
    operation_id=sorted(STREAMS)
)
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "30"))
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    # What failed may not fail again: the runs are others by then. The message has the call.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
# No schema can say them: they depend on what there is.
DEPENDS = {
    "TYPE_NOT_REGISTERED",
    "BAD_SEQUENCE",
    "INVALID_COMMAND",
    "LIMIT_EXCEEDED",
    "PAYLOAD_TOO_LARGE",
}
# A schema counts characters, and does not know what was given out.
UNSAID = ("bytes", "cursor is not one that a page gave out", "raft: ", "q goes with neither")
# Calls about sessions are right, and this node asks nobody for a token: it has none.
NO_SESSIONS = ("nothing ends", "asks nobody for a token")
LATER = {"UNAVAILABLE", "MAYBE_APPLIED"}
POLLS = {route.name for _, methods in templates() for route in methods.values() if route.polls}


@dataclass(slots=True, repr=False)
class Play:
    """The calls of one operation on a stage of their own."""

    node: FuzzNode
    stage: Stage
    session: requests.Session
    accepted: int = 0

    def call(self, case: Any) -> None:
        polls = case.operation.definition.raw["operationId"] in POLLS
        self.aim(case)
        named = self.named(case)
        try:
            response = case.call(
                base_url=f"http://{self.node.http}",
                session=self.session,
                timeout=0.1 if polls else 20.0,
            )
        except requests.Timeout:
            assert polls
            self.accepted += 1
            return
        case.validate_response(response, excluded_checks=[positive_data_acceptance])
        if response.status_code >= 400:
            must_be_documented(case, response)
            self.stage.refused(named)
            self.accepted += has_no_sessions(response)
        else:
            self.accepted += 1
            self.stage.accepted(named)

    def aim(self, case: Any) -> None:
        """Put what exists in the place of valid names that nothing has, three times out of four."""
        drawn = random.Random(crc32(repr((case.path_parameters, case.query, case.body)).encode()))
        if drawn.random() < 0.25:
            return
        if is_right(case, ParameterLocation.PATH) and "/workflows/{id}" in case.path:
            case.path_parameters["id"] = quote(drawn.choice(self.stage.ids), safe="")
        if is_right(case, ParameterLocation.QUERY) and "task_queue" in case.query:
            case.query["task_queue"] = self.stage.name
        if isinstance(case.body, dict):
            self.aim_body(case.body, drawn)

    def aim_body(self, body: dict[str, Any], drawn: random.Random) -> None:
        for token, held in (
            ("task_token", self.stage.decisions),
            ("lease_token", self.stage.activities),
        ):
            if is_id(body.get(token)) and is_id(body.get("workflow_id")):
                task = held[drawn.choice(list(held))]
                body["workflow_id"], body[token] = task["workflow_id"], task[token]
                if is_sequence(body.get("sequence")) and drawn.random() < 0.5:
                    body["sequence"] = task["sequence"]
        for name in ("type", "workflow_type"):
            if is_id(body.get(name)):
                body[name] = TYPE
        commands = [body.get("command"), *(body.get("commands") or [])]
        number = 0
        for command in commands:
            if isinstance(command, dict):
                if is_id(command.get("workflow_type")):
                    command["workflow_type"] = TYPE
                if is_sequence(command.get("sequence")):
                    number += 1
                    command["sequence"] = number

    def named(self, case: Any) -> str:
        body = case.body if isinstance(case.body, dict) else {}
        return unquote(str((case.path_parameters or {}).get("id") or body.get("workflow_id")))


def has_no_sessions(response: Any) -> bool:
    return any(each in response.text for each in NO_SESSIONS)


def is_right(case: Any, part: ParameterLocation) -> bool:
    described = case.meta.components.get(part)
    return described is not None and described.mode.is_positive


def is_id(value: Any) -> bool:
    return isinstance(value, str) and id_problem("", value) is None


def is_sequence(value: Any) -> bool:
    return isinstance(value, int) and 1 <= value <= MAX_SEQUENCE


def must_be_documented(case: Any, response: Any) -> None:
    if case.path == "/api/ready":
        return
    told = response.json()
    if response.request.method == "HEAD":
        return
    reason = told["reason"]
    assert TABLE[reason].http == response.status_code
    assert told["code"] == TABLE[reason].code.name
    assert response.status_code < 500 or reason in LATER, told
    if response.status_code == 400 and case.meta.generation.mode.is_positive:
        beyond = reason in DEPENDS or any(each in told["error"] for each in UNSAID)
        beyond = beyond or has_no_sessions(response)
        assert beyond, f"by the document this is right: {told}"


@pytest.fixture
def play(node: FuzzNode) -> Iterator[Play]:
    with requests.Session() as session:
        made = Play(node, node.stage(), session)
        yield made
    assert made.accepted, "no call was right: what is wrong in the others is not the point"
    made.stage.must_be_unchanged()
    made.stage.must_be_pending()
    node.must_be_well()


@schema.parametrize()
@fuzzed
def test_calls_are_answered_as_documented(case: Any, play: Play) -> None:
    play.call(case)


def test_a_stage_has_a_run_in_every_status(node: FuzzNode) -> None:
    stage = node.stage()
    listed = stage.call("GET", f"/api/workflows?limit=1000&task_queue={stage.name}")["workflows"]
    assert {run["status"] for run in listed} == set(RunStatus.__members__)


def test_the_document_is_the_published_one(node: FuzzNode) -> None:
    published = requests.get(f"http://{node.http}/api/openapi.json", timeout=10)
    assert published.json() == json.loads(json.dumps(DOCUMENT))
