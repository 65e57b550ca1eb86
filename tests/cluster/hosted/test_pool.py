"""The replay pool: real subprocesses, good code and bad."""

import asyncio
import json
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from raftflow.cluster.cli.supervisor import SERVE
from raftflow.cluster.hosted.pool import BUILTIN, HostedLoadError, ReplayFailed, ReplayPool

SUPPORT = str(Path(__file__).parents[2] / "support")
pytestmark = pytest.mark.slow


def task(workflow_type: str, text: str = "", steps: list[dict[str, Any]] | None = None) -> Any:
    head = {"workflow_id": "w", "run_id": "r", "task_token": "t", "workflow_type": workflow_type}
    return {**head, "input": text, "steps": steps or [], "signals": []}


@pytest.fixture
async def pool(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ReplayPool]:
    monkeypatch.setenv("PYTHONPATH", SUPPORT)
    async with ReplayPool([BUILTIN, "hosted_workflows"], time_limit_ms=500) as pool:
        yield pool


def output(body: dict[str, Any]) -> Any:
    (command,) = body["commands"]
    return json.loads(command["output"])


async def test_it_decides(pool: ReplayPool) -> None:
    assert "OrderSaga" in pool.types
    body = await pool.decide("OrderSaga", task("OrderSaga", "order-1"))
    (command,) = body["commands"]
    assert (command["type"], command["step_name"]) == ("schedule_activity", "reserve")
    assert (body["workflow_id"], body["task_token"]) == ("w", "t")


async def test_it_decides_for_coroutines(pool: ReplayPool) -> None:
    body = await pool.decide("Together", task("Together"))
    assert [command["step_name"] for command in body["commands"]] == ["left", "right"]
    body = await pool.decide("AwaitsAsyncio", task("AwaitsAsyncio"))
    assert "use ctx.sleep" in body["replay_error"]
    assert body["replay_error_kind"] == "nondeterminism"


async def test_one_process_serves_many_tasks(pool: ReplayPool) -> None:
    first = output(await pool.decide("Process", task("Process")))
    assert output(await pool.decide("Process", task("Process"))) == first


async def test_every_process_hashes_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", SUPPORT)
    async with ReplayPool(["hosted_workflows"], size=2) as pool:
        bodies = [pool.decide("Process", task("Process")) for _ in range(2)]
        (pid_a, hash_a), (pid_b, hash_b) = map(output, await asyncio.gather(*bodies))
    assert pid_a != pid_b
    assert hash_a == hash_b


@pytest.mark.parametrize("kind", ["Endless", "SwallowsForEver"])
async def test_an_endless_loop_is_killed_and_the_pool_goes_on(pool: ReplayPool, kind: str) -> None:
    (before, _) = output(await pool.decide("Process", task("Process")))
    with pytest.raises(ReplayFailed, match="longer than 500 ms"):
        await pool.decide(kind, task(kind))
    (after, _) = output(await pool.decide("Process", task("Process")))
    assert before != after


async def test_a_crash_is_named_and_the_pool_goes_on(pool: ReplayPool) -> None:
    with pytest.raises(ReplayFailed, match=r"hosted workflow Crashes: .*exit status 7"):
        await pool.decide("Crashes", task("Crashes"))
    assert output(await pool.decide("Process", task("Process")))


async def test_a_victim_is_tried_again(pool: ReplayPool, tmp_path: Path) -> None:
    body = await pool.decide("CrashesOnce", task("CrashesOnce", str(tmp_path / "mark")))
    assert body["commands"] == [{"type": "complete_workflow", "output": "second time lucky"}]


async def test_what_code_prints_or_reads_is_not_protocol(pool: ReplayPool) -> None:
    body = await pool.decide("Prints", task("Prints"))
    assert body["commands"] == [{"type": "complete_workflow", "output": ""}]


async def test_a_large_history_passes(pool: ReplayPool) -> None:
    done = {"kind": "ACTIVITY", "step_name": "reserve", "status": "COMPLETED", "sequence": 1}
    steps = [{**done, "output": "é\n" * 1_000_000}]
    body = await pool.decide("OrderSaga", task("OrderSaga", steps=steps))
    assert body["commands"][0]["type"] == "start_timer"


async def test_a_cancelled_call_leaves_no_answer_behind(pool: ReplayPool) -> None:
    call = asyncio.create_task(pool.decide("Endless", task("Endless")))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    body = await pool.decide("OrderSaga", task("OrderSaga"))
    assert body["commands"][0]["step_name"] == "reserve"


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("hosted_nothing", "module hosted_nothing has no WORKFLOWS"),
    ],
)
async def test_a_module_that_does_not_load_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, message: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", SUPPORT)
    with pytest.raises(HostedLoadError, match=message):
        await ReplayPool([module]).start()


async def test_a_type_is_hosted_once() -> None:
    with pytest.raises(HostedLoadError, match="OrderSaga is hosted twice"):
        await ReplayPool([BUILTIN, BUILTIN]).start()


async def test_a_stopped_pool_starts_nothing() -> None:
    pool = ReplayPool()
    await pool.start()
    await pool.stop()
    with pytest.raises(RuntimeError, match="stopped"):
        await pool.decide("OrderSaga", task("OrderSaga"))


async def test_a_folder_of_our_name_is_not_taken_for_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People start nodes beside their clone, which is a folder named raftflow."""
    stranger = tmp_path / "raftflow" / "cluster"
    stranger.mkdir(parents=True)
    (stranger / "__init__.py").write_text("raise RuntimeError('not the product')")
    monkeypatch.chdir(tmp_path)
    async with ReplayPool() as pool:
        assert pool.types == ("OrderSaga",)
    serve = await asyncio.create_subprocess_exec(*SERVE, "--print-config", stdout=DEVNULL)
    assert await serve.wait() == 0
