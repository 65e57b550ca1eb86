"""Nothing that anybody sends keeps the event loop, on which Raft lives, from its next turn: by the
time of the processor, which is the same on a busy machine."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import probes
import pytest
from ports import free_ports
from single_node import config_for, serve

pytestmark = [pytest.mark.slow]

# A third of the shortest silence after which a leader counts as lost.
MOST_S = 0.13


@pytest.mark.parametrize("port", ["http", "metrics"])
async def test_no_turn_of_the_loop_takes_long(tmp_path: Path, port: str) -> None:
    served = await serve(config_for(free_ports(3), tmp_path))
    address = str(getattr(served.services.config, f"{port}_addr"))
    command = [sys.executable, probes.__file__, "send", json.dumps([address])]
    sender = await asyncio.create_subprocess_exec(*command)
    worst_s = 0.0
    while sender.returncode is None:
        begun = time.process_time()
        await asyncio.sleep(0)
        worst_s = max(worst_s, time.process_time() - begun)
        await asyncio.sleep(0.0005)
    await served.server.stop()
    assert sender.returncode == 0
    assert worst_s < MOST_S, f"one turn took {worst_s * 1_000:.0f} ms"
