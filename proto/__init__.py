"""The bytes on the wire and on disk."""

if __name__ != "raftflow.proto":
    raise ImportError("import this package as raftflow.proto")
