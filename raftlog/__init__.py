"""The durable, CRC32C-framed, segmented journal."""

if __name__ != "raftflow.raftlog":
    raise ImportError("import this package as raftflow.raftlog")
