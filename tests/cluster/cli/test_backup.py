"""`raftflow backup` against a node that sends what it is told; tests/e2e has the real thing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner, Result
from populate import populate
from replica_rig import Rig

from raftflow.cluster.background import in_thread
from raftflow.cluster.backup.manifest import MANIFEST, STATE, Manifest
from raftflow.cluster.cli.main import cli


class Node:
    """Sends this content as a backup; `cut` breaks it off there."""

    def __init__(self, manifest: Manifest, content: bytes) -> None:
        self.manifest = manifest
        self.content = content
        self.cut: int | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        header = {"X-Raftflow-Backup": json.dumps(asdict(self.manifest))}
        response = web.StreamResponse(headers=header)
        await response.prepare(request)
        await response.write(self.content[: self.cut])
        if self.cut is not None:
            assert request.transport is not None
            request.transport.abort()
        return response


@pytest.fixture
async def node(tmp_path: Path) -> Any:
    rig = await Rig(tmp_path / "node").start()
    await populate(rig, ["a", "b"])
    copy = await rig.store.copy_to(rig.folder / "copy.db")
    await rig.stop()
    applied = copy.applied
    manifest = Manifest(
        cluster_id="shop",
        node_id="n1",
        version="0.4.0",
        feature_level=4,
        index=applied.index,
        term=applied.term,
        time_ms=applied.time_ms,
        digest=applied.digest.hex(),
        size=copy.size,
        sha256=copy.sha256,
        created_at="2026-11-30T07:13:00+00:00",
    )
    content = Path(copy.path).read_bytes()  # noqa: ASYNC240  a local file
    found = Node(manifest, content)
    app = web.Application()
    app.router.add_get("/api/cluster/backup", found.answer)
    async with TestServer(app) as server:
        found.address = f"127.0.0.1:{server.port}"  # type: ignore[attr-defined]
        yield found


async def run(*arguments: str) -> Result:
    return await in_thread(CliRunner().invoke, cli, ["backup", *arguments])


async def create(node: Any, where: str, *arguments: str) -> Result:
    return await run("create", where, "--address", node.address, *arguments)


@pytest.mark.parametrize("scheme", ["", "file://"])
async def test_created_listed_verified_restored(node: Any, tmp_path: Path, scheme: str) -> None:
    where = f"{scheme}{tmp_path}/kept"
    made = await create(node, where, "-o", "json")
    assert made.exit_code == 0, made.exception
    backup = json.loads(made.output)["backup"]
    assert backup.startswith(f"{where}/shop-20261130T071300Z-")
    listed = json.loads((await run("list", where, "-o", "json")).output)
    assert [each["backup"] for each in listed] == [backup]
    verified = await run("verify", backup, "-o", "json")
    assert verified.exit_code == 0, verified.exception
    assert json.loads(verified.output)["runs"] == 2
    data = tmp_path / "data"
    restored = await run("restore", backup, "--data-dir", str(data))
    assert restored.exit_code == 0, restored.exception
    assert (data / STATE).read_bytes() == node.content
    assert "begins after entry" in restored.output
    assert "--cluster-id shop here keeps the old one" in restored.output
    if not scheme:
        above = await run("verify", where)
        assert "`raftflow backup list` names those of a place" in str(above.exception)
    again = await run("restore", backup, "--data-dir", str(data))
    assert "is not empty" in str(again.exception)


async def test_what_breaks_off_leaves_no_backup(node: Any, tmp_path: Path) -> None:
    node.cut = 70_000
    result = await create(node, str(tmp_path / "kept"))
    assert result.exit_code != 0
    assert "broke off" in str(result.exception)
    assert list((tmp_path / "kept").rglob("*.*")) == []
    assert (await run("list", str(tmp_path / "kept"), "-o", "json")).output == "[]\n"


async def test_what_was_damaged_on_its_way_leaves_no_backup(node: Any, tmp_path: Path) -> None:
    node.content = node.content[:-1] + bytes([node.content[-1] ^ 1])
    result = await create(node, str(tmp_path / "kept"))
    assert "its SHA-256 is not the one in its manifest" in str(result.exception)
    assert list((tmp_path / "kept").rglob("*.*")) == []


async def test_a_damaged_backup_is_neither_verified_nor_restored(node: Any, tmp_path: Path) -> None:
    backup = json.loads((await create(node, str(tmp_path / "kept"), "-o", "json")).output)["backup"]
    state = Path(backup) / STATE
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    state.write_bytes(content)
    data = tmp_path / "data"
    for arguments in (("verify", backup), ("restore", backup, "--data-dir", str(data))):
        result = await run(*arguments)
        assert result.exit_code != 0
        assert "SHA-256" in str(result.exception)
        assert backup in str(result.exception)
    assert [path.name for path in data.iterdir()] == ["lock"], "as it was found"
    (Path(backup) / MANIFEST).unlink()
    assert "manifest.json" in str((await run("verify", backup)).exception)


async def test_a_manifest_that_cannot_be_read_hides_no_other(node: Any, tmp_path: Path) -> None:
    where = tmp_path / "kept"
    backup = json.loads((await create(node, str(where), "-o", "json")).output)["backup"]
    (where / "broken").mkdir()
    (where / "broken" / MANIFEST).write_text("{}")
    listed = json.loads((await run("list", str(where), "-o", "json")).output)
    assert [each["backup"] for each in listed] == [backup, f"{where}/broken"]
    said = (await run("list", str(where))).output
    assert backup in said
    assert f"{where}/broken: its manifest.json cannot be read" in said


async def test_the_old_id_is_kept_only_when_asked_for(node: Any, tmp_path: Path) -> None:
    backup = json.loads((await create(node, str(tmp_path / "kept"), "-o", "json")).output)["backup"]
    own = ("--cluster-id", "shop", "--data-dir", str(tmp_path / "data"))
    result = await run("restore", backup, *own)
    assert "WARNING: the new cluster has the id of the old one, shop" in result.output
