"""How each peer is reached from here: connected since when, or not since when and why.

The mesh notes it as it happens, for whoever asks why a node is away. What a caller says of itself
before it has proved it is noted only of members, and of a few strangers: the last of their words.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from raftflow.cluster.consensus.certified import WRONG_CERTIFICATE
from raftflow.cluster.consensus.handshake import WRONG_DIRECTION
from raftflow.cluster.consensus.link import Link

# Nodes that were removed, and callers that never belonged here.
_STRANGERS = 16
_NOT_TRUSTED = "it hung up when it had seen this node's certificate: as a rule it does not trust it"


class Trouble(StrEnum):
    """What kept a peer away last."""

    NOT_TRIED = "not_tried"  # it is for the peer to call, and it has not
    CONNECTION_REFUSED = "connection_refused"  # nobody listens there
    NO_ANSWER = "no_answer"  # packets vanish, or the machine is off
    NO_ROUTE = "no_route"
    UNKNOWN_HOST = "unknown_host"
    TLS = "tls"  # one side does not trust the other's certificate
    SILENT = "silent"  # it takes connections and says nothing
    ONE_WAY = "one_way"  # it answers, but has not called as it should
    FELL_SILENT = "fell_silent"  # it was connected: the next call shows whether the way is gone
    REFUSED_BY_PEER = "refused_by_peer"
    REFUSED_HERE = "refused_here"
    HUNG_UP = "hung_up"


@dataclass(frozen=True, slots=True)
class Contact:
    """A peer as it is reached from here; all times by the monotonic clock. ``detail`` are the words
    of the error, or ``reason: detail`` of a refusal."""

    connected: bool
    since_s: float
    trouble: Trouble = Trouble.NOT_TRIED
    detail: str = ""
    at_s: float = 0.0
    # The last time that one of both would not have the other: it may have ended because of that.
    refusal: str = ""
    refused_at_s: float = 0.0


class Contacts:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._peers: frozenset[str] = frozenset()
        self._known: dict[str, Contact] = {}  # oldest first

    def follow(self, peers: Collection[str]) -> None:
        """The other members from now on. Of those that left, the last is kept."""
        self._peers = frozenset(peers)
        for peer in sorted(self._peers - self._known.keys()):
            self._known[peer] = Contact(connected=False, since_s=self._now())
        self._bound()

    def all(self) -> dict[str, Contact]:
        return dict(self._known)

    def up(self, peer: str) -> None:
        before = self._known.get(peer)
        if before is None or not before.connected:
            self._note(
                peer, replace(before or Contact(True, 0.0), connected=True, since_s=self._now())
            )

    def down(self, peer: str, link: Link) -> None:
        """The connection for Raft messages has ended."""
        trouble, detail = _of_link(link)
        now = self._now()
        before = self._known.get(peer) or Contact(False, now)
        after = replace(
            before, connected=False, since_s=now, trouble=trouble, detail=detail, at_s=now
        )
        self._note(peer, _with_refusal(after))

    def call_failed(self, peer: str, link: Link) -> None:
        """Two did not come to terms."""
        if _in_the_wrong_direction(link) and not link.dialled:
            return  # what this node meets when it calls itself says more
        trouble, detail = _of_link(link)
        # One that nobody can name is not worth a place.
        if peer and (peer in self._peers or trouble is Trouble.REFUSED_HERE):
            self._failed(peer, trouble, detail)

    def dial_failed(self, peer: str, error: Exception) -> None:
        self._failed(peer, *_of_error(error))

    def _failed(self, peer: str, trouble: Trouble, detail: str) -> None:
        before = self._known.get(peer) or Contact(False, self._now())
        if before.connected:
            return  # there is one that works
        after = replace(before, trouble=trouble, detail=detail, at_s=self._now())
        self._note(peer, _with_refusal(after))

    def _note(self, peer: str, contact: Contact) -> None:
        self._known.pop(peer, None)
        self._known[peer] = contact
        self._bound()

    def _bound(self) -> None:
        strangers = [peer for peer in self._known if peer not in self._peers]
        for peer in strangers[: max(0, len(strangers) - _STRANGERS)]:
            del self._known[peer]


def _with_refusal(contact: Contact) -> Contact:
    if contact.trouble in (Trouble.REFUSED_BY_PEER, Trouble.REFUSED_HERE, Trouble.TLS):
        return replace(contact, refusal=contact.detail, refused_at_s=contact.at_s)
    return contact


def _in_the_wrong_direction(link: Link) -> bool:
    return link.refusal is not None and link.refusal.reason == WRONG_DIRECTION


def _of_link(link: Link) -> tuple[Trouble, str]:
    reason, detail = link.reason, link.detail
    if _in_the_wrong_direction(link):
        return Trouble.ONE_WAY, detail
    if reason == WRONG_CERTIFICATE or isinstance(link.error, ssl.SSLError):
        return Trouble.TLS, detail
    unheard = link.dialled and link.peer is None and not link.refused
    ended = reason in ("peer_closed", "connection_lost")
    if unheard and ended and link.certified is not None:  # TLS 1.3 says no more to the caller
        return Trouble.TLS, _NOT_TRUSTED
    if reason == "peer_silent":
        return Trouble.FELL_SILENT, detail
    if reason == "handshake_timeout":
        return Trouble.SILENT, detail
    if reason == "refused_by_peer":
        return Trouble.REFUSED_BY_PEER, detail
    if ended or reason in ("stopping", "replaced"):
        return Trouble.HUNG_UP, detail
    return Trouble.REFUSED_HERE, f"{reason}: {detail}" if detail else reason


def _of_error(error: Exception) -> tuple[Trouble, str]:
    """Of an attempt to connect. (An error of TLS is one of the system, too.)"""
    said = str(error)
    match error:
        case ssl.SSLCertVerificationError():
            return Trouble.TLS, f"its certificate is not trusted: {error.verify_message}"
        case ssl.SSLError():
            return Trouble.TLS, error.reason or said
        case ConnectionRefusedError():
            return Trouble.CONNECTION_REFUSED, said
        case TimeoutError():
            return Trouble.NO_ANSWER, said
        case socket.gaierror():
            return Trouble.UNKNOWN_HOST, said
        case ConnectionError():
            return Trouble.HUNG_UP, said
    return Trouble.NO_ROUTE, said
