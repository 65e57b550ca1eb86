"""An entry means for ever what it meant when it was written: the released program and this tree
apply the same log, of all that the release knew, and have the same state after each entry."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from engine_harness import EngineHarness
from released import unpack
from strategies import Player, random_wishes

from raftflow.cluster.codec.commands import encode_command, encode_entry
from raftflow.cluster.features import COMMANDS, FIELDS
from raftflow.engine.commands import (
    AwaitSignal,
    Command,
    CompleteDecision,
    ScheduleActivity,
    StartTimer,
)
from raftflow.engine.limits import DEFAULT_LIMITS

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).resolve().parent.parent.parent / "support" / "replay_log.py"
LEVELS = {"0.1.0": 1, "0.2.0": 2, "0.3.0": 3, "0.4.0": 4}
SEEDS = (1,)
STEPS = (ScheduleActivity, StartTimer, AwaitSignal)
WISHES = int(os.environ.get("UPGRADE_WISHES", "700"))


def reduced(command: Any, level: int) -> Any:
    """The command without what the release did not know; None when nothing is left of it."""
    kind = type(command)
    if kind in COMMANDS and COMMANDS[kind].level > level:
        return None
    if isinstance(command, CompleteDecision):
        kept = [each for inner in command.commands if (each := reduced(inner, level))]
        sequences = [each.sequence for each in command.commands if hasattr(each, "sequence")]
        following = itertools.count(min(sequences, default=0))
        command = replace(
            command,
            commands=tuple(
                replace(each, sequence=next(following)) if isinstance(each, STEPS) else each
                for each in kept
            ),
        )
    plain = {field.name: field.default for field in fields(kind)}
    added = {name: plain[name] for name, of in FIELDS.get(kind, {}).items() if of.level > level}
    return replace(command, **added)


class OldPlayer(Player):
    """Says only what the release could."""

    def __init__(self, level: int, *, crowded: bool) -> None:
        super().__init__(EngineHarness(), crowded=crowded)
        self.harness.feature_level = self.level = level

    def _apply(self, advance_ms: int, commands: tuple[Command, ...]) -> None:
        known = [reduced(command, self.level) for command in commands]
        super()._apply(advance_ms, tuple(command for command in known if command is not None))


def log_of(player: OldPlayer) -> list[bytes]:
    entries, time_ms = [], 1_000_000
    for advance_ms, commands in player.batches:
        time_ms += advance_ms
        encoded = [encode_command(f"c{n}", command) for n, command in enumerate(commands)]
        entries.append(
            encode_entry(
                encoded,
                time_ms=time_ms,
                term=1,
                node="n1",
                limits=DEFAULT_LIMITS,
                feature_level=player.level,
            )
        )
    return entries


def replay(log: Path, folder: Path, packages: Path | None = None) -> list[str]:
    environment = dict(os.environ)
    if packages is not None:
        environment["PYTHONPATH"] = str(packages)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(log), str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder.parent,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout.split()


@pytest.mark.parametrize("crowded", [False, True])
@pytest.mark.parametrize("release", LEVELS)
def test_a_log_means_what_it_meant(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, release: str, crowded: bool
) -> None:
    packages = unpack(release, tmp_path_factory.getbasetemp() / "releases")
    for seed in SEEDS:
        player = OldPlayer(LEVELS[release], crowded=crowded)
        player.begin()
        for wish in random_wishes(seed, WISHES, crowded=crowded):
            player.play(wish)
        log = tmp_path / f"{seed}.log"
        entries = log_of(player)
        log.write_bytes(b"".join(len(e).to_bytes(4, "little") + e for e in entries))
        then = replay(log, tmp_path / f"{seed}-then", packages)
        now = replay(log, tmp_path / f"{seed}-now")
        assert len(then) == len(now) == len(entries)
        for number, digests in enumerate(zip(then, now, strict=True)):
            assert digests[0] == digests[1], f"entry {number + 1}: {player.batches[number]}"
        assert sum(player.seen.values()) > WISHES // 3, f"too little happened: {player.seen}"
