"""A smaller benchmarks/fan_out.py: every activity has exactly one result, whoever is killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from dev_cluster import dev_cluster
from fan_out import ENVIRONMENT, fan_out

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("seed", [1])
def test_a_fan_out_has_exactly_one_result_each(tmp_path: Path, seed: int) -> None:
    with dev_cluster(tmp_path / "cluster", environment=ENVIRONMENT) as cluster:
        outcome = fan_out(cluster, count=200, work_ms=150, kill_every_s=0.5, seed=seed)
    assert outcome.problems == []
    assert outcome.workers_killed >= 1
    assert outcome.leader
