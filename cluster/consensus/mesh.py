"""Every connection of this node to its peers: the listener, the dialling, the liveness sweep.

Per pair of nodes and purpose there is one connection, and the node with the lower id dials it. So
there is nothing to break a tie about: a second connection can only be the successor of one that the
dialler has already given up, and it takes its place. A node that was away while others joined does
not know whom to dial: it is dialled by them.
"""

from __future__ import annotations

import asyncio
import errno
import math
import random
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import structlog

from raftflow.cluster.consensus.certified import PeerTls
from raftflow.cluster.consensus.contacts import Contacts
from raftflow.cluster.consensus.handshake import (
    NOT_A_MEMBER,
    Boot,
    HandshakeError,
    Hello,
    Purpose,
    check_answer,
    check_call,
    check_own_data,
)
from raftflow.cluster.consensus.ledger import PeerLedger
from raftflow.cluster.consensus.link import Link, LinkLimits
from raftflow.cluster.listener import TlsListener, bound

log = structlog.get_logger()

_REFUSED_PAUSE_S = 1.0
_SETTLED_S = 1.0
_REPEAT_LOG_S = 10.0
# A peer that should have called by now may not know that this node is a member; and whoever asks
# why it is away is told what a call meets.
_UNCALLED_S = 2.0


class AddressUnavailable(Exception):
    """The listening address cannot be bound; says which and why."""


class LinkHandler(Protocol):
    """The owner of one purpose."""

    def link_up(self, link: Link) -> None: ...
    def link_frame(self, link: Link, payload: bytes) -> None: ...
    def link_down(self, link: Link, *, died: bool) -> None: ...


