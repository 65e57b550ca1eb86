"""Backups: one copy of the state at one entry, taken from a running cluster, put where it is kept,
judged, and turned into the first directories of another cluster."""

if __name__ != "raftflow.cluster.backup":
    raise ImportError("import this package as raftflow.cluster.backup")
