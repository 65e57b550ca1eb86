"""The public contract."""

if __name__ != "raftflow.proto.workflow":
    raise ImportError("import this package as raftflow.proto.workflow")
