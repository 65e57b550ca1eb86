"""A service of compose.yaml or of a stack as a machine: what Docker makes of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.deploy.image import image
from tests.deploy.machines import ROOT, UID, Machine, Mount


def container(
    name: str,
    service: Mapping[str, Any],
    volumes: Path,
    *,
    secrets: Mapping[str, Path] | None = None,
) -> Machine:
    """One container of the service. A named volume is a directory in ``volumes``; ``secrets`` are
    the files of those that the service may have."""
    known = image()
    entrypoint = service.get("entrypoint") or known.entrypoint
    # Its own entrypoint takes away the image's command.
    command = service.get("command") or (() if service.get("entrypoint") else known.command)
    mounts = [_volume(each, volumes) for each in service.get("volumes", ())]
    mounts += [Mount(target=each.partition(":")[0]) for each in service.get("tmpfs", ())]
    mounts += [
        _secret(each, (secrets or {})[each["source"]], volumes / "handed-out" / name)
        for each in service.get("secrets", ())
    ]
    aliases = [
        alias
        for network in (service.get("networks") or {}).values()
        for alias in (network or {}).get("aliases", ())
    ]
    return Machine(
        name=name,
        names=(service.get("hostname", name), *aliases),
        argv=(*entrypoint, *command),
        environment=known.environment | (service.get("environment") or {}),
        mounts=tuple(mounts),
        user=int(service.get("user", known.user)),
        read_only=service["read_only"],
        beside=known.files,
    )


def probing(node: Machine) -> Machine:
    """The health check of the image, in the container of the node."""
    return replace(node, argv=image().health)


def _volume(mount: Mapping[str, Any], volumes: Path) -> Mount:
    """A new volume has the owner of the directory in the image, on which it lies."""
    if mount["type"] == "bind":
        file = (ROOT / "deploy" / mount["source"]).resolve()
        return Mount(target=mount["target"], source=str(file), read_only=mount["read_only"])
    directory = volumes / mount["source"]
    if not directory.exists():
        directory.mkdir(mode=0o700, parents=True)
        os.chown(directory, UID, UID)
    return Mount(
        target=mount["target"],
        source=str(directory / mount.get("volume", {}).get("subpath", "")),
        read_only=mount.get("read_only", False),
    )


def _secret(secret: Mapping[str, Any], file: Path, place: Path) -> Mount:
    """Swarm hands out copies, with the owner and the mode that the service asks for."""
    place.mkdir(parents=True, exist_ok=True)
    copy = place / secret["target"]
    shutil.copy(file, copy)
    os.chown(copy, int(secret["uid"]), int(secret["gid"]))
    copy.chmod(secret["mode"])
    return Mount(target=f"/run/secrets/{secret['target']}", source=str(copy))
