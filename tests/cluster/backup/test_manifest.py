from __future__ import annotations

import json
from dataclasses import replace

import pytest

from raftflow.cluster.backup.manifest import BackupError, Manifest, decode, encode
from raftflow.engine.commands import FEATURE_LEVEL

MANIFEST = Manifest(
    cluster_id="shop",
    node_id="n2",
    version="0.4.0",
    feature_level=FEATURE_LEVEL,
    index=1234,
    term=5,
    time_ms=99,
    digest="ab" * 16,
    size=4096,
    sha256="cd" * 32,
    created_at="2026-11-30T07:13:00+00:00",
)


def test_what_is_written_is_read() -> None:
    assert decode(encode(MANIFEST)) == MANIFEST


def test_names_sort_as_backups_were_made() -> None:
    assert MANIFEST.name == "shop-20261130T071300Z-000000001234"
    later = replace(MANIFEST, index=9, created_at="2026-12-01T00:00:00+00:00")
    assert later.name > MANIFEST.name


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b"{" * 100_000, "cannot be read"),
        (json.dumps({"format": 2}).encode(), "has format 2, this release reads 1"),
        (encode(MANIFEST).replace(b"1234", b'"x"'), "index is not int"),
        (encode(MANIFEST).replace(b'"term"', b'"other"'), "cannot be read"),
        (encode(MANIFEST).replace(b"shop", b"../../etc"), "cluster_id or created_at is none"),
        (encode(MANIFEST).replace(b"T07", b"/07"), "cluster_id or created_at is none"),
    ],
)
def test_what_is_no_manifest_is_told(content: bytes, said: str) -> None:
    with pytest.raises(BackupError, match=said):
        decode(content)


def test_a_later_release_is_needed_for_what_it_wrote() -> None:
    MANIFEST.require_readable()
    with pytest.raises(BackupError, match="use that release, or a later one"):
        replace(MANIFEST, feature_level=FEATURE_LEVEL + 1).require_readable()
