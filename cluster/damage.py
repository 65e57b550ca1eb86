"""Damaged data of one node: noted before the process ends, set aside when it starts again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import structlog

from raftflow.cluster.durable import replace_durably, sync_directory

log = structlog.get_logger("raftflow.damage")

MARKER = "damaged.json"
FOLDER = "damaged"
_STATE_FILES = ("state.db", "state.db-wal", "state.db-shm")


class Part(StrEnum):
    LOG = "log"
    STATE = "state"


def note(data_dir: Path, part: Part, reason: str) -> None:
    """Durably, so that the next start repairs what this process has found."""
    found = noted(data_dir) | {part: reason}
    replace_durably(str(data_dir / MARKER), json.dumps(found, indent=2).encode())


def noted(data_dir: Path) -> dict[str, str]:
    try:
        found = json.loads((data_dir / MARKER).read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        found = None  # rot has come here too: then nothing is trusted
    if not isinstance(found, dict):
        return dict.fromkeys(Part, f"{MARKER} cannot be read")
    return {str(part): str(reason) for part, reason in found.items()}


def clear(data_dir: Path) -> None:
    """What was noted is whole again."""
    if (data_dir / MARKER).exists():
        (data_dir / MARKER).unlink()
        sync_directory(str(data_dir))


def set_aside_state(data_dir: Path, reason: str) -> None:
    """The node goes on without a state, as if it had never had one."""
    folder = _new_folder(data_dir)
    for name in _STATE_FILES:
        if (data_dir / name).exists():
            (data_dir / name).rename(folder / name)
    sync_directory(str(folder))
    sync_directory(str(data_dir))
    log.error("state_set_aside", folder=str(folder), reason=reason)


def keep_copies(data_dir: Path, paths: Sequence[str]) -> None:
    """Of log files that are about to be written anew: for a report."""
    folder = _new_folder(data_dir)
    for path in map(Path, paths):
        os.link(path, folder / path.name)
    sync_directory(str(folder))
    log.info("files_kept", folder=str(folder), files=len(paths))


def _new_folder(data_dir: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    number = 1
    while (folder := data_dir / FOLDER / f"{stamp}-{number}").exists():
        number += 1
    folder.mkdir(parents=True)
    sync_directory(str(folder.parent))
    sync_directory(str(data_dir))
    return folder
