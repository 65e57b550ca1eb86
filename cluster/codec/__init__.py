"""The only map between protobuf messages and the engine's types."""

if __name__ != "raftflow.cluster.codec":
    raise ImportError("import this package as raftflow.cluster.codec")
