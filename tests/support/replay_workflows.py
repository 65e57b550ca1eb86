"""Workflow code, good and bad, for the tests of replay."""

import asyncio
import threading

from raftflow_sdk import (
    DEFAULT_VERSION,
    ActivityFailure,
    AsyncContext,
    CancelledFailure,
    ChildFailure,
    Context,
    Future,
    RetryPolicy,
    WorkflowFailure,
)


def order(ctx: Context) -> object:
    reserved = ctx.activity("reserve", ctx.input)
    ctx.sleep("settle", 2.0)
    if ctx.wait_for_signal("gate", "approved") != "yes":
        raise WorkflowFailure("rejected", error_type="Rejected")
    try:
        ctx.activity("charge", reserved, retry=RetryPolicy(max_attempts=3, initial_backoff=0.2))
    except ActivityFailure as err:
        ctx.activity("release", reserved)
        raise WorkflowFailure(f"charge failed: {err}") from err
    return ctx.activity("ship", reserved)


def careful(ctx: Context) -> object:
    """Catches what it may: neither of these sees a suspension."""
    try:
        try:
            return ctx.activity("work")
        except Exception:  # noqa: BLE001 - what workflow code may do
            return "caught"
    finally:
        ctx.activity("cleanup")


def timeouts(ctx: Context) -> object:
    return ctx.activity(
        "work",
        {"n": 1},
        start_to_close_timeout=1.5,
        schedule_to_close_timeout=60,
        schedule_to_start_timeout=0.25,
        decode="json",
    )


def uncaught(ctx: Context) -> object:
    return ctx.activity("work")


def buggy(ctx: Context) -> object:
    ctx.activity("work")
    raise KeyError("no such thing")


def exits(ctx: Context) -> object:
    raise SystemExit(3)


def unsendable(ctx: Context) -> object:
    return {1, 2}


def nothing(ctx: Context) -> object:
    return ctx.input


def bare_except(ctx: Context) -> object:
    try:
        return ctx.activity("work")
    except:  # noqa: E722 - the mistake under test
        return "done"


def bare_except_goes_on(ctx: Context) -> object:
    try:
        ctx.activity("work")
    except BaseException:  # noqa: BLE001 - the mistake under test
        pass
    return ctx.activity("other")


def cleans_up_on_the_way_out(ctx: Context) -> object:
    """Odd but harmless: everything here runs with the suspension still on its way."""
    try:
        return ctx.activity("work")
    except BaseException:
        try:
            raise KeyError("on the way")
        except KeyError:
            ctx.activity("note")
        raise


def bare_except_fails(ctx: Context) -> object:
    try:
        return ctx.activity("work")
    except BaseException as err:
        raise WorkflowFailure("wrapped") from err


def return_in_finally(ctx: Context) -> object:
    try:
        ctx.activity("work")
    finally:
        return "done"  # noqa: B012 - the mistake under test


def swallows_nondeterminism(ctx: Context) -> object:
    try:
        ctx.activity("renamed")
    except BaseException:  # noqa: BLE001 - the mistake under test
        pass
    return "done"


def shorter(ctx: Context) -> object:
    return ctx.activity("reserve", ctx.input)


def from_a_thread(ctx: Context) -> object:
    def run() -> None:
        try:
            ctx.activity("work")
        except BaseException:  # noqa: BLE001 - the mistake under test
            pass

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return "done"


# ---- several things at once ----------------------------------------------------------------------


def both(ctx: Context) -> object:
    return ctx.gather(ctx.start_activity("left"), ctx.start_activity("right"))


async def both_async(ctx: AsyncContext) -> object:
    return await ctx.gather(ctx.activity("left"), ctx.activity("right"))


def either(ctx: Context) -> object:
    left, right = ctx.start_activity("left"), ctx.start_activity("right")
    winner = ctx.race(left, right, cancel_rest=True)
    return ["left" if winner is left else "right", winner.result()]


async def either_async(ctx: AsyncContext) -> object:
    left, right = ctx.activity("left"), ctx.activity("right")
    winner = await ctx.race(left, right, cancel_rest=True)
    return ["left" if winner is left else "right", await winner]


async def pipelines(ctx: AsyncContext) -> object:
    """Two chains of steps: which step is issued next depends on whose result came first."""

    async def pipeline(name: str) -> object:
        await ctx.activity(f"fetch {name}")
        return await ctx.activity(f"store {name}")

    return await ctx.gather(pipeline("a"), pipeline("b"))


def patient(ctx: Context) -> object:
    try:
        return ctx.wait_for_signal("gate", "approved", timeout=60)
    except TimeoutError as err:
        return str(err)


async def patient_async(ctx: AsyncContext) -> object:
    try:
        return await ctx.wait_for_signal("gate", "approved", timeout=60)
    except TimeoutError as err:
        return str(err)


