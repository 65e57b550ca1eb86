"""Raft: PySyncObj, hardened, behind one interface."""

if __name__ != "raftflow.cluster.consensus":
    raise ImportError("import this package as raftflow.cluster.consensus")
