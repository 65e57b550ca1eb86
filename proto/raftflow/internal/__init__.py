"""Never seen by clients."""

if __name__ != "raftflow.proto.raftflow.internal":
    raise ImportError("import this package as raftflow.proto.raftflow.internal")
