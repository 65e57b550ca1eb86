import pytest

from raftflow.cluster.consensus.types import NotLeader, Timing


def test_timing_is_validated() -> None:
    with pytest.raises(ValueError, match="three heartbeats"):
        Timing(heartbeat_ms=200)
    with pytest.raises(ValueError, match="more than election_min_ms"):
        Timing(election_max_ms=400)
    with pytest.raises(ValueError, match="at least 1"):
        Timing(heartbeat_ms=0)


def test_not_leader_says_who_is() -> None:
    assert NotLeader("b").leader == "b"
    assert "unknown" in str(NotLeader(None))
