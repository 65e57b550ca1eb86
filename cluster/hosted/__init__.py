"""Workflows that the node itself replays."""

if __name__ != "raftflow.cluster.hosted":
    raise ImportError("import this package as raftflow.cluster.hosted")
