"""The Replayer: what it accepts, and that it names the step at which code differs."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_model import RunModel

from raftflow_sdk import (
    DEFAULT_VERSION,
    CancelledFailure,
    Context,
    NondeterminismError,
    Replayer,
    Worker,
)
from raftflow_sdk.replay.__main__ import main
from raftflow_sdk.replay.history_file import History

Code = Callable[[Any], object]


def order(ctx: Context) -> object:
    ctx.activity("reserve")
    if ctx.wait_for_signal("gate", "approved", timeout=60) != "yes":
        return "rejected"
    paid, packed = ctx.gather(ctx.start_activity("charge"), ctx.start_activity("pack"))
    return [paid, packed]


def history(code: Code = order) -> RunModel:
    model = RunModel(code)
    model.decide()
    model.signal("approved", "yes")  # it is there before the wait
    model.resolve(1)
    model.decide()
    model.decide()
    for sequence in (5, 4):
        model.resolve(sequence)
        model.decide()
    assert model.closed
    return model


def check(code: Code, model: RunModel, length: int | None = None) -> int:
    events = model.events[:length]
    return Replayer({"T": code}).check({"events": events}).decisions


def differs(code: Code, model: RunModel, length: int | None = None) -> str:
    with pytest.raises(NondeterminismError) as caught:
        check(code, model, length)
    return str(caught.value)


def test_code_agrees_with_what_it_wrote_however_long() -> None:
    model = history()
    assert check(order, model) >= len(model.decisions)
    for length, _ in model.decisions:
        assert check(order, model, length)


def test_a_step_that_is_new_is_named() -> None:
    def code(ctx: Context) -> object:
        ctx.activity("check stock")
        return order(ctx)

    assert differs(code, history()) == (
        "nondeterministic workflow code at sequence 1: the code issued ACTIVITY 'check stock', "
        "the history has ACTIVITY 'reserve' (the decision after event 1)"
    )


def test_a_step_begun_in_addition_is_named() -> None:
    def code(ctx: Context) -> object:
        ctx.start_activity("reserve")
        return ctx.gather()

    assert "issued complete_workflow, in the history the run goes on" in differs(code, history(), 8)

    def waits(ctx: Context) -> object:
        reserved = ctx.start_activity("reserve")
        ctx.start_activity("tell the shop")
        return reserved.result()

    assert differs(waits, history()) == (
        "nondeterministic workflow code: the code issued ACTIVITY 'tell the shop' (sequence 2), "
        "the history has nothing there (the decision of event 2)"
    )


def test_a_step_left_out_is_named() -> None:
    def code(ctx: Context) -> object:
        ctx.activity("reserve")
        ctx.wait_for_signal("gate", "approved", timeout=60)
        return ctx.activity("charge")

    assert differs(code, history()) == (
        "nondeterministic workflow code: the code left out what the history has: "
        "ACTIVITY 'pack' (sequence 5) (the decision of event 10)"
    )


def test_another_end_is_named() -> None:
    def goes_on(ctx: Context) -> object:
        order(ctx)
        return ctx.activity("mail")

    message = differs(goes_on, history())
    assert "the code goes on, the history has WorkflowCompleted" in message

    def fails(ctx: Context) -> object:
        order(ctx)
        raise ValueError

    message = differs(fails, history())
    assert "issued fail_workflow (ValueError:  (test_replayer.py:" in message
    assert "in fails)), the history has WorkflowCompleted" in message


def test_an_exception_of_the_code_is_shown() -> None:
    def early(ctx: Context) -> object:
        raise TypeError("no such input")

    def later(ctx: Context) -> object:
        ctx.activity("reserve")
        raise TypeError("no such output")

    for code, text in ((early, "no such input"), (later, "no such output")):
        for length in (8, None):
            message = differs(code, history(), length)
            assert f"issued fail_workflow (TypeError: {text} (test_replayer.py:" in message


def test_a_cancel_left_out_or_added_is_named() -> None:
    def cancels(ctx: Context) -> object:
        timer = ctx.start_timer("later", 60)
        ctx.activity("work")
        timer.cancel()
        return ctx.activity("more")

    def leaves(ctx: Context) -> object:
        ctx.start_timer("later", 60)
        ctx.activity("work")
        return ctx.activity("more")

    def life(code: Code) -> RunModel:
        model = RunModel(code)
        model.decide()
        model.resolve(2)
        model.decide()
        model.resolve(3)
        model.decide()
        return model

    assert check(cancels, life(cancels))
    assert check(leaves, life(leaves))
    assert "left out what the history has: sequence 1 cancelled" in differs(leaves, life(cancels))
    assert "cancelled sequence 1, the history did not" in differs(cancels, life(leaves))


def test_a_changed_version_is_not_a_difference() -> None:
    def newer(ctx: Context) -> object:
        ctx.activity("reserve")
        if ctx.version("faster", DEFAULT_VERSION, 1) == 1:
            return "fast"
        if ctx.wait_for_signal("gate", "approved", timeout=60) != "yes":
            return "rejected"
        return ctx.gather(ctx.start_activity("charge"), ctx.start_activity("pack"))

    def newest(ctx: Context) -> object:
        ctx.activity("reserve")
        if ctx.version("faster", DEFAULT_VERSION, 2) == 2:
            return ctx.activity("fastest")
        return "fast"

    assert check(newer, history())
    model = RunModel(newer)
    model.decide()
    model.resolve(1)
    model.decide()
    assert check(newest, model), "the run keeps the version that it recorded"


def test_a_cancelled_run_is_checked_whether_its_code_was_told_or_not() -> None:
    def code(ctx: Context) -> object:
        try:
            return ctx.activity("work")
        except CancelledFailure:
            ctx.activity("undo")
            raise

    told = RunModel(code)
    told.decide()
    told.request_cancel()
    told.decide()
    told.resolve(3)
    told.decide()
    assert told.events[-1]["type"] == "WorkflowCancelled"
    assert check(code, told)
    at_once = RunModel(code)
    at_once.decide()
    at_once.add("WorkflowCancelled", reason="now")
    assert check(code, at_once)


def test_a_run_that_was_ended_from_outside_is_checked_up_to_there() -> None:
    model = history()
    for length, _ in model.decisions[:-1]:
        cut = RunModel(order)
        cut.events = model.events[:length]
        cut.add("WorkflowTerminated", reason="by hand")
        assert check(order, cut)


def test_a_type_without_code_is_told() -> None:
    with pytest.raises(LookupError, match="'T'"):
        Replayer({"Order": order}).check({"events": history().events})


# ---- how the input is read -----------------------------------------------------------------------

worker = Worker(["http://127.0.0.1:1"])


@worker.workflow("T", decode="json")
def typed(ctx: Context) -> object:
    return ctx.activity(ctx.input["step"])


@pytest.mark.parametrize("code", [worker, {"T": typed}])
def test_the_input_is_read_as_the_code_was_registered(code: Any) -> None:
    model = RunModel(typed, text='{"step": "reserve"}')
    model.play(random.Random(1))
    assert Replayer(code).check({"events": model.events})
    with pytest.raises(NondeterminismError, match="TypeError: string indices"):
        Replayer(code, decode="text").check({"events": model.events})


# ---- files that break off ------------------------------------------------------------------------


def test_what_a_torn_file_still_has_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(ctx: Context) -> object:
        ctx.activity("reserve")
        return ctx.activity("something else")

    model = history()
    for length in range(1, len(model.events)):
        torn = History(model.events[:length], "it breaks off")
        monkeypatch.setattr("raftflow_sdk.replay.replayer.read_history", lambda _, torn=torn: torn)
        assert Replayer({"T": order}).check("w.history").warning == "it breaks off"
    with pytest.raises(NondeterminismError, match="something else"):
        Replayer({"T": other}).check("w.history")


# ---- the command line ----------------------------------------------------------------------------

CODE = """
from raftflow_sdk import Worker

