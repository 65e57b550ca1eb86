"""Options and fixtures of every test."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable

import pytest

# Under the limit of pytest's configuration, which ends the whole run and cannot tell what a
# coroutine waited for.
ASYNC_LIMIT_S = 600


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="write what the code says into the golden scripts"
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.obj = _limited(item.obj)


def _limited(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def limited(*arguments: object, **named: object) -> None:
        async with asyncio.timeout(ASYNC_LIMIT_S):
            await test(*arguments, **named)

    return limited


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))
