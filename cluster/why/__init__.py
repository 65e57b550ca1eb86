"""Why something does not go on: one chain of causes, each with what shows it and what to do."""

if __name__ != "raftflow.cluster.why":
    raise ImportError("import this package as raftflow.cluster.why")
