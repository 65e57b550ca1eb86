"""The static files of the page."""

from pathlib import Path

if __name__ != "raftflow.dashboard":
    raise ImportError("import this package as raftflow.dashboard")


def static_dir() -> Path:
    """The directory with index.html, which the node serves at /, and the files beside it."""
    return Path(__file__).parent / "static"
