"""A client of the JSON API that shows raw answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL


@dataclass(slots=True)
class Reply:
    status: int
    headers: Any
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class Client:
    """Paths go out as they are written: encoded ids stay encoded. Of a stream of events only the
    head is read."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self.base = base

    async def call(
        self, method: str, path: str, body: Any = None, *, data: bytes | None = None, **headers: str
    ) -> Reply:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            data = json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        url = URL(self.base + path, encoded=True)
        async with self._session.request(method, url, data=data, headers=sent) as answer:
            endless = answer.content_type == "text/event-stream"
            content = b"" if endless else await answer.read()
            return Reply(answer.status, answer.headers, content)

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.call("GET", path, **headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        return await self.call("POST", path, {} if body is None else body, **headers)
