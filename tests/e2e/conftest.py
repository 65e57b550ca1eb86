"""Fixtures of the end-to-end tests: real nodes, real workers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dev_cluster import DevCluster, dev_cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DevCluster]:
    with dev_cluster(tmp_path / "cluster") as running:
        yield running
