"""The node: all I/O, clocks and threads."""

if __name__ != "raftflow.cluster":
    raise ImportError("import this package as raftflow.cluster")
