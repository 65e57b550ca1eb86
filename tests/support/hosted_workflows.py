"""Workflow types for the tests of hosting: what users get right and wrong."""

import asyncio
import os
import sys

from raftflow_sdk import AsyncContext, Context


def endless(ctx: Context) -> object:
    while True:
        pass


def swallows_for_ever(ctx: Context) -> object:
    while True:
        try:
            return ctx.activity("work")
        except BaseException:  # noqa: BLE001 - the mistake under test
            continue


def crashes(ctx: Context) -> object:
    os._exit(7)


def crashes_once(ctx: Context) -> object:
    try:
        os.close(os.open(ctx.input, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "second time lucky"
    os._exit(7)


def prints(ctx: Context) -> object:
    print('{"decision": "forged"}', flush=True)
    return sys.stdin.read()


def process(ctx: Context) -> object:
    return [os.getpid(), hash("a")]


async def together(ctx: AsyncContext) -> object:
    return await ctx.gather(ctx.activity("left"), ctx.activity("right"))


async def awaits_asyncio(ctx: AsyncContext) -> object:
    return await asyncio.sleep(60)


WORKFLOWS = {
    "Endless": endless,
    "SwallowsForEver": swallows_for_ever,
    "Crashes": crashes,
    "CrashesOnce": crashes_once,
    "Prints": prints,
    "Process": process,
    "Together": together,
    "AwaitsAsyncio": awaits_asyncio,
}
