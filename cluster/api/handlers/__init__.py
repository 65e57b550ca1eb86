"""What the calls do, whatever carried them: the JSON routes and the gRPC service share it."""

if __name__ != "raftflow.cluster.api.handlers":
    raise ImportError("import this package as raftflow.cluster.api.handlers")