worker = Worker(["http://127.0.0.1:1"])


@worker.workflow("T")
def order(ctx):
    ctx.activity("{step}")

WORKFLOWS = {{"T": order}}
"""


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    model = RunModel(lambda ctx: ctx.activity("reserve"))
    model.play(random.Random(2))
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"events": model.events}))
    return file


@pytest.mark.parametrize("name", ["order", "WORKFLOWS", "worker"])
def test_the_command_says_that_all_is_well(
    exported: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("fine_code.py").write_text(CODE.format(step="reserve"))
    assert main([f"fine_code:{name}", str(exported), str(exported)]) == 0
    assert capsys.readouterr().out == f"ok {exported}: T w, 2 decisions\n" * 2


def test_the_command_names_the_difference(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other_code.py").write_text(CODE.format(step="book"))
    assert main(["other_code:order", str(exported)]) == 1
    assert capsys.readouterr().out.startswith(
        f"DIFFERS {exported}: nondeterministic workflow code at sequence 1: the code issued "
        "ACTIVITY 'book'"
    )


def test_what_cannot_be_checked_is_an_error(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("code_of_u.py").write_text("WORKFLOWS = {'U': len}")
    Path("broken.json").write_text('{"events": []}')
    assert main(["code_of_u:WORKFLOWS", str(exported)]) == 2
    assert main(["code_of_u:nothing", str(exported)]) == 2
    assert main(["code_of_u:__name__", str(exported)]) == 2
    assert main(["no_such_module:order", str(exported)]) == 2
    assert main(["code_of_u", str(exported)]) == 2
    assert main(["code_of_u:WORKFLOWS", "broken.json"]) == 2
    assert main(["code_of_u:WORKFLOWS", "missing.json"]) == 2
    assert "broken.json has no events" in capsys.readouterr().err
    Path("code_of_t.py").write_text(CODE.format(step="reserve"))
    assert main(["code_of_t:worker", "broken.json", str(exported)]) == 2
    assert capsys.readouterr().out.startswith(f"ok {exported}"), "the other files are checked"
