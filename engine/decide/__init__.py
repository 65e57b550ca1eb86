"""(state, command) -> events or a rejection; reads, never writes."""

if __name__ != "raftflow.engine.decide":
    raise ImportError("import this package as raftflow.engine.decide")
