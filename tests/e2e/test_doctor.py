"""`raftflow doctor` on a real cluster: well, with a dead node, with a row taken away."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from dev_cluster import DevCluster, dev_cluster, wait_for

pytestmark = pytest.mark.cluster


def doctor(cluster: DevCluster, node_id: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "raftflow.cluster.cli.main", "doctor"),
            *("--address", cluster.http(node_id), *flags),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def told(cluster: DevCluster, node_id: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(doctor(cluster, node_id, "-o", "json").stdout)
    return report


def metric(cluster: DevCluster, node_id: str, line: str) -> float:
    address = str(cluster.entry(node_id)["metrics"]).removeprefix("http://")
    with urllib.request.urlopen(f"http://{address}/metrics") as answer:
        text = answer.read().decode()
    return next(float(each.split()[-1]) for each in text.splitlines() if each.startswith(line))


def test_a_row_that_was_taken_away_is_found_and_shown(tmp_path: Path) -> None:
    with dev_cluster(tmp_path / "cluster") as cluster:
        types = {"workflow_types": ["Idle"], "worker_id": "t"}
        cluster.call("n1", "POST", "/api/workflow-types", types)
        for number in range(30):
            body = {
                "type": "Idle",
                "workflow_id": f"w{number}",
                "execution_timeout_ms": 3_600_000,
            }
            cluster.call("n1", "POST", "/api/workflows", body)
        cluster.wait_all_serve()
        # A machine that is busy just now is told of, as advice.
        wait_for("all is well", lambda: "nothing is wrong" in doctor(cluster, "n1").stdout)
        well = doctor(cluster, "n2")
        assert well.returncode == 0
        assert well.stdout.count(" same ") == 3

        node_id = cluster.followers()[0]
        cluster.kill(node_id)
        other = cluster.leader()
        dead = told(cluster, other)
        assert not dead["healthy"]
        assert [each["node"] for each in dead["findings"]] == [node_id]
        assert dead["findings"][0]["check"] == "reach"

        db = sqlite3.connect(Path(cluster.entry(node_id)["data_dir"]) / "state.db")
        [run_id] = db.execute("SELECT run_id FROM runs WHERE workflow_id = 'w17'").fetchone()
        gone = "DELETE FROM timers WHERE run_no IN (SELECT run_no FROM runs WHERE run_id = ?)"
        db.execute(gone, [run_id])
        db.commit()
        db.close()
        cluster.start_node(node_id)

        def shown() -> list[dict[str, Any]]:
            findings = told(cluster, other)["findings"]
            return [each for each in findings if "w17" in each["problem"]]

        [finding] = wait_for("the doctor shows it", shown)
        assert finding["severity"] == "problem"
        assert finding["node"] == node_id
        assert run_id in finding["problem"]
        sick = doctor(cluster, other)
        assert sick.returncode == 1
        assert "timers: workflow w17" in sick.stdout
        assert "next:" in sick.stdout
        assert "1 problem found" in sick.stderr
        violations = 'workflowd_invariant_violations_total{invariant="timers"}'
        assert metric(cluster, node_id, violations) == 1
        assert metric(cluster, node_id, "workflowd_invariant_checks_total") > 30
        said = (cluster.directory / f"{node_id}.log").read_text()
        [line] = [each for each in said.splitlines() if "invariant_violated" in each]
        assert json.loads(line)["run_id"] == run_id
        # The run's other nodes, and the other runs, are as they were.
        others = [each for each in cluster.ids() if each != node_id]
        assert {metric(cluster, each, violations) for each in others} == {0}
