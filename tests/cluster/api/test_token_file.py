"""The file of tokens that a node knows by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from raftflow.cluster.api import token_file
from raftflow.cluster.errors import StartRefused
from raftflow.engine.commands import Role

ADMIN = "the-operators-own-token"
SHOP = "the-token-of-the-shop"


def written(directory: Path, text: str) -> str:
    file = directory / "tokens"
    file.write_text(text)
    return str(file)


def test_what_a_line_says(tmp_path: Path) -> None:
    text = f"# operators\n{ADMIN}\n\n  {SHOP}   namespace=shop role=viewer  name=tv\n"
    lines = token_file.load(written(tmp_path, text))
    assert [(each.name, each.role, each.namespace) for each in lines] == [
        ("file:2", Role.ADMIN, ""),
        ("file:tv", Role.VIEWER, "shop"),
    ]
    assert token_file.find(lines, SHOP) is lines[1]
    assert token_file.find(lines, SHOP + "x") is None
    assert SHOP not in repr(lines)
    assert lines[1].parent.startswith("file:tv:")
    assert len(lines[1].parent) == len("file:tv:0000")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# nothing\n", "it has no token"),
        ("short\n", "line 1: a token is 16 or more"),
        (f"{ADMIN}\n{ADMIN} namespace=a\n", "line 2: stands twice"),
        (f"{ADMIN} scope=a\n", "only name=NAME, namespace=NAME and role=ROLE"),
        (f"{ADMIN} namespace=a namespace=b\n", "may stand, once"),
        (f"{ADMIN} namespace=\n", "namespace must not be empty"),
        (f"{ADMIN} name=\n", "name must not be empty"),
        (f"{ADMIN} role=root\n", "role must be one of viewer, user, admin, worker"),
        (f"{ADMIN} name=a\n{SHOP} name=a\n", "line 2: another line has its name"),
        ("tökens-are-of-ascii-only\n", "ASCII"),
    ],
)
def test_a_bad_file_is_refused_and_not_shown(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(StartRefused, match=problem) as refused:
        token_file.load(written(tmp_path, text))
    for word in text.split():
        assert len(word) < 10 or word not in str(refused.value)


def test_a_file_that_is_missing_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="No such file"):
        token_file.load(str(tmp_path / "none"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(StartRefused, match="not UTF-8"):
        token_file.load(str(tmp_path / "bytes"))


@pytest.mark.parametrize(
    ("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True), (0o602, True)]
)
def test_a_file_that_everybody_can_read_is_told_of(tmp_path: Path, mode: int, warned: bool) -> None:
    file = Path(written(tmp_path, f"{ADMIN}\n"))
    file.chmod(mode)
    with structlog.testing.capture_logs() as logged:
        token_file.load(str(file))
    events = [(each["event"], each["log_level"], each["mode"]) for each in logged]
    assert events == ([("auth_token_file_exposed", "warning", f"{mode:04o}")] if warned else [])
