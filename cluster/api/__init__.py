"""What every node serves: JSON, gRPC and the page."""

if __name__ != "raftflow.cluster.api":
    raise ImportError("import this package as raftflow.cluster.api")
