"""Version 1 of the public contract."""

if __name__ != "raftflow.proto.workflow.v1":
    raise ImportError("import this package as raftflow.proto.workflow.v1")
