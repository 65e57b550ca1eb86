from __future__ import annotations

from pathlib import Path

import pytest
from engine_script import play, scripts


@pytest.mark.parametrize("script", scripts("token"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite: bool) -> None:
    play(script, rewrite=rewrite)