def changes_its_mind(ctx: Context) -> object:
    timer = ctx.start_timer("later", 60)
    ctx.activity("work")
    timer.cancel("not needed")
    ctx.activity("more")
    return None


def parent(ctx: Context) -> object:
    child = ctx.start_child("Ship", "parcel", workflow_id="ship-1", parent_close_policy="ABANDON")
    try:
        return child.result()
    except ChildFailure as err:
        return [str(err), err.error_type, err.workflow_id]


def uncaught_child(ctx: Context) -> object:
    return ctx.child("Ship", name="ship")


# ---- cancellation --------------------------------------------------------------------------------


def undoes(ctx: Context) -> object:
    ctx.activity("book")
    try:
        return ctx.activity("pay")
    except CancelledFailure:
        ctx.activity("cancel booking", ctx.cancel_reason)
        raise


async def undoes_async(ctx: AsyncContext) -> object:
    await ctx.activity("book")
    try:
        return await ctx.activity("pay")
    except CancelledFailure:
        await ctx.activity("cancel booking", ctx.cancel_reason)
        raise


def deaf(ctx: Context) -> object:
    try:
        return ctx.activity("work")
    except CancelledFailure:
        return "so what"


async def winds_down(ctx: AsyncContext) -> object:
    """Coroutines compensate first; whoever waits for them is told when they are done."""

    async def rent(what: str) -> None:
        try:
            await ctx.sleep(f"use {what}", 3600)
        finally:
            await ctx.activity(f"return {what}")

    await ctx.gather(rent("car"), rent("room"))
    return None


# ---- what the history remembers ------------------------------------------------------------------


def changed(ctx: Context) -> object:
    ctx.activity("book")
    if ctx.version("ask first", DEFAULT_VERSION, 1) == 1:
        ctx.activity("ask")
    return ctx.activity("pay")


def too_new(ctx: Context) -> object:
    ctx.activity("book")
    ctx.version("ask first", 1, 2)
    return ctx.activity("pay")


def draws(ctx: Context) -> object:
    drawn = ctx.side_effect("dice", lambda: 4)
    return ctx.activity(f"move {drawn}")


def tags(ctx: Context) -> object:
    ctx.upsert_search_attributes({"stage": "new", "old": None})
    ctx.activity("work")
    ctx.upsert_search_attributes({"stage": "done"})
    return "tagged"


def goes_on(ctx: Context) -> object:
    try:
        ctx.activity("work")
        if ctx.continue_as_new_suggested:
            ctx.continue_as_new("next", task_queue="slow", execution_timeout=60)
        return ctx.activity("again")
    except Exception:  # noqa: BLE001 - it must not see a run that goes on
        return "caught"
    finally:
        ctx.activity("tidy up")


def tells_the_time(ctx: Context) -> object:
    before = ctx.now().isoformat()
    ctx.activity("work")
    return [before, ctx.now().isoformat(), ctx.uuid(), ctx.uuid(), ctx.random().randrange(1000)]


def until_noon(ctx: Context) -> object:
    return ctx.sleep_until("noon", ctx.now().replace(hour=12))


# ---- mistakes in async code ----------------------------------------------------------------------


async def asyncio_sleep(ctx: AsyncContext) -> object:
    return await asyncio.sleep(1)


async def asyncio_yield(ctx: AsyncContext) -> object:
    return await asyncio.sleep(0)


async def asyncio_group(ctx: AsyncContext) -> object:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(1))


async def asyncio_timeout(ctx: AsyncContext) -> object:
    async with asyncio.timeout(1):
        return await ctx.activity("work")


async def swallows_asyncio(ctx: AsyncContext) -> object:
    try:
        await asyncio.sleep(1)
    except BaseException:  # noqa: BLE001 - the mistake under test
        pass
    return await ctx.activity("work")


async def circle(ctx: AsyncContext) -> object:
    coroutines: list[Future[object]] = []

    async def one() -> object:
        return await coroutines[1]

    async def other() -> object:
        return await coroutines[0]

    coroutines += [ctx.spawn(one()), ctx.spawn(other())]
    return await coroutines[0]


async def result_without_await(ctx: AsyncContext) -> object:
    return ctx.activity("work").result()


async def lost_failure(ctx: AsyncContext) -> object:
    async def broken() -> None:
        raise KeyError("nobody looks")

    ctx.spawn(broken())
    return await ctx.activity("work")


async def bare_except_async(ctx: AsyncContext) -> object:
    """In a coroutine the suspension is no exception: there is nothing to catch."""
    try:
        return await ctx.activity("work")
    except:  # noqa: E722 - the mistake under test
        return "done"


async def cleans_up_async(ctx: AsyncContext) -> object:
    try:
        return await ctx.activity("work")
    finally:
        await ctx.activity("cleanup")


WORKFLOWS = {
    name: code
    for name, code in globals().items()
    if getattr(code, "__module__", "") == __name__ and callable(code)
}
