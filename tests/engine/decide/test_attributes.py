from __future__ import annotations

from pathlib import Path

import pytest
from engine_script import play, scripts

from raftflow.engine.decide.attributes import refused
from raftflow.engine.rejections import Reason


@pytest.mark.parametrize("script", scripts("attributes"), ids=lambda path: path.stem)
def test_script(script: Path, rewrite: bool) -> None:
    play(script, rewrite=rewrite)


def text(size: int) -> str:
    return '"' + "x" * (size - 2) + '"'


def test_bounds() -> None:
    many = tuple((f"a{n:03}", "1") for n in range(100))
    assert refused((), many) is None
    assert refused(many, (("a000", "2"), ("a001", "null"), ("new", "1"))) is None
    for before, upserted in ((many, (("new", "1"),)), ((), (("a", text(2_049)),))):
        rejection = refused(before, upserted)
        assert rejection is not None
        assert rejection.reason is Reason.LIMIT_EXCEEDED
    assert refused((), (("a", text(2_048)),)) is None


@pytest.mark.parametrize(
    "value", ["1", "-0.5", "1e9", "true", "false", "null", '"a\\n\\u00e9"', '""']
)
def test_scalars(value: str) -> None:
    assert refused((), (("a", value),)) is None


@pytest.mark.parametrize(
    "value", ["", "01", "1.", "NaN", "[]", "{}", '"', '"\n"', "'a'", "1 ", "True"]
)
def test_others(value: str) -> None:
    rejection = refused((), (("a", value),))
    assert rejection is not None
    assert rejection.reason is Reason.INVALID_COMMAND
