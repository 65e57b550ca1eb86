"""The pages about determinism and about changing code: their examples run."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from run_model import RunModel

DOCS = Path(__file__).parents[3] / "docs"
README = Path(__file__).parents[3] / "sdks" / "python" / "README.md"


def page(name: Path) -> dict[str, Any]:
    """What the examples of a page define."""
    names: dict[str, Any] = {"__name__": "guide"}
    blocks = re.findall(r"```python\n(.*?)```", name.read_text(), re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, str(name), "exec"), names)
    return names


def life(code: Any, *outputs: str) -> RunModel:
    """The life of a run whose steps are resolved in turn, newest first."""
    model = RunModel(code, text="tea")
    model.decide()
    for output in outputs:
        model.resolve(model.open()[-1], output)
        model.decide()
    return model


def test_determinism() -> None:
    examples = page(DOCS / "determinism.md")
    assert life(examples["first_of_two"], "R").events[-1]["output"] == "right"
    assert life(examples["in_turn"], "R", "L").events[-1]["output"] == '["R","L"]'


def test_changing_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = page(DOCS / "changing-code.md")

    def before(ctx: Any) -> object:
        reserved = ctx.activity("reserve", ctx.input)
        ctx.activity("charge", reserved)
        return ctx.activity("ship", reserved)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "histories").mkdir()
    for name, model in {
        "old": life(before, "r", "c", "s"),
        "new": life(examples["order"], "r", "ok", "c", "s"),
        "open": life(before, "r"),
    }.items():
        events = [{**model.events[0], "workflow_type": "Order"}, *model.events[1:]]
        file = tmp_path / "histories" / f"{name}.json"
        file.write_text(json.dumps({"events": events}))
    examples["test_open_runs_agree_with_the_code"]()


def test_the_examples_of_the_readme_are_python() -> None:
    assert page(README)["order"]
