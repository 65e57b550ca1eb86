"""Bytes that must stay: `pytest --rewrite` records those of new messages.

A change of a recorded line is a change of a format that is on disks and wires: never rewrite one.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "cluster" / "codec" / "golden"


def check_golden(file: str, name: str, content: bytes, *, rewrite: bool) -> None:
    """Compare with the line ``name`` of the golden ``file``."""
    path = FOLDER / f"{file}.txt"
    lines = dict(line.split() for line in path.read_text().splitlines()) if path.exists() else {}
    if name not in lines and rewrite:
        lines[name] = content.hex()
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{key} {value}\n" for key, value in sorted(lines.items())))
    assert name in lines, f"{name} is not in {path.name}; --rewrite records it"
    assert lines[name] == content.hex(), f"the bytes of {name} have changed"
