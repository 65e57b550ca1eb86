"""What holds for every sequence of commands, however wild."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest
from engine_harness import EngineHarness
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import Player, Wish, random_wishes, wishes

from raftflow.engine.commands import Command
from raftflow.engine.limits import Limits
from raftflow.engine.state import RunStatus

# Small, so that sequences of a few dozen commands run into them.
TIGHT = Limits(max_history_events=60, max_open_steps=6, max_untaken_signals=5, max_payload_bytes=64)
CROWDED = Limits(max_history_events=200, max_open_steps=20, max_untaken_signals=30)

_STATEFUL = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def played(sequence: Sequence[Wish], limits: Limits = TIGHT) -> Player:
    """The harness asserts the invariants after every batch."""
    player = Player(EngineHarness(limits=limits), crowded=limits is CROWDED)
    player.begin()
    for wish in sequence:
        player.play(wish)
    return player


def replayed(
    batches: Sequence[tuple[int, tuple[Command, ...]]], harness: EngineHarness, *, stop_at: int = -1
) -> EngineHarness:
    for position, (advance_ms, commands) in enumerate(batches):
        if position == stop_at:
            harness.reload()
        harness.apply(*commands, advance_ms=advance_ms)
    return harness


@pytest.mark.slow
@_STATEFUL
@given(wishes() | wishes(crowded=True), st.integers(0, 60))
def test_a_stop_anywhere_changes_nothing(sequence: list[Wish], stop_at: int) -> None:
    player = played(sequence)
    for again in (
        replayed(player.batches, EngineHarness(limits=TIGHT), stop_at=stop_at),
        replayed(player.batches, EngineHarness(limits=TIGHT, hot=False)),
    ):
        assert again.digest == player.harness.digest
        assert again.rows == player.harness.rows


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_long_lives(seed: int) -> None:
    player = played(random_wishes(seed, 400))
    again = replayed(player.batches, EngineHarness(limits=TIGHT, hot=False))
    assert again.digest == player.harness.digest
    outcomes = player.seen.keys() & RunStatus.__members__.keys()
    assert len(outcomes) >= 6, f"the sequence was dull: {outcomes}"


@pytest.mark.slow
@_STATEFUL
@given(wishes(max_size=40) | wishes(max_size=40, crowded=True))
def test_every_message_arrives_and_every_run_can_be_forgotten(sequence: list[Wish]) -> None:
    """The harness asserts after every batch that nobody waits for what will not come, that no
    step has two results and that no row outlives its run; the player, that no message is
    delivered twice."""
    player = played(sequence)
    player.settle()
    player.end_and_forget_all()
    rows = player.harness.rows
    assert not any(rows.of_runs())
    assert not rows.current
    assert not rows.timers
    again = replayed(player.batches, EngineHarness(limits=TIGHT, hot=False))
    assert again.digest == player.harness.digest


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_crowded_lives(seed: int) -> None:
    player = played(random_wishes(seed, 400, crowded=True), CROWDED)
    player.settle()
    again = replayed(player.batches, EngineHarness(limits=CROWDED, hot=False))
    assert again.digest == player.harness.digest
    held = {name for name in player.seen if name.startswith("held ")}
    assert {"held StepCompleted", "held SignalReceived"} <= held, f"nothing had to wait: {held}"


def digest_of(seed: int) -> str:
    return played(random_wishes(seed, 150)).harness.digest.hex()


@pytest.mark.slow
def test_the_hash_seed_changes_nothing() -> None:
    program = "import test_properties; print(test_properties.digest_of(7))"
    here = os.path.dirname(__file__)
    support = os.path.join(os.path.dirname(here), "support")
    digests = []
    for seed in ("0", "1"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([here, support])}
        answer = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        )
        digests.append(answer.stdout.strip())
    assert len(digests[0]) == 32
    assert digests[0] == digests[1] == digest_of(7)
