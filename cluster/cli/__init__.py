"""The `raftflow` command."""

if __name__ != "raftflow.cluster.cli":
    raise ImportError("import this package as raftflow.cluster.cli")
