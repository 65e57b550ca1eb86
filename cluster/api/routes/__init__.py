"""The calls of the JSON API, one noun a module: how a request is read and answered."""

if __name__ != "raftflow.cluster.api.routes":
    raise ImportError("import this package as raftflow.cluster.api.routes")
