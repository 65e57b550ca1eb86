"""`peers.json`: which disks the peers have come with, and how often each of them was started.

It is written before a connection with a start that is not in it is used. So a node that has worked
with us can never come back as a copy of its data from before that, which would lack votes and
acknowledgements that others count on.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict

import structlog

from raftflow.cluster.background import in_thread
from raftflow.cluster.consensus.handshake import (
    STALE_DATA,
    Boot,
    HandshakeError,
    Hello,
    outdated,
)
from raftflow.cluster.durable import replace_durably

log = structlog.get_logger()

FILE = "peers.json"
FORMAT_VERSION = 1


class PeerLedger:
    """Boots by peer, one a disk, in the order in which the disks were first seen."""

    def __init__(self, path: str, boots: dict[str, tuple[Boot, ...]]) -> None:
        self._path = path
        self._boots = boots
        self._durable = dict(boots)
        # The disk of each peer that counts while the configuration records none. Grows.
        self.first_seen = {peer: each[0].incarnation for peer, each in boots.items() if each}
        self._writing = asyncio.Lock()

    @classmethod
    def open(cls, data_dir: str) -> PeerLedger:
        """A damaged file is set aside: what it guards against is rare, and peers guard too."""
        path = os.path.join(data_dir, FILE)
        try:
            with open(path, "rb") as file:
                return cls(path, _parse(file.read()))
        except FileNotFoundError:
            return cls(path, {})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            os.replace(path, path + ".damaged")
            log.error("peers_file_damaged", path=path, error=str(error), kept=path + ".damaged")
            return cls(path, {})

    def judge(self, hello: Hello) -> None:
        """Raises HandshakeError for an old copy."""
        for boot in self._boots.get(hello.node_id, ()):
            if boot.outdates(hello.boot):
                raise HandshakeError(STALE_DATA, outdated(hello.node_id, boot, hello.boot))

    def newest(self, peer: str) -> Boot | None:
        """The latest disk's latest start."""
        boots = self._boots.get(peer)
        return boots[-1] if boots else None

    def note(self, hello: Hello) -> bool:
        """Take a boot in; True when it must be `written` before anything is done with that peer."""
        known = self._boots.get(hello.node_id, ())
        boot = hello.boot
        same_disk = [each for each in known if each.incarnation == boot.incarnation]
        if same_disk and (boot.boots == 0 or same_disk[0] == boot):
            return self._durable != self._boots
        if same_disk:
            known = tuple(boot if each is same_disk[0] else each for each in known)
        else:
            known = (*known, boot)
        self._boots[hello.node_id] = known
        self.first_seen.setdefault(hello.node_id, boot.incarnation)
        return True

    def note_own(self, mine: Hello, seen: Boot) -> None:
        """A peer has met this node as `seen`. If that is another disk, this one replaced it, and
        counts only once the configuration records it: this node must not campaign before."""
        if seen.incarnation not in ("", mine.incarnation) and mine.node_id not in self._boots:
            self._boots[mine.node_id] = (seen,)
            self.first_seen[mine.node_id] = seen.incarnation

    async def written(self) -> None:
        """Return when all that was noted is on disk."""
        async with self._writing:
            if self._durable == self._boots:
                return
            boots = dict(self._boots)
            await in_thread(replace_durably, self._path, _encode(boots))
            self._durable = boots


def _encode(boots: dict[str, tuple[Boot, ...]]) -> bytes:
    peers = {peer: [asdict(boot) for boot in each] for peer, each in sorted(boots.items())}
    return json.dumps({"format": FORMAT_VERSION, "peers": peers}, indent=2).encode() + b"\n"


def _parse(content: bytes) -> dict[str, tuple[Boot, ...]]:
    document = json.loads(content)
    if document["format"] != FORMAT_VERSION:
        raise ValueError(f"format {document['format']!r}, this release reads {FORMAT_VERSION}")
    found: dict[str, tuple[Boot, ...]] = {}
    for peer, boots in document["peers"].items():
        found[peer] = tuple(Boot(**boot) for boot in boots)
        for boot in found[peer]:
            if not isinstance(boot.incarnation, str) or type(boot.boots) is not int:
                raise ValueError(f"a start of {peer!r} is not one")
    return found
