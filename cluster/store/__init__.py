"""The materialised state in SQLite."""

if __name__ != "raftflow.cluster.store":
    raise ImportError("import this package as raftflow.cluster.store")
