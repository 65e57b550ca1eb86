"""docs/why.md explains every cause, and no other; each is named somewhere."""

import re
from pathlib import Path

from raftflow.cluster.why.causes import Cause

ROOT = Path(__file__).resolve().parents[3]


def test_the_documentation_has_each_cause() -> None:
    text = (ROOT / "docs" / "why.md").read_text()
    assert set(re.findall(r"^\| `([a-z_]+)` \|", text, re.M)) == set(Cause)


def test_each_cause_is_named_by_some_function() -> None:
    package = ROOT / "cluster" / "why"
    code = "".join(path.read_text() for path in package.glob("*.py") if path.stem != "causes")
    assert [cause.name for cause in Cause if f"Cause.{cause.name}" not in code] == []
