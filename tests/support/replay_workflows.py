"""Workflow code, good and bad, for the tests of replay."""

import threading

from raftflow_sdk import ActivityFailure, Context, RetryPolicy, WorkflowFailure


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


WORKFLOWS = {
    name: code for name, code in globals().items() if getattr(code, "__module__", "") == __name__
}
