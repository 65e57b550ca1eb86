"""What only the leader does: timers, leases, matching."""

if __name__ != "raftflow.cluster.leader":
    raise ImportError("import this package as raftflow.cluster.leader")
