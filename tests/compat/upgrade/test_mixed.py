"""Nodes of two releases beside each other, whoever leads; and what going back does."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from dev_cluster import HttpError, wait_for, workflow_path
from google.rpc import error_details_pb2, status_pb2
from mixed_cluster import TREE, MixedCluster, mixed_cluster
from upgrade_load import load

from raftflow.proto.workflow.v1 import service_pb2 as pb
from raftflow.proto.workflow.v1.service_pb2_grpc import WorkflowServiceStub

pytestmark = pytest.mark.cluster

COMPARED = "workflowd_state_digest_compared_index"
# Why a node that goes back stops: it cannot open the store.
TOO_OLD = {
    release: f"its schema version is 3, this program knows {known}"
    for release, known in (("0.1.0", 1), ("0.2.0", 2), ("0.3.0", 2))
}
# Of these an old node says that it was asked for what it does not know.
MISUNDERSTOOD = ("peer_push_refused", "peer_handler_failed", "bad_message", "malformed_hello")


@pytest.mark.parametrize(
    ("release", "new"),
    [("0.1.0", ("n1",)), ("0.2.0", ("n2", "n3")), ("0.3.0", ("n1",)), ("0.4.0", ("n2",))],
)
def test_either_leads_the_other(tmp_path: Path, release: str, new: tuple[str, ...]) -> None:
    with mixed_cluster(tmp_path / "cluster") as cluster:
        releases = {node_id: TREE if node_id in new else release for node_id in cluster.ids}
        for node_id in [each for each in cluster.ids if each not in new]:
            cluster.start(node_id, release)  # they are there first: the log is of their level
        for node_id in new:
            cluster.start(node_id)
        for node_id in cluster.ids:
            cluster.wait_serving(node_id)
        with load(cluster, release) as work:
            for leader in (new[0], next(each for each in cluster.ids if each not in new)):
                cluster.make_lead(leader)
                work.progress(20)
                cluster.all_run()
            work.stop_starting()
            for node_id, of in releases.items():
                if of == TREE:
                    wait_for(
                        "old and new nodes compare their states",
                        lambda node_id=node_id: cluster.gauge(node_id, COMPARED) >= 64,
                    )
                    assert cluster.gauge(node_id, "workflowd_state_digest_disputes") == 0
        cluster.wait_equal()
        cluster.all_run()
        for node_id in cluster.ids:
            said = cluster.log(node_id)
            assert not [each for each in MISUNDERSTOOD if each in said], said[-3_000:]


def refused_by_grpc(cluster: MixedCluster, node_id: str, memo: str) -> dict[str, str]:
    """The details of the refusal."""
    with grpc.insecure_channel(cluster.grpc(node_id)) as channel:
        request = pb.StartWorkflowRequest(type="Memo", workflow_id="by-grpc", memo=memo)
        with pytest.raises(grpc.RpcError) as refused:
            WorkflowServiceStub(channel).StartWorkflow(request, timeout=10)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION, refused.value
    details = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    info = error_details_pb2.ErrorInfo()
    assert status_pb2.Status.FromString(details).details[0].Unpack(info)
    return {"reason": info.reason, **info.metadata}


def test_what_is_new_waits_for_the_last_node(tmp_path: Path) -> None:
    """A decision that uses it gives its task back, and goes through when the last node is there."""
    with mixed_cluster(tmp_path / "cluster") as cluster:
        for node_id in ("n1", "n2"):
            cluster.start(node_id, "0.1.0")
        cluster.start("n3")
        for node_id in cluster.ids:
            cluster.wait_serving(node_id)
        cluster.call("n3", "POST", "/api/workflow-types", {"workflow_types": ["Memo", "Parent"]})
        assert refused_by_grpc(cluster, "n3", '{"a": 1}') == {
            "reason": "FEATURE_UNAVAILABLE",
            "feature": "memos",
            "needs_level": "2",
            "level": "1",
            "held_back_by": "n1,n2",
        }
        cluster.call("n3", "POST", "/api/workflows", {"type": "Parent", "workflow_id": "p"})
        child = {"type": "start_child_workflow", "workflow_type": "Memo", "step_name": "c"}
        assert decide(cluster, "n3", "p", child | {"sequence": 1}) == "FEATURE_UNAVAILABLE"
        for node_id in ("n1", "n2"):
            assert cluster.stop(node_id) == 0
            cluster.start(node_id)
            cluster.wait_ready(node_id)
        body = {"type": "Memo", "workflow_id": "by-json", "memo": {"a": 1}}
        cluster.call("n3", "POST", "/api/workflows", body)
        assert decide(cluster, "n1", "p", child | {"sequence": 1}) == ""
        wait_for(
            "the child runs",
            lambda: cluster.call("n2", "GET", "/api/workflows?type=Memo")["total"] == 2,
        )


def decide(cluster: MixedCluster, node_id: str, workflow_id: str, command: dict) -> str:
    """Answer the run's task with this command; the reason why that was refused, or nothing."""
    path = "/api/workflow-tasks?worker_id=w"
    task = wait_for("a task", lambda: cluster.call(node_id, "GET", path))
    assert task["workflow_id"] == workflow_id
    body = {"workflow_id": workflow_id, "task_token": task["task_token"], "commands": [command]}
    try:
        cluster.call(node_id, "POST", "/api/workflow-tasks/complete", body)
    except HttpError as error:
        return str(error.body["reason"])
    return ""


