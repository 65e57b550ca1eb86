"""Random workflow programs: what they do is data, run by `def` and by `async def` code alike.

A program is a list of instructions on a growing list of futures. What the code sees goes into a
trace, in order, so that two replays can be compared by more than their commands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from raftflow_sdk import CancelledFailure, Future

Program = list[tuple[Any, ...]]
Trace = list[Any]

_index = st.integers(0, 7)
_indexes = st.lists(_index, min_size=1, max_size=4)

_common = st.one_of(
    st.tuples(st.just("start"), st.sampled_from(["activity", "timer", "signal", "child"])),
    st.tuples(st.just("start"), st.just("activity")),
    st.tuples(st.just("wait"), _index),
    st.tuples(st.just("gather"), _indexes, st.booleans()),
    st.tuples(st.just("race"), _indexes, st.booleans()),
    st.tuples(st.just("cancel"), _index),
    st.tuples(st.just("done"), _index),
    st.tuples(st.sampled_from(["now", "uuid", "random", "requested", "suggested"])),
    st.tuples(st.just("signal or timeout")),
    st.tuples(st.just("version"), st.sampled_from("ab")),
    st.tuples(st.just("side effect")),
    st.tuples(st.just("upsert")),
)

_begin = st.lists(
    st.tuples(st.just("start"), st.sampled_from(["activity", "timer", "signal", "child"])),
    min_size=2,
    max_size=5,
)
_spawn = st.tuples(st.just("spawn"), st.lists(_common, min_size=1, max_size=5))


def _program(instruction: st.SearchStrategy[Any]) -> st.SearchStrategy[Program]:
    """Some steps in flight, and then what may go wrong with them."""
    rest = st.lists(instruction, min_size=3, max_size=14)
    return st.builds(lambda begin, rest: [*begin, *rest], _begin, rest)


programs = _program(_common)
async_programs = _program(st.one_of(_common, _common, _spawn))


class _Interpreter:
    """What needs no waiting, and what there is to wait for."""

    def __init__(self, ctx: Any, trace: Trace, futures: list[Future[Any]], path: str) -> None:
        self.ctx = ctx
        self.trace = trace
        self.futures = futures
        self.path = path
        self.told = False

    def pick(self, indexes: list[int]) -> list[Future[Any]]:
        return [self.futures[index % len(self.futures)] for index in indexes]

    def quick(self, verb: str, *rest: Any) -> None:
        ctx, name = self.ctx, f"{self.path}{len(self.futures)}"
        match verb, rest:
            case "start", ["activity"]:
                self.futures.append(ctx.start_activity(f"a{name}"))
            case "start", ["timer"]:
                self.futures.append(ctx.start_timer(f"t{name}", 1))
            case "start", ["signal"]:
                self.futures.append(ctx.start_signal_wait(f"s{name}", "go"))
            case "start", ["child"]:
                self.futures.append(ctx.start_child("Child", name=f"c{name}"))
            case "cancel", [index] if self.futures:
                self.pick([index])[0].cancel("by hand")
            case "done", [index] if self.futures:
                self.say("done", self.pick([index])[0].done)
            case "now", []:
                self.say(ctx.now().isoformat())
            case "uuid", []:
                self.say(ctx.uuid())
            case "random", []:
                self.say(ctx.random().random())
            case "requested", []:
                self.say("requested", ctx.cancel_requested)
            case "suggested", []:
                self.say("suggested", ctx.continue_as_new_suggested)
            case "version", [change]:
                self.say("version", change, ctx.version(change, -1, 2))
            case "side effect", []:
                self.say("effect", ctx.side_effect("effect", lambda: str(object())))
            case "upsert", []:
                ctx.upsert_search_attributes({"n": len(self.futures)})

    def say(self, *what: Any) -> None:
        """What was seen, with all else that the code could see at this moment."""
        done = [future.done for future in self.futures]
        sight = (self.ctx.now().isoformat(), self.ctx.cancel_requested, *done)
        self.trace.append((self.path, *what, sight))

    def failed(self, err: Exception) -> None:
        self.say(type(err).__name__, str(err))
        self.told |= isinstance(err, CancelledFailure) and self.ctx.cancel_requested

    def end(self) -> object:
        if self.told:
            raise CancelledFailure("as asked")
        return [list(map(str, line)) for line in self.trace]


def sync_code(program: Program, traces: list[Trace]) -> Callable[[Any], object]:
    def code(ctx: Any) -> object:
        trace: Trace = []
        traces.append(trace)
        run = _Interpreter(ctx, trace, [], "/")
        for verb, *rest in program:
            try:
                match verb, rest:
                    case "wait", [index] if run.futures:
                        run.say("got", run.pick([index])[0].result())
                    case "gather", [indexes, failures] if run.futures:
                        futures = run.pick(indexes)
                        run.say("all", *map(str, ctx.gather(*futures, return_exceptions=failures)))
                    case "race", [indexes, cancel_rest] if run.futures:
                        futures = run.pick(indexes)
                        winner = ctx.race(*futures, cancel_rest=cancel_rest)
                        run.say("first", run.futures.index(winner))
                    case "signal or timeout", []:
                        run.say("signal", ctx.wait_for_signal("sig", "go", timeout=1))
                    case _:
                        run.quick(verb, *rest)
            except Exception as err:  # noqa: BLE001 - what workflow code may do
                run.failed(err)
        return run.end()

    return code


def async_code(program: Program, traces: list[Trace]) -> Callable[[Any], object]:
    async def code(ctx: Any) -> object:
        trace: Trace = []
        traces.append(trace)
        return await _async_run(_Interpreter(ctx, trace, [], "/"), program)

    return code


async def _async_run(run: _Interpreter, program: Program) -> object:
    ctx = run.ctx
    for verb, *rest in program:
        try:
            match verb, rest:
                case "wait", [index] if run.futures:
                    run.say("got", await run.pick([index])[0])
                case "gather", [indexes, failures] if run.futures:
                    futures = run.pick(indexes)
                    results = await ctx.gather(*futures, return_exceptions=failures)
                    run.say("all", *map(str, results))
                case "race", [indexes, cancel_rest] if run.futures:
                    futures = run.pick(indexes)
                    winner = await ctx.race(*futures, cancel_rest=cancel_rest)
                    run.say("first", run.futures.index(winner))
                case "signal or timeout", []:
                    run.say("signal", await ctx.wait_for_signal("sig", "go", timeout=1))
                case "spawn", [inner]:
                    path = f"{run.path}{len(run.futures)}/"
                    # It knows the futures so far: coroutines wait for and cancel each other's
                    # steps, and never wait in a circle.
                    beside = _Interpreter(ctx, run.trace, list(run.futures), path)
                    run.futures.append(ctx.spawn(_async_run(beside, inner)))
                case _:
                    run.quick(verb, *rest)
        except Exception as err:  # noqa: BLE001 - what workflow code may do
            run.failed(err)
    return run.end()
