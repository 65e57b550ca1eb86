"""Whatever a caller sends, the answer is never a 500, and the next call works."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from engine_harness import EngineHarness
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ports import free_ports
from single_node import SingleNode, config_for, services

from raftflow.cluster.api import json_routes
from raftflow.cluster.api.auth import ANYBODY
from raftflow.cluster.api.json_routes import templates
from raftflow.cluster.api.routes.request import Request, Route
from raftflow.cluster.api.status import TABLE, of_exception
from raftflow.cluster.api.watch import Watch
from raftflow.engine.commands import RegisterTypes

ROUTES = [
    (method, route)
    for _, methods in templates()
    for method, route in methods.items()
    if route.name not in ("DescribeCluster", "WatchCluster")
]
FIELDS = [
    name
    for line in (
        "type workflow_id input input_base64 execution_timeout_ms id_reuse_policy task_queue",
        "id_conflict_policy request_id run_id name payload payload_base64 reason graceful",
        "workflow_types worker_id sdk task_token command commands replay_error step_name",
        "replay_error_kind sequence lease_token output output_base64 error error_type",
        "non_retryable next_retry_delay_ms details retention_ms search_attributes delay_ms",
        "signal_name retry_policy max_attempts initial_backoff_ms backoff_coefficient",
        "non_retryable_error_types cancelled jitter memo signal attributes marker data priority",
        "data_base64 workflow_type parent_close_policy role namespaces sees_payloads",
        "lifetime_ms token",
    )
    for name in line.split()
]
PARAMETERS = (
    *("status", "q", "type", "limit", "offset", "cursor", "from", "wait", "format", "max"),
    *("run_id", "request_id", "attr.a", "attr.", "order", "actor", "after", "before"),
)
WORDS = [
    "",
    "Order",
    "order-1",
    "schedule_activity",
    "start_timer",
    "await_signal",
    "complete_workflow",
    "fail_workflow",
    "noop",
    "record_marker",
    "start_child_workflow",
    "cancel_step",
    "upsert_search_attributes",
    "admin",
    "oldest",
    "continue_as_new",
    "version",
    "ALLOW_DUPLICATE",
    "USE_EXISTING",
    "YQ==",
    "\ud800",
    "a\x00",
    "rf1.ZGVmYXVsdA.r.1.n",
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(st.characters(), max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6)
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from(FIELDS), values, max_size=8)
bodies = objects.map(lambda body: json.dumps(body).encode()) | st.binary(max_size=40)
queries = st.dictionaries(
    st.sampled_from(PARAMETERS),
    st.sampled_from(["", "0", "1", "x", "RUNNING", "-1", "%ff", "9" * 30, "binary", "²"]),
    max_size=3,
).map(lambda query: "&".join(f"{name}={value}" for name, value in query.items()))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> SingleNode:
    made = SingleNode(harness=EngineHarness())
    made.apply(RegisterTypes(namespace="default", workflow_types=("Order",)))
    made.config = config_for(free_ports(3), Path(tmp_path_factory.mktemp("data")))
    return made


async def ask(node: SingleNode, route: Route, body: bytes, query: str) -> Any:
    ports = services(node, node.config)
    ports.tokens.follow(node, node)
    request = Request(ports, Watch(), route, ANYBODY, "default", "order-1", query, {}, body)
    try:
        async with asyncio.timeout(0.005):
            answer = await route.handler(request)
            return answer.status
    except TimeoutError:
        return 204  # a poll that waits
    except Exception as problem:  # noqa: BLE001  # of any kind: that is the question
        error = of_exception(problem)
        assert error is not None, f"{route.name} fell over {body!r} {query!r}"
        assert error.reason in TABLE
        json.dumps(error.body()).encode("ascii")
        return error.situation.http


@pytest.mark.slow
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(ROUTES), bodies, queries)
def test_no_call_falls_over(
    node: SingleNode, route: tuple[str, Route], body: bytes, query: str
) -> None:
    status = asyncio.run(ask(node, route[1], body, query))
    assert status < 500


@pytest.mark.parametrize("path", ["/api/workflows/%ff", "/api/workflows/%00", "/api/workflows//"])
def test_paths_that_are_no_ids(path: str) -> None:
    with pytest.raises(json_routes.ApiError) as refused:
        json_routes.match(path)
    assert refused.value.situation.http in (400, 404)