class Mesh:
    def __init__(
        self,
        *,
        hello: Hello,
        listen: str,
        peers: Mapping[str, str],
        handlers: Mapping[Purpose, LinkHandler],
        ledger: PeerLedger | None = None,
        on_refused: Callable[[str, HandshakeError], None] = lambda peer, refusal: None,
        on_error: Callable[[BaseException], object] = lambda error: None,
        limits: LinkLimits | None = None,
        tls: PeerTls | None = None,
    ) -> None:
        self.limits = limits or LinkLimits()
        self.known: dict[str, Hello] = {}
        self.contacts = Contacts()
        self.contacts.follow(peers)
        self._hello = hello
        self._listen = listen
        self._peers = dict(peers)
        self._handlers = dict(handlers)  # of the purposes that are served; more may come
        self._ledger = ledger
        # Told of what a peer will not have us for.
        self._on_refused = on_refused
        self._on_error = on_error
        self._noting: set[asyncio.Task[None]] = set()
        self._tls = tls
        self._ids = frozenset(self._peers)
        self._server: asyncio.Server | TlsListener | None = None
        self._links: dict[tuple[str, Purpose], Link] = {}
        self._all: dict[Link, None] = {}  # oldest first
        self._dialers: dict[str, list[asyncio.Task[None]]] = {}
        self._started = False
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._swept_at = 0.0
        self._failures: dict[str, dict[str, tuple[float, int]]] = {}
        self._stopping = False

    @property
    def started(self) -> bool:
        return self._started

    @property
    def bytes_received(self) -> int:
        return sum(link.bytes_received for link in self._links.values())

    @property
    def refused_hosts(self) -> Mapping[str, tuple[float, str]]:
        """Where the last callers came from with whom TLS failed: when, and why."""
        return self._server.refused if isinstance(self._server, TlsListener) else {}

    def link(self, peer: str, purpose: Purpose) -> Link | None:
        return self._links.get((peer, purpose))

    async def bind(self) -> None:
        """Take the port; accept nobody yet."""
        host, port = split_address(self._listen)
        with self._naming_the_address():
            if self._tls is None:
                self._server = await asyncio.get_running_loop().create_server(
                    lambda: Link(self), host, port, start_serving=False
                )
            else:
                self._server = TlsListener(
                    await bound(host, port),
                    lambda: Link(self),
                    self._tls.accepting,
                    what="raft",
                    timeout_s=self.limits.handshake_timeout_ms / 1000,
                    most=self.limits.max_unknown_connections,
                    clear_too=self._tls.optional,
                )

    @contextmanager
    def _naming_the_address(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = "another process listens on it" if error.errno == errno.EADDRINUSE else str(error)
            raise AddressUnavailable(
                f"cannot listen on raft address {self._listen}: {why}. "
                "Stop that process or choose another address for this node."
            ) from error

    async def start(self) -> None:
        assert self._server is not None, "bind() comes first"
        with self._naming_the_address():
            await self._server.start_serving()
        self._sweep()
        self._started = True
        for peer in self._peers:
            self._begin_dialling(peer)

    def follow(self, peers: Mapping[str, str], *, configuration: int) -> None:
        """The other members from now on, and the index at which they became that, which this node
        tells whoever it meets."""
        self._hello = replace(self._hello, configuration=configuration)
        before, self._peers = self._peers, dict(peers)
        self._ids = frozenset(self._peers)
        self.contacts.follow(self._ids)
        for peer in before.keys() - peers.keys():
            self._stop_dialling(peer)
            for purpose in self._handlers:
                if (link := self.link(peer, purpose)) is not None:
                    link.close(NOT_A_MEMBER, f"as of entry {configuration}")
        for peer, address in self._peers.items():
            if before.get(peer) != address and self._started:
                self._stop_dialling(peer)
                self._begin_dialling(peer)

    def is_member(self, peer: str) -> bool:
        """Whether our own log says so, whatever the peer claims."""
        return peer in self._ids

    def admit(self, purpose: Purpose, handler: LinkHandler) -> None:
        """Serve this purpose too, from now on."""
        self._handlers[purpose] = handler
        if self._started:
            for peer in self._peers:
                self._dialers.setdefault(peer, []).append(self._dialler(peer, purpose))

    def count_boots(self, boots: int) -> None:
        """What this node says of its disk from now on."""
        self._hello = replace(self._hello, boots=boots)

    async def stop(self) -> None:
        self._stopping = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        if self._server is not None:
            self._server.close()
        dialers = [task for tasks in self._dialers.values() for task in tasks]
        for task in dialers:
            task.cancel()
        await asyncio.gather(*dialers, return_exceptions=True)
        for link in list(self._all):
            link.close("stopping")
        await asyncio.gather(*(link.ended for link in list(self._all)))
        await asyncio.gather(*self._noting, return_exceptions=True)

    # LinkOwner --------------------------------------------------------------------------------

    def link_opened(self, link: Link) -> None:
        """Register it. Of too many callers that have not said who they are, the one that takes
        longest goes: a peer says it at once, and is let in however many others do not."""
        self._all[link] = None
        link.ended.add_done_callback(lambda _: self._all.pop(link, None))
        strangers = [each for each in self._all if each.unknown_caller]
        if len(strangers) > self.limits.max_unknown_connections:
            strangers[0].close("too_many_connections")

    def hello_for(self, call: Hello) -> Hello:
        mine = self._hello
        check_call(call, mine=mine, peers=self._ids)
        if call.purpose not in self._handlers:
            raise HandshakeError("repairing", "this node's log is damaged, it takes no part yet")
        answer = mine.to(call.node_id, Purpose(call.purpose), self._seen(call.node_id))
        self._judge(call, mine=mine)
        return answer

    def check_answer(self, answer: Hello, *, mine: Hello) -> None:
        check_answer(answer, mine=mine)
        self._judge(answer, mine=mine)

    def link_ready(self, link: Link) -> None:
        assert link.peer is not None
        if self._stopping:
            link.close("stopping")
        elif self._ledger is not None and self._ledger.note(link.peer):
            link.hold()
            noting = asyncio.create_task(self._note(link), name=f"note-{link.peer_id}")
            self._noting.add(noting)
            noting.add_done_callback(self._noting.discard)
        else:
            self._use(link)

    async def _note(self, link: Link) -> None:
        """The start of a peer must be on disk before the peer is counted on."""
        assert self._ledger is not None
        try:
            await self._ledger.written()
        except OSError as error:
            self._on_error(error)
            return
        if self._stopping:
            link.close("stopping")
        elif not link.closed:
            self._use(link)
            link.release()

    def _use(self, link: Link) -> None:
        assert link.peer is not None
        key = (link.peer_id, link.purpose)
        old = self._links.get(key)
        before = self.known.get(link.peer_id)
        self.known[link.peer_id] = link.peer
        if old is not None:
            old.close("replaced", f"by {link.address}")
        if before is not None and before.incarnation != link.peer.incarnation:
            log.warning(
                "peer_incarnation_changed",
                peer=link.peer_id,
                before=before.incarnation,
                now=link.peer.incarnation,
            )
        self._links[key] = link
        self._failures.pop(link.peer_id, None)
        if link.purpose is Purpose.RAFT:
            self.contacts.up(link.peer_id)
        log.info("link_up", peer=link.peer_id, purpose=link.purpose.value, address=link.address)
        self._handlers[link.purpose].link_up(link)

    def link_frame(self, link: Link, payload: bytes) -> None:
        self._handlers[link.purpose].link_frame(link, payload)

    def link_closed(self, link: Link) -> None:
        if link.peer is None:
            self._log_failure(link)
            if not self._stopping:
                self.contacts.call_failed(link.peer_id or link.claimed, link)
            if link.refusal is not None and link.refusal.told_by_peer and link.dialled:
                self._on_refused(link.peer_id, link.refusal)
            return
        link.log_closed()
        key = (link.peer_id, link.purpose)
        if self._links.get(key) is link:
            del self._links[key]
            if link.purpose is Purpose.RAFT:
                self.contacts.down(link.peer_id, link)
            # Replaced by a connection of the same process: it lives, only the path broke.
            known = self.known.get(link.peer_id)
            same = known is not None and known.boot_id == link.peer.boot_id
            parted = link.reason == NOT_A_MEMBER or (link.reason == "replaced" and same)
            died = not self._stopping and not parted
            self._handlers[link.purpose].link_down(link, died=died)

    # ------------------------------------------------------------------------------------------

    def _seen(self, peer: str) -> Boot | None:
        return None if self._ledger is None else self._ledger.newest(peer)

    def _judge(self, theirs: Hello, *, mine: Hello) -> None:
        """Neither side may be an old copy of a disk that the other has met. And one that has met
        this node on another disk tells it that its promises are gone."""
        if self._ledger is not None:
            self._ledger.judge(theirs)
            self._ledger.note_own(mine, theirs.seen)
        try:
            check_own_data(theirs, mine=mine)
        except HandshakeError as error:
            self._on_refused(theirs.node_id, error)
            raise

    def _begin_dialling(self, peer: str) -> None:
        self._dialers[peer] = [self._dialler(peer, purpose) for purpose in self._handlers]

    def _dialler(self, peer: str, purpose: Purpose) -> asyncio.Task[None]:
        dial = self._keep_dialling if self._hello.node_id < peer else self._dial_if_uncalled
        return asyncio.create_task(
            dial(peer, self._peers[peer], purpose), name=f"dial-{peer}-{purpose}"
        )

    def _stop_dialling(self, peer: str) -> None:
        for task in self._dialers.pop(peer, []):
            task.cancel()

    async def _dial_if_uncalled(self, peer: str, address: str, purpose: Purpose) -> None:
        while True:
            await asyncio.sleep(_UNCALLED_S * random.uniform(1.0, 1.5))
            link = self.link(peer, purpose) or await self._dial(peer, address, purpose)
            if link is not None:
                await asyncio.shield(link.ended)

    async def _keep_dialling(self, peer: str, address: str, purpose: Purpose) -> None:
        loop = asyncio.get_running_loop()
        pause = self.limits.backoff_min_ms / 1000
        while True:
            began = loop.time()
            link = await self._dial(peer, address, purpose)
            if link is not None:
                # Shielded: to cancel this task is not to forget the link.
                await asyncio.shield(link.ended)
            if link is not None and link.peer is not None and loop.time() - began > _SETTLED_S:
                # A short life is no success: two processes with one id would chase each other.
                pause = self.limits.backoff_min_ms / 1000
            elif link is not None and link.refused:
                # An operator has to act, so there is no hurry.
                pause = _REFUSED_PAUSE_S
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, self.limits.backoff_max_ms / 1000)

    async def _dial(self, peer: str, address: str, purpose: Purpose) -> Link | None:
        """Connect; the name is resolved by the loop's resolver, in another thread."""
        host, port = split_address(address)
        hello = self._hello.to(peer, purpose, self._seen(peer))
        try:
            async with asyncio.timeout(self.limits.connect_timeout_ms / 1000):
                return await self._connect(host, port, hello)
        except (OSError, TimeoutError, ssl.SSLError) as error:
            self.contacts.dial_failed(peer, error)
            repeated = self._repetition(peer, purpose.value)
            if repeated is not None:
                log.info(
                    "dial_failed",
                    peer=peer,
                    address=address,
                    purpose=purpose.value,
                    error=str(error) or type(error).__name__,
                    repeated=repeated,
                )
            return None

    async def _connect(self, host: str, port: int, hello: Hello) -> Link:
        if self._tls is not None:
            try:
                return await self._open(host, port, hello, self._tls.dialling())
            except (ssl.SSLError, ConnectionError):
                if not self._tls.optional:
                    raise
        return await self._open(host, port, hello, None)

    async def _open(
        self, host: str, port: int, hello: Hello, context: ssl.SSLContext | None
    ) -> Link:
        link = Link(self, hello)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: link,
                host,
                port,
                ssl=context,
                server_hostname=host if context is not None else None,
            )
        except BaseException:
            # uvloop closes the socket of a dial that is given up just as it connects and does not
            # tell its protocol, for whose end `stop` would wait.
            if link in self._all:
                link.connection_lost(None)
            raise
        return link

    def _log_failure(self, link: Link) -> None:
        """A dial that is refused again and again is one story, told every ten seconds; so are the
        calls that are refused here for one reason: anybody can make as many as he likes."""
        repeated = self._repetition(link.peer_id, link.reason)
        if repeated is not None:
            link.log_closed(repeated=repeated)

    def _repetition(self, peer: str, what: str) -> int | None:
        now = asyncio.get_running_loop().time()
        failures = self._failures.setdefault(peer, {})
        told_at, count = failures.get(what, (-math.inf, 0))
        if now - told_at < _REPEAT_LOG_S:
            failures[what] = (told_at, count + 1)
            return None
        failures[what] = (now, 0)
        return count

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now, interval = loop.time(), self.limits.keepalive_ms / 1000
        # After a pause of our own (SIGSTOP, swap) the peers' words still wait in the sockets.
        overslept = self._swept_at > 0 and now - self._swept_at > 2 * interval
        self._swept_at = now
        for link in list(self._all):
            if overslept:
                link.heard_at = max(link.heard_at, now - interval)
            link.sweep(now)
        self._sweep_timer = loop.call_later(interval, self._sweep)


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"not a host:port address: {address!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)
