"""A replica and its store, of this test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from replica_rig import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    started = await Rig(tmp_path).start()
    yield started
    await started.stop()
