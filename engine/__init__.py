"""The pure heart: commands in, events, replies and effects out."""

if __name__ != "raftflow.engine":
    raise ImportError("import this package as raftflow.engine")
