"""Workflows for the tests of the environment: what users write."""

from __future__ import annotations

import itertools
from typing import Any

from raftflow_sdk import ActivityFailure, Context, RetryPolicy, Worker, WorkflowFailure

worker = Worker(["http://127.0.0.1:1"])


@worker.workflow("Order")
def order(ctx: Context) -> object:
    reserved = ctx.activity("reserve", ctx.input)
    try:
        ctx.activity("charge", reserved, retry=RetryPolicy(max_attempts=3, initial_backoff=2.0))
    except ActivityFailure as err:
        ctx.activity("release", reserved)
        raise WorkflowFailure(f"charge failed: {err}", error_type=err.error_type) from err
    ctx.sleep("settle", 3_600)
    return ctx.activity("ship", reserved)


@worker.activity("reserve")
def reserve(text: str) -> str:
    return f"reserved {text}"


@worker.activity("ship")
def ship(text: str) -> str:
    return f"shipped {text}"


@worker.workflow("Approval")
def approval(ctx: Context) -> object:
    return ctx.wait_for_signal("gate", "approved")


_tries = itertools.count()


def forgetful(ctx: Context) -> object:
    """Decides by something that is not in its history."""
    ctx.activity(f"step-{next(_tries)}")
    return ctx.activity("last")


def careless(ctx: Context) -> Any:
    ctx.activity("deposit", "10")
    return ctx.activity("balance")


def careful(ctx: Context) -> Any:
    ctx.activity("deposit", "10", retry=RetryPolicy(max_attempts=3, initial_backoff=1.0))
    return ctx.activity("balance")


def unordered(ctx: Context) -> Any:
    """Goes through a set: in another process in another order."""
    return ",".join(ctx.activity("pack", item) for item in {"shoes", "hat", "scarf", "gloves"})
