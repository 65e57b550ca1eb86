"""What nodes say among themselves."""

if __name__ != "raftflow.proto.raftflow":
    raise ImportError("import this package as raftflow.proto.raftflow")
