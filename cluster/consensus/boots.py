"""The count of starts goes on while the node runs, and the peers are told.

So a copy of the data that was made while it ran is known for what it is: put back, it comes with a
count that its peers have seen already. Only one made in the last moments before is not.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from raftflow.cluster.background import end, in_thread, spawn
from raftflow.cluster.consensus.channel import PeerChannel
from raftflow.cluster.consensus.identity import Identity, write_identity
from raftflow.cluster.consensus.ledger import PeerLedger
from raftflow.cluster.consensus.mesh import Mesh

METHOD = "boots"
PERIOD_S = 10.0
_COUNT = struct.Struct("<Q")


class BootCount:
    def __init__(
        self,
        *,
        data_dir: str,
        identity: Identity,
        mesh: Mesh,
        channel: PeerChannel,
        ledger: PeerLedger,
        fatal: Callable[[BaseException], NoReturn],
        period_s: float = PERIOD_S,
    ) -> None:
        self._data_dir = data_dir
        self._identity = identity
        self._mesh = mesh
        self._channel = channel
        self._ledger = ledger
        self._fatal = fatal
        self._period_s = period_s
        self._task: asyncio.Task[None] | None = None
        channel.register(METHOD, self._on_count)

    def start(self) -> None:
        self._task = spawn(self._run(), name="boot-count", fatal=self._fatal)

    async def stop(self) -> None:
        await end(self._task)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._period_s)
            self._identity = replace(self._identity, boots=self._identity.boots + 1)
            # On this disk first: nobody may have seen more than it can come back with.
            await in_thread(write_identity, self._data_dir, self._identity)
            self._mesh.count_boots(self._identity.boots)
            for peer, hello in list(self._mesh.known.items()):
                if hello.boots > 0:  # releases before 0.3 do not listen
                    self._channel.notify(peer, METHOD, _COUNT.pack(self._identity.boots))

    async def _on_count(self, peer: str, payload: bytes) -> bytes:
        hello = self._mesh.known.get(peer)
        if hello is not None and len(payload) == _COUNT.size:
            self._ledger.note(replace(hello, boots=_COUNT.unpack(payload)[0]))
            try:
                await self._ledger.written()
            except OSError as error:
                self._fatal(error)  # Rule 8; the channel would only log it.
        return b""
