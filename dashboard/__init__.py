"""The static files of the page."""

if __name__ != "raftflow.dashboard":
    raise ImportError("import this package as raftflow.dashboard")
