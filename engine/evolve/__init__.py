"""(state, event) -> state; the only code that changes state."""

if __name__ != "raftflow.engine.evolve":
    raise ImportError("import this package as raftflow.engine.evolve")
