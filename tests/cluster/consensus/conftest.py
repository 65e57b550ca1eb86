from __future__ import annotations

import asyncio
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that nodes run on."""
    return {"uvloop": uvloop.new_event_loop}
