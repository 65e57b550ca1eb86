"""Version 1 of entries, state and peer messages."""

if __name__ != "raftflow.proto.raftflow.internal.v1":
    raise ImportError("import this package as raftflow.proto.raftflow.internal.v1")
