"""What a backup says of itself: `manifest.json`, written last. Where it is, the rest is whole."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

from raftflow.cluster.config import ID_PATTERN
from raftflow.engine.commands import FEATURE_LEVEL

MANIFEST = "manifest.json"
STATE = "state.db"
FORMAT = 1
# Like the cluster's id it becomes part of a path.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")


class BackupError(Exception):
    """The backup cannot be made, is not whole, or cannot be used here; says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`index`, `term`, `time_ms` and `digest` are those of the last entry that the copy holds;
    `time_ms` is log time, `created_at` the wall clock of the node that made it."""

    format: int = FORMAT
    cluster_id: str
    node_id: str
    version: str
    feature_level: int
    index: int
    term: int
    time_ms: int
    digest: str
    size: int
    sha256: str
    created_at: str

    @property
    def name(self) -> str:
        """By time, then by entry: names sort as the backups were made."""
        moment = self.created_at[:19].replace("-", "").replace(":", "")
        return f"{self.cluster_id}-{moment}Z-{self.index:012d}"

    def require_readable(self) -> None:
        """Raises BackupError when a newer release has written what this one does not know."""
        if self.feature_level > FEATURE_LEVEL:
            raise BackupError(
                f"the backup is of release {self.version} (feature level {self.feature_level}),"
                f" this program knows level {FEATURE_LEVEL}: use that release, or a later one"
            )


def encode(manifest: Manifest) -> bytes:
    return json.dumps(asdict(manifest), indent=2).encode() + b"\n"


def decode(content: bytes) -> Manifest:
    """Raises BackupError."""
    try:
        fields = json.loads(content)
        if fields["format"] != FORMAT:
            raise BackupError(
                f"the backup has format {fields['format']!r}, this release reads {FORMAT}: use the"
                " release that made it, or a later one"
            )
        kinds = Manifest.__annotations__
        values = {name: fields[name] for name in kinds}
        for name, kind in kinds.items():
            if type(values[name]) is not (int if kind == "int" else str):
                raise ValueError(f"{name} is not {kind}")
        if not ID_PATTERN.fullmatch(values["cluster_id"]) or not _TIME.fullmatch(
            values["created_at"]
        ):
            raise ValueError("cluster_id or created_at is none")
        return Manifest(**values)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BackupError(f"its {MANIFEST} cannot be read: {error!r}; take another one") from None
