"""The page at `/`: the static files of the dashboard, and the headers that guard them."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src {connect}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    content_type: str
    etag: str


class Page:
    """All files, read once: a node serves the page of its own version."""

    def __init__(self, root: Traversable | None = None) -> None:
        self._files: dict[str, StaticFile] = {}
        folder = root or files("raftflow.dashboard") / "static"
        if folder.is_dir():
            self._read(folder, "/")
        index = self._files.get("/index.html")
        if index is not None:
            self._files["/"] = index

    def find(self, path: str) -> StaticFile | None:
        return self._files.get(path)

    def headers(self, file: StaticFile, nodes: Iterable[str]) -> dict[str, str]:
        """``nodes`` are the origins of the members: the page may ask each of them."""
        connect = " ".join(["'self'", *nodes])
        return {
            "Content-Type": file.content_type,
            "ETag": file.etag,
            "Cache-Control": "no-cache",
            "Content-Security-Policy": _POLICY.format(connect=connect),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }

    def _read(self, folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                self._read(entry, f"{prefix}{entry.name}/")
            elif not entry.name.startswith("."):
                self._files[prefix + entry.name] = _load(entry)


def _load(entry: Traversable) -> StaticFile:
    content = entry.read_bytes()
    guessed = mimetypes.guess_type(entry.name)[0] or "application/octet-stream"
    if guessed.startswith("text/") or guessed.endswith("javascript"):
        guessed += "; charset=utf-8"
    return StaticFile(content, guessed, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