@pytest.mark.parametrize("release", TOO_OLD)
def test_a_node_that_goes_back_stops_and_harms_nothing(tmp_path: Path, release: str) -> None:
    with mixed_cluster(tmp_path / "cluster") as cluster:
        cluster.start_all()
        cluster.call("n1", "POST", "/api/workflow-types", {"workflow_types": ["Kept"]})
        started = [f"k-{number}" for number in range(6)]
        for workflow_id in started[:3]:
            start(cluster, "n2", workflow_id)
        assert cluster.stop("n3") == 0
        cluster.start("n3", release)
        for workflow_id in started[3:]:
            start(cluster, "n2", workflow_id)
        assert cluster.ended("n3") in (70, 78)
        said = cluster.log("n3")
        assert TOO_OLD[release] in said, said[-2_000:]
        cluster.start("n3")
        cluster.wait_serving("n3")
        cluster.wait_equal()
        for node_id in cluster.ids:
            for workflow_id in started:
                assert cluster.call(node_id, "GET", workflow_path(workflow_id))


def test_a_cluster_that_goes_back_stops_and_harms_nothing(tmp_path: Path) -> None:
    with mixed_cluster(tmp_path / "cluster") as cluster:
        cluster.start_all()
        cluster.call("n1", "POST", "/api/workflow-types", {"workflow_types": ["Kept"]})
        start(cluster, "n2", "kept")
        cluster.wait_equal()
        for node_id in cluster.ids:
            cluster.kill(node_id)  # the last entries are to be applied again
        for node_id in cluster.ids:
            cluster.start(node_id, "0.3.0")
        for node_id in cluster.ids:
            assert cluster.ended(node_id) in (70, 78)
            assert TOO_OLD["0.3.0"] in cluster.log(node_id)
        cluster.close()
        cluster.start_all()
        assert cluster.call("n1", "GET", workflow_path("kept"))["status"] == "WAITING"
        start(cluster, "n2", "after")
        cluster.wait_equal()


def test_a_cluster_goes_back_to_0_4_node_by_node(tmp_path: Path) -> None:
    """0.5 writes what 0.4 reads."""
    with mixed_cluster(tmp_path / "cluster") as cluster:
        cluster.start_all()
        cluster.call("n1", "POST", "/api/workflow-types", {"workflow_types": ["Kept"]})
        for node_id in cluster.ids:
            start(cluster, node_id, f"before-{node_id}")
            cluster.kill(node_id)  # its last entries are to be applied again
            cluster.start(node_id, "0.4.0")
            cluster.wait_ready(node_id)
        for node_id in cluster.ids:
            start(cluster, node_id, f"after-{node_id}")
            for workflow_id in (f"{when}-{node_id}" for when in ("before", "after")):
                assert cluster.call("n1", "GET", workflow_path(workflow_id))["status"] == "WAITING"
        cluster.wait_equal()


def start(cluster: MixedCluster, node_id: str, workflow_id: str) -> None:
    body = {"type": "Kept", "workflow_id": workflow_id, "request_id": workflow_id}
    cluster.call(node_id, "POST", "/api/workflows", body)
