"""What a process has open, and may have open."""

from __future__ import annotations

import resource
import tempfile

from raftflow.cluster.process_facts import Connections, process_facts


def test_files_and_connections() -> None:
    before = process_facts(None)
    assert before.connections is None
    assert before.open_files_limit == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert before.open_files is not None
    with tempfile.TemporaryFile():
        after = process_facts(Connections(open=3, most=100, wanted=4_096))
    assert after.open_files == before.open_files + 1
    assert (after.connections, after.connections_limit, after.connections_wanted) == (3, 100, 4_096)
