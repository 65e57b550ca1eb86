"""What the calls do, whatever carried them: the JSON routes and the gRPC service share it."""

if __name__ != "raftflow.cluster.api.handlers":
    raise ImportError("import raftflow.cluster.api.handlers: one module has one name")
