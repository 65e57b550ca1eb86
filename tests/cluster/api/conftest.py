"""A node of one behind real sockets, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from json_client import Client
from ports import free_ports
from single_node import Served, config_for, serve


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    running = await serve(config_for(free_ports(3), tmp_path))
    yield running
    await running.server.stop()


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(session, served.http)
